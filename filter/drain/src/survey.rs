//! The combined last replies of all counters.

use crate::census::{Census, KnownCounter, Liveness};
use crate::count_state::CountState;
use crate::facts::{Facts, IndexEntry, Sides};
use crate::messages::Reply;
use crate::policy::Policy;
use crate::scope::Scope;

/// The combined last replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// The state by the counters alone, without Envoy's own count.
    pub count_state: CountState,
    /// Streams in flight of the counters that replied.
    pub in_flight: u64,
    /// Counters that replied.
    pub counters: u64,
    /// Queues of counters that do not reply any more.
    pub lost: Vec<u32>,
    /// Whether one of them has not been silent for long, so that its worker may be alive.
    pub may_revive: bool,
    /// The time since which all counters that replied have counted.
    pub counting_since: u64,
    /// The time until which all counters that replied are known to have been alive.
    pub alive_until: u64,
    /// The last round to which every counter that may reply has replied.
    pub completed_round: u64,
    /// Streams in flight that do not hold the drain, of the counters that replied after the last
    /// sample of Envoy's count.
    pub ignorable_in_flight: Sides,
    /// Streams in flight of other scopes, by their counters that are not dead.
    pub others_in_flight: u64,
    /// Whether a counter of another scope is dead. If no gate waits for its scope, the gauge shows
    /// its streams for ever.
    pub others_died: bool,
}

/// The counters of the gate's scopes, by liveness.
#[derive(Default)]
struct ByLiveness {
    replying: Vec<Scope>,
    has_pending: bool,
    fresh: u64,
    lost: Vec<u32>,
}

impl ByLiveness {
    fn push(&mut self, liveness: Liveness, entry: &IndexEntry) {
        match liveness {
            Liveness::Fresh => {
                self.fresh += 1;
                self.replying.push(entry.scope);
            }
            Liveness::Pending => {
                self.has_pending = true;
                self.replying.push(entry.scope);
            }
            Liveness::Lost => self.lost.push(entry.queue),
            Liveness::WrittenOff => {}
        }
    }

    fn count_state(&self, facts: &Facts<'_>, policy: &Policy) -> CountState {
        if facts.counts.are_impossible(policy.exempts_long_lived) {
            CountState::Miscounted
        } else if !self.lost.is_empty() {
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
}

impl Survey {
    /// Evaluates the last replies of all counters. `ignorable_since`: the first round after the
    /// last sample of Envoy's count.
    pub(crate) fn new(
        census: &Census,
        policy: &Policy,
        facts: &Facts<'_>,
        ignorable_since: u64,
    ) -> Self {
        let (now, busy) = (facts.now, facts.pacing.busy(facts.now));
        let unknown = KnownCounter::default();
        let mut survey = Self {
            count_state: CountState::Exact,
            in_flight: 0,
            counters: 0,
            lost: Vec::new(),
            may_revive: false,
            counting_since: 0,
            alive_until: u64::MAX,
            completed_round: census.round,
            ignorable_in_flight: [0; 2],
            others_in_flight: 0,
            others_died: false,
        };
        let mut by_liveness = ByLiveness::default();
        for entry in &facts.index {
            let known = census.find(entry.queue).unwrap_or(&unknown);
            let liveness = known.liveness(entry, now, busy);
            if liveness == Liveness::Fresh {
                survey.add(entry, &known.last_reply, policy, now, ignorable_since);
            }
            if matches!(liveness, Liveness::Fresh | Liveness::Pending) {
                survey.completed_round = survey.completed_round.min(known.last_reply.round);
            }
            if policy.scopes.contains(&entry.scope) {
                survey.may_revive |= liveness == Liveness::Lost && !known.is_dead(now);
                by_liveness.push(liveness, entry);
            } else {
                let streams = known.streams(liveness, now);
                survey.others_died |= streams.is_none();
                survey.others_in_flight += streams.unwrap_or_default();
            }
        }
        if by_liveness.fresh == 0 {
            (survey.counting_since, survey.alive_until) = (now, now);
        }
        survey.count_state = by_liveness.count_state(facts, policy);
        survey.counters = by_liveness.fresh;
        survey.lost = by_liveness.lost;
        survey
    }

    fn add(&mut self, entry: &IndexEntry, reply: &Reply, policy: &Policy, now: u64, since: u64) {
        let is_current = reply.round >= since;
        let [own, other] = &mut self.ignorable_in_flight;
        if !policy.scopes.contains(&entry.scope) {
            *other += if is_current { reply.in_flight + reply.excluded } else { 0 };
            return;
        }
        // A time in the future is of another clock: it comes from a module version that used wall
        // time.
        self.counting_since = self.counting_since.max(entry.since.min(now));
        self.in_flight += reply.in_flight;
        if is_current {
            let long_lived = if policy.exempts_long_lived { reply.long_lived } else { 0 };
            *own += reply.excluded + long_lived;
        }
        self.alive_until = self.alive_until.min(reply.requested_at);
    }
}
