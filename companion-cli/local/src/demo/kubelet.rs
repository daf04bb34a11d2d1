//! Stops a container by Kubernetes' rules, as measured on a real kubelet. The hook runs within the
//! grace period; then comes SIGTERM. SIGKILL follows at the end of the grace period, but at least a
//! short time after SIGTERM. Containers do not wait for each other, except for native sidecars:
//! their hook begins with the others', and their SIGTERM comes when kubelet has noticed the end of
//! the app.

use std::time::Duration;

use super::clock::Clock;
use super::container::Container;
use super::hook::Hook;
use super::record::{Actor, LaneMark, Record};
use super::times::Times;

pub(super) struct Stopping<'a> {
    pub(super) container: &'a dyn Container,
    pub(super) who: Actor,
    pub(super) hook: Option<Hook<'a>>,
    /// The container that must end before.
    pub(super) after: Option<&'a dyn Container>,
}

#[derive(Clone, Copy)]
pub(super) struct Kubelet<'a> {
    pub(super) times: &'a Times,
    pub(super) record: &'a Record<'a>,
    pub(super) clock: &'a Clock,
}

impl Kubelet<'_> {
    /// Stops a container, and waits until it has ended. The grace period begins now. Returns
    /// whether the container ended by itself, after SIGTERM.
    pub(super) fn stop(self, stopping: &Stopping<'_>) -> bool {
        let Stopping { container, who, .. } = *stopping;
        let grace_ends = self.clock.now() + self.times.grace_period;
        if let Some(hook) = &stopping.hook {
            self.run(hook, grace_ends);
        }
        if let Some(first) = stopping.after {
            self.record.note(who, "stays until the app has ended");
            self.clock.until(|| first.has_ended() || self.clock.now() >= grace_ends);
            self.clock.pause(self.times.notice);
        }
        self.record.note(who, "SIGTERM");
        container.terminate();
        let last = grace_ends.max(self.clock.now() + self.times.kubelet);
        if self.clock.until(|| container.has_ended() || self.clock.now() >= last)
            && container.has_ended()
        {
            return true;
        }
        self.record.mark(who, "SIGKILL: the grace period is over", LaneMark::Killed);
        container.kill();
        self.clock.until(|| container.has_ended());
        false
    }

    fn run(self, hook: &Hook<'_>, grace_ends: Duration) {
        self.record.note(hook.who, format!("begins: {}", hook.name));
        let (words, how, is_cut) = match hook.run(self.clock, grace_ends) {
            Ok(outcome) => (outcome, "ends", false),
            Err(waits_for) => (waits_for, "is cut at the end of the grace period", true),
        };
        self.record.note(hook.who, format!("{how}: {words}"));
        if hook.who == Actor::Hook {
            self.record.proxy_hook_ended(words, is_cut);
        }
    }
}
