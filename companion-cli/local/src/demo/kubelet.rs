//! Stops a gateway's container by Kubernetes' rules, as measured on a real kubelet. The hook runs
//! within the grace period; then comes SIGTERM. SIGKILL follows at the end of the grace period, but
//! at least a short time after SIGTERM.

use std::time::Duration;

use super::agent::Agent;
use super::clock::Clock;
use super::hook::Hook;
use super::record::{Actor, LaneMark, Record};
use super::times::Times;

#[derive(Clone, Copy)]
pub(super) struct Kubelet<'a> {
    pub(super) times: &'a Times,
    pub(super) record: &'a Record<'a>,
    pub(super) clock: &'a Clock,
}

impl Kubelet<'_> {
    /// Stops the container, and waits until it has ended. The grace period begins now.
    pub(super) fn stop(self, agent: &Agent, hook: Option<&Hook<'_>>) {
        let grace_ends = self.clock.now() + self.times.grace_period;
        if let Some(hook) = hook {
            self.run(hook, grace_ends);
        }
        self.record.note(Actor::Gateway, "SIGTERM");
        agent.terminate();
        let last = grace_ends.max(self.clock.now() + self.times.kubelet);
        self.clock.until(|| agent.has_ended() || self.clock.now() >= last);
        if !agent.has_ended() {
            let words = "SIGKILL: the grace period is over";
            self.record.mark(Actor::Gateway, words, LaneMark::Killed);
            agent.kill();
            self.clock.until(|| agent.has_ended());
        }
    }

    fn run(self, hook: &Hook<'_>, grace_ends: Duration) {
        self.record.note(Actor::Hook, format!("begins: {}", hook.name));
        let (words, how, is_cut) = match hook.run(self.clock, grace_ends) {
            Ok(outcome) => (outcome, "ends", false),
            Err(waits_for) => (waits_for, "is cut at the end of the grace period", true),
        };
        self.record.note(Actor::Hook, format!("{how}: {words}"));
        self.record.hook_ended(words, is_cut);
    }
}
