//! The knowledge of one worker's gate at one moment. Its answers and its next steps are pure
//! functions of one view.

use crate::ends::EndView;
use crate::observation::{EnvoyCount, Observation, Reason};
use crate::record::Record;
use crate::samples::AdminFault;
use crate::stats::Stats;
use crate::step::Step;
use crate::survey::Survey;
use crate::waiting::{Needs, Waiter, WaitsFor};

/// See the module.
#[derive(Debug, Clone)]
pub struct View {
    /// Milliseconds of the monotonic clock.
    pub now: u64,
    /// The last replies of all counters.
    pub survey: Survey,
    /// Envoy's last answer, while it is valid.
    pub stats: Option<Stats>,
    /// The last query that Envoy has answered; `u64::MAX` if there is no admin interface.
    pub(crate) answered_query: u64,
    /// Why Envoy has not answered since.
    pub fault: Option<AdminFault>,
    /// Both counts.
    pub observed: Observation,
    /// The record after the evaluation.
    pub record: Record,
    /// The reason that the evaluation returned.
    pub reason: Reason,
    /// The progress of the call to the app, if there is one and the gate is not serving.
    pub notify: Option<Step>,
    /// The ends of streams that go on, or will in this drain.
    pub ends: Option<EndView>,
}

impl View {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.reason, Reason::Open(_))
    }

    /// Whether newer answers may show that the gate is open.
    fn may_open(&self) -> bool {
        matches!(self.reason, Reason::Open(_) | Reason::Asking | Reason::Finishing)
    }

    /// Whether the gate is open, by answers that are new enough if it needs any. A request whose
    /// time is over may get older ones.
    pub(crate) fn proves_open(&self, needs: Needs) -> bool {
        self.record.phase.is_unconditionally_open() || self.is_open() && self.has_answers(needs)
    }

    /// Whether those answers have arrived. For Envoy's answer, the counters must also have replied
    /// which of its requests hold the drain. An answer without Envoy's count shows whether
    /// listeners drain, but only while it is valid.
    pub(crate) fn has_answers(&self, needs: Needs) -> bool {
        let is_valid = match self.observed.envoy {
            EnvoyCount::Asking => false,
            EnvoyCount::Absent => self.answered_query == u64::MAX || self.stats.is_some(),
            EnvoyCount::Holds(_) => true,
        };
        let has_stats = self.answered_query >= needs.query && is_valid;
        self.survey.completed_round >= needs.round && (needs.query == 0 || has_stats)
    }

    pub(crate) fn answers(&self, waiter: &Waiter) -> bool {
        let has_answers = self.has_answers(waiter.needs);
        let is_forced_open = self.record.phase.is_unconditionally_open();
        self.now >= waiter.until
            || match waiter.waits_for {
                WaitsFor::Counts | WaitsFor::Metrics | WaitsFor::Listing(_) => has_answers,
                WaitsFor::Ready => !self.may_open() || is_forced_open || has_answers,
                WaitsFor::Opening => self.proves_open(waiter.needs),
                WaitsFor::Signal => is_forced_open || has_answers,
            }
    }
}
