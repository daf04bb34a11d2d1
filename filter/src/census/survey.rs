//! The combined last replies of all counters.

use super::count_state::CountState;
use super::index::{IndexEntry, is_rejected};
use super::messages::CountReply;
use crate::config::wire::Scope;
use crate::host::Control;

/// A number for streams of the gate's scopes, and one for streams of other scopes.
pub(crate) type Sides = [u64; 2];

/// Whether a counter still replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Liveness {
    /// It has replied recently.
    Fresh,
    /// It may still reply.
    Pending,
    /// It does not reply any more.
    Lost,
    /// It was written off, and its streams were subtracted from the count.
    WrittenOff,
}

/// The counters of the gate's scopes, by liveness.
#[derive(Debug, Default)]
pub(super) struct ByLiveness {
    pub(super) fresh: Vec<IndexEntry>,
    pending: Vec<IndexEntry>,
    pub(super) lost: Vec<IndexEntry>,
}

impl ByLiveness {
    pub(super) fn push(&mut self, liveness: Liveness, entry: IndexEntry) {
        match liveness {
            Liveness::Fresh => self.fresh.push(entry),
            Liveness::Pending => self.pending.push(entry),
            Liveness::Lost => self.lost.push(entry),
            Liveness::WrittenOff => {}
        }
    }

    pub(super) fn count_state(&self, host: &impl Control, scopes: &[Scope]) -> CountState {
        let has_counter = |scope: &Scope| {
            [&self.fresh, &self.pending].into_iter().flatten().any(|entry| entry.scope == *scope)
        };
        if !self.lost.is_empty() {
            CountState::Leaking
        } else if !scopes.iter().all(has_counter) {
            CountState::Unknown
        } else if scopes.iter().any(|scope| is_rejected(host, *scope)) {
            CountState::Rejected
        } else if !self.pending.is_empty() {
            CountState::Asking
        } else {
            CountState::Exact
        }
    }
}

/// The options of a survey.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SurveyOptions<'s> {
    pub(crate) scopes: &'s [Scope],
    /// Long-lived streams do not hold the drain.
    pub(crate) exempts_long_lived: bool,
    /// The first round whose replies count for [`Survey::ignorable_in_flight`].
    pub(crate) ignorable_since: u64,
    /// How long Envoy's main thread has been busy with queries.
    pub(crate) busy: u64,
}

/// The combined last replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Survey {
    /// The state by the counters alone, without Envoy's own count.
    pub(crate) count_state: CountState,
    /// Streams in flight of the counters that replied.
    pub(crate) in_flight: u64,
    /// Counters that replied.
    pub(crate) counters: u64,
    /// Queues of counters that do not reply any more.
    pub(crate) lost: Vec<u32>,
    /// Whether one of them has not been silent for long, so that its worker may be alive.
    pub(crate) may_revive: bool,
    /// The time since which all counters that replied have counted.
    pub(crate) counting_since: u64,
    /// The time until which all counters that replied are known to have been alive.
    pub(crate) alive_until: u64,
    /// The last round to which every counter that may reply has replied.
    pub(crate) completed_round: u64,
    /// Streams in flight that do not hold the drain, of the counters that replied to a round from
    /// [`SurveyOptions::ignorable_since`] on.
    pub(crate) ignorable_in_flight: Sides,
}

impl Survey {
    pub(super) fn new() -> Self {
        Self {
            count_state: CountState::Exact,
            in_flight: 0,
            counters: 0,
            lost: Vec::new(),
            may_revive: false,
            counting_since: 0,
            alive_until: u64::MAX,
            completed_round: u64::MAX,
            ignorable_in_flight: [0; 2],
        }
    }

    /// Adds the reply of one counter.
    pub(super) fn add(
        &mut self,
        entry: &IndexEntry,
        reply: &CountReply,
        options: SurveyOptions<'_>,
        now: u64,
    ) {
        let is_current = reply.round >= options.ignorable_since;
        let [own, other] = &mut self.ignorable_in_flight;
        if !options.scopes.contains(&entry.scope) {
            *other += if is_current { reply.in_flight + reply.excluded } else { 0 };
            return;
        }
        // A time in the future is of another clock: it comes from a module version that used wall
        // time.
        self.counting_since = self.counting_since.max(entry.since.min(now));
        self.in_flight += reply.in_flight;
        if is_current {
            let long_lived = if options.exempts_long_lived { reply.long_lived } else { 0 };
            *own += reply.excluded + long_lived;
        }
        self.alive_until = self.alive_until.min(reply.requested_at);
    }
}
