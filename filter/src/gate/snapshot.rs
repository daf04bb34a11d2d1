//! A snapshot: the knowledge of one worker's gate at one moment. The gate's replies and its next
//! steps are pure functions of one snapshot.

use super::end_status::EndStatus;
use super::machine::Record;
use super::observation::{EnvoyCount, Observation, Reason};
use super::stats::Stats;
use super::step::Step;
use super::waiting::{Needs, Waiter, WaitsFor};
use crate::census::Survey;

#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) now: u64,
    pub(super) survey: Survey,
    /// Envoy's last answer, while it is valid.
    pub(super) stats: Option<Stats>,
    /// The last query that Envoy has answered; see [`EnvoySamples::answered_query`].
    ///
    /// [`EnvoySamples::answered_query`]: super::envoy_samples::EnvoySamples::answered_query
    pub(super) answered_query: u64,
    pub(super) observed: Observation,
    /// The record after the evaluation, and the reason that it returned.
    pub(super) record: Record,
    pub(super) reason: Reason,
    /// The progress of the call to the app, if there is one.
    pub(super) notify: Option<Step>,
    /// The ends that go on, or will in this drain.
    pub(super) ends: Option<EndStatus>,
}

impl Snapshot {
    /// Whether the gate is open at this moment.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.reason, Reason::Open(_))
    }

    /// Whether newer answers may show that the gate is open.
    pub(super) fn may_open(&self) -> bool {
        matches!(self.reason, Reason::Open(_) | Reason::Asking | Reason::Finishing)
    }

    /// Whether the gate is open, by answers that are new enough if it needs any. A request whose
    /// time is over may get older ones.
    pub(super) fn proves_open(&self, needs: Needs) -> bool {
        self.record.phase.is_unconditionally_open() || self.is_open() && self.has_answers(needs)
    }

    /// Whether those answers have arrived, or cannot be expected. For Envoy's answer, the counters
    /// must also have replied which of its requests hold the drain. An answer without Envoy's count
    /// shows whether listeners drain, but only while it is valid.
    pub(super) fn has_answers(&self, needs: Needs) -> bool {
        let is_valid = match self.observed.envoy {
            EnvoyCount::Asking => false,
            EnvoyCount::Absent => self.answered_query == u64::MAX || self.stats.is_some(),
            EnvoyCount::Holds(_) => true,
        };
        let has_stats = self.answered_query >= needs.query && is_valid;
        self.survey.completed_round >= needs.round && (needs.query == 0 || has_stats)
    }

    /// Whether a held request can be answered now.
    pub(super) fn answers(&self, waiter: &Waiter) -> bool {
        let has_answers = self.has_answers(waiter.needs);
        self.now >= waiter.until
            || match waiter.waits_for {
                WaitsFor::Counts | WaitsFor::Metrics | WaitsFor::Listing(_) => has_answers,
                WaitsFor::Ready => !self.may_open() || has_answers,
                WaitsFor::Opening => self.proves_open(waiter.needs),
                WaitsFor::Signal => self.record.phase.is_unconditionally_open() || has_answers,
            }
    }
}
