//! The knowledge of one worker's gate at one moment. Its answers and its next steps are pure
//! functions of one view.

use super::end_status::EndStatus;
use super::waiting::{HeldSignal, Needs, Waiter, WaitsFor};
use crate::counts::{AdminFault, Stats, Survey};
use crate::state::{AgentState, EnvoyCount, Moment, Observation, Phase, Reason, Record, Step};

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) now: Moment,
    /// The last replies of all counters.
    pub(crate) survey: Survey,
    /// Envoy's last answer, while it is valid.
    pub(crate) stats: Option<Stats>,
    /// The last query that Envoy has answered; none if there is no admin interface.
    pub(crate) answered_query: Option<u64>,
    /// Why Envoy has not answered since.
    pub(crate) fault: Option<AdminFault>,
    /// Both counts.
    pub(crate) observed: Observation,
    /// The record after the evaluation.
    pub(crate) record: Record,
    /// The reason that the evaluation returned.
    pub(crate) reason: Reason,
    /// The progress of the call to the app, if there is one and the gate is not serving.
    pub(crate) notify: Option<Step>,
    /// Istio's agent, if its stop begins the drain.
    pub(crate) agent: Option<AgentState>,
    /// Whether Envoy's runtime refuses to be told of the latch.
    pub(crate) routes_have_failed: bool,
    /// The ends of streams that go on, or will in this drain.
    pub(crate) ends: Option<EndStatus>,
}

impl View {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.reason, Reason::Open(_))
    }

    /// Whether newer answers may show that the gate is open.
    fn may_open(&self) -> bool {
        matches!(self.reason, Reason::Open(_) | Reason::Asking | Reason::Finishing)
    }

    /// Whether zero is known, by whatever answers.
    pub(crate) fn is_drained(&self) -> bool {
        matches!(self.reason, Reason::Open(Phase::Drained) | Reason::Finishing)
    }

    fn is_forced_open(&self) -> bool {
        self.record.phase.is_unconditionally_open()
    }

    /// Whether the gate is open, by answers that are new enough if it needs any. A request whose
    /// time is over may get older ones.
    pub(crate) fn proves_open(&self, needs: Needs) -> bool {
        self.is_forced_open() || self.is_open() && self.has_answers(needs)
    }

    /// Whether those answers have arrived. For Envoy's answer, the counters must also have replied
    /// which of its requests hold the drain. An answer without Envoy's count shows whether
    /// listeners drain, but only while it is valid.
    pub(crate) fn has_answers(&self, needs: Needs) -> bool {
        let is_valid = match self.observed.envoy {
            EnvoyCount::Awaited => false,
            EnvoyCount::Absent => self.answered_query.is_none() || self.stats.is_some(),
            EnvoyCount::Holds(_) => true,
        };
        let is_newer = |query| self.answered_query.is_none_or(|answered| answered >= query);
        self.survey.completed_round >= needs.round
            && needs.query.is_none_or(|query| is_newer(query) && is_valid)
    }

    /// Envoy may have been asked before every worker had replied, which proves nothing: its next
    /// answer will.
    fn awaits_next_query(&self, needs: Needs) -> bool {
        needs.query.is_some() && self.reason == Reason::Asking
    }

    pub(crate) fn answers(&self, waiter: &Waiter) -> bool {
        let has_answers = || self.has_answers(waiter.needs);
        let decides = || has_answers() && !self.awaits_next_query(waiter.needs);
        self.now >= waiter.until
            || match waiter.waits_for {
                WaitsFor::Counts | WaitsFor::Listing(_) => has_answers(),
                WaitsFor::Ready => !self.may_open() || self.is_forced_open() || decides(),
                WaitsFor::Opening => self.proves_open(waiter.needs),
            }
    }

    /// Whether the next step of a signal can be decided.
    pub(crate) fn decides(&self, held: &HeldSignal) -> bool {
        self.now >= held.until || self.is_forced_open() || self.has_answers(held.needs)
    }
}
