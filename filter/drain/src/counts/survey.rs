//! The combined last replies of all counters.

use super::census::{Census, KnownCounter, Liveness};
use super::facts::{Facts, IndexEntry, Sides};
use super::messages::Reply;
use crate::state::timing::TICK;
use crate::state::{CountState, DrainPolicy, Millis, Moment, Queue, Scope};

/// The combined last replies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    /// The state by the counters alone, without Envoy's own count.
    pub(crate) count_state: CountState,
    /// Streams in flight of the counters that replied.
    pub(crate) in_flight: u64,
    /// Counters that replied.
    pub(crate) counters: u64,
    /// Queues of counters that are late or dead.
    pub(crate) lost: Vec<Queue>,
    /// Counters that have not replied for a while and are not dead, and the longest silence.
    pub(crate) silent: (u64, Millis),
    /// Whether one of the lost ones is merely late, so that its worker may be alive.
    pub(crate) may_revive: bool,
    /// The time since which all counters that replied have counted; none if none has.
    pub(crate) counting_since: Option<Moment>,
    /// The time until which every counter is known to have been alive that is not dead.
    pub(crate) alive_until: Option<Moment>,
    /// The last round to which every counter has replied that is not dead.
    pub(crate) completed_round: u64,
    /// Streams in flight that do not hold the drain, of the counters that replied after the last
    /// sample of Envoy's count.
    pub(crate) ignorable: Sides,
    /// Streams in flight of other scopes, by their counters that are not dead.
    pub(crate) others_in_flight: u64,
    /// Whether a counter of another scope is dead. If no gate waits for its scope, the gauge shows
    /// its streams without a limit.
    pub(crate) others_died: bool,
}

/// The counters of the gate's scopes, by liveness.
#[derive(Default)]
struct ByLiveness {
    replying: Vec<Scope>,
    has_pending: bool,
}

impl ByLiveness {
    fn count_state(&self, facts: &Facts, policy: &DrainPolicy, lost: &[Queue]) -> CountState {
        if policy.by_envoy {
            return self.beats(lost);
        }
        if facts.counts.are_impossible(policy.exempts_long_lived) {
            CountState::Miscounted
        } else if !lost.is_empty() {
            CountState::Leaking
        } else if !policy.scopes.iter().all(|scope| self.replying.contains(scope)) {
            CountState::Unknown
        } else if policy.scopes.iter().any(|scope| facts.rejected.contains(scope)) {
            CountState::Rejected
        } else if self.has_pending {
            CountState::Asking
        } else {
            CountState::Exact
        }
    }

    /// The state by the gates of all workers, which reply as counters without streams do.
    fn beats(&self, lost: &[Queue]) -> CountState {
        if !lost.is_empty() {
            CountState::Leaking
        } else if self.replying.is_empty() {
            CountState::Unknown
        } else if self.has_pending {
            CountState::Asking
        } else {
            CountState::Envoy
        }
    }
}

impl Survey {
    /// Evaluates the last replies of all counters. `sampled_before`: the first round after the last
    /// sample of Envoy's count.
    pub(crate) fn new(
        census: &Census,
        policy: &DrainPolicy,
        facts: &Facts,
        sampled_before: u64,
    ) -> Self {
        let (now, busy) = (facts.now, facts.shared.pacing.busy(facts.now));
        let unknown = KnownCounter::default();
        let mut survey = Self { completed_round: census.round, ..Self::default() };
        let mut by_liveness = ByLiveness::default();
        for entry in &facts.index {
            let counter = census.find(entry.queue).unwrap_or(&unknown);
            let liveness = counter.liveness(entry, now, busy);
            let is_own = policy.scopes.contains(&entry.scope);
            if liveness == Liveness::Fresh {
                survey.add(is_own, entry, &counter.last_reply, policy, sampled_before);
            }
            if !matches!(liveness, Liveness::Dead | Liveness::WrittenOff) {
                survey.await_reply(counter, now);
            }
            if is_own {
                survey.add_liveness(liveness, entry, counter, &mut by_liveness);
            } else {
                let streams = counter.streams(liveness);
                survey.others_died |= streams.is_none();
                survey.others_in_flight += streams.unwrap_or_default();
            }
        }
        survey.count_state = by_liveness.count_state(facts, policy, &survey.lost);
        survey
    }

    fn await_reply(&mut self, counter: &KnownCounter, now: Moment) {
        self.completed_round = self.completed_round.min(counter.last_reply.round);
        if let Some(silence) = counter.silence(now).filter(|silence| *silence >= TICK) {
            self.silent = (self.silent.0 + 1, self.silent.1.max(silence));
        }
    }

    /// Adds a counter of the gate's scopes. A counter that is late may have ended a stream whose
    /// last bytes its worker has not written yet, so zero is known only up to its last reply.
    fn add_liveness(
        &mut self,
        liveness: Liveness,
        entry: &IndexEntry,
        counter: &KnownCounter,
        by_liveness: &mut ByLiveness,
    ) {
        if matches!(liveness, Liveness::Fresh | Liveness::Pending) {
            by_liveness.replying.push(entry.scope);
            by_liveness.has_pending |= liveness == Liveness::Pending;
        }
        if matches!(liveness, Liveness::Late | Liveness::Dead) {
            self.lost.push(entry.queue);
            self.may_revive |= liveness == Liveness::Late;
        }
        if !matches!(liveness, Liveness::Dead | Liveness::WrittenOff) {
            let requested_at = counter.last_reply.requested_at;
            self.alive_until =
                Some(self.alive_until.map_or(requested_at, |until| until.min(requested_at)));
        }
    }

    fn add(
        &mut self,
        is_own: bool,
        entry: &IndexEntry,
        reply: &Reply,
        policy: &DrainPolicy,
        sampled_before: u64,
    ) {
        let is_current = reply.round >= sampled_before;
        if !is_own {
            self.ignorable.others += if is_current { reply.in_flight + reply.excluded } else { 0 };
            return;
        }
        self.counters += 1;
        self.counting_since = self.counting_since.max(Some(entry.since));
        self.in_flight += reply.in_flight;
        if is_current {
            let long_lived = if policy.exempts_long_lived { reply.long_lived } else { 0 };
            self.ignorable.own += reply.excluded + long_lived;
        }
    }
}
