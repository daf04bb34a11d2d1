//! Stops a container by Kubernetes' rules, as measured on a real kubelet. The hook runs within the
//! grace period; then comes SIGTERM. SIGKILL follows at the end of the grace period, but at least a
//! short time after SIGTERM. Containers do not wait for each other.

use super::clock::Clock;
use super::container::Container;
use super::hook::Hook;
use super::record::{Actor, Record};
use super::times::Times;

/// The end of a stopped container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// The container ended by itself, after SIGTERM.
    Itself,
    /// SIGKILL ended the container.
    Killed,
}

/// Stops a container, and returns when it has ended. The grace period begins now.
pub(super) fn stop(
    container: &dyn Container,
    hook: Option<&Hook<'_>>,
    who: Actor,
    times: &Times,
    record: &Record<'_>,
    clock: &Clock,
) -> Stopped {
    let began = clock.now();
    let grace_ends = began + times.grace_period;
    if let Some(hook) = hook {
        record.note(Actor::Hook, format!("begins: {}", hook.name()));
        let (words, cut) = match hook.run(grace_ends) {
            Ok(outcome) => (outcome, false),
            Err(waits_for) => (waits_for, true),
        };
        record.note(
            Actor::Hook,
            format!(
                "{}: {words}",
                if cut { "is cut at the end of the grace period" } else { "ends" }
            ),
        );
        record.span(Actor::Hook, began, clock.now(), words, cut);
    }
    record.note(who, "SIGTERM");
    container.terminate();
    let last = grace_ends.max(clock.now() + times.kubelet);
    if clock.until(|| container.has_ended() || clock.now() >= last) && container.has_ended() {
        return Stopped::Itself;
    }
    record.note(who, "SIGKILL: the grace period is over");
    container.kill();
    clock.until(|| container.has_ended());
    Stopped::Killed
}
