//! The decision whether a signal to Envoy or to its agent may pass. Pure.
//!
//! A signal cannot be undone. It passes at zero only, behind the latch, so that no stream begins
//! meanwhile. Once one has passed, the latch stays closed until the process ends.

use crate::count_state::CountState;
use crate::effects::QUIT;
use crate::facts::Latch;
use crate::observation::Reason;
use crate::phase::Phase;
use crate::policy::{Finish, Policy};
use crate::view::View;
use crate::waiting::{Needs, Waiter};

/// The origin of a signal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum SignalKind {
    /// An operator's request.
    Operator {
        stream: u32,
        path: String,
        /// The latest time at which it is refused.
        until: u64,
    },
    /// The last call of the drain.
    Finish,
}

impl SignalKind {
    /// Whether the process ends, with the streams of all scopes.
    fn quits(&self, policy: &Policy) -> bool {
        match self {
            Self::Operator { path, .. } => path.starts_with(QUIT),
            Self::Finish => policy.finish == Finish::Quit,
        }
    }
}

/// A signal that waits for both counts of a moment after the latch was closed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LatchedSignal {
    pub(crate) kind: SignalKind,
    pub(crate) needs: Needs,
    /// The time after which it no longer waits for these counts.
    pub(crate) until: u64,
}

/// The next step of a signal whose counts are known, or whose time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalStep {
    Send,
    /// The counts are zero: the latch is closed, and they are asked for once more.
    CloseLatch,
    /// The signal is tried again with the same answers.
    Hold,
    /// The signal is tried again with the next answers, which may show zero.
    AwaitNext,
    Refuse(&'static str),
}

/// The step of a signal that an operator has requested. `is_busy`: another one is behind the latch.
pub(crate) fn step_of_waiter(view: &View, waiter: &Waiter, is_busy: bool) -> SignalStep {
    let is_late = view.now >= waiter.until;
    match signal_refusal(view, waiter.path.starts_with(QUIT)) {
        _ if view.record.phase.is_unconditionally_open() => SignalStep::Send,
        None if !view.has_answers(waiter.needs) => SignalStep::Refuse(ASKING),
        None if is_busy && !is_late => SignalStep::Hold,
        None => SignalStep::CloseLatch,
        Some(OLDER | ASKING | DIED | BYTES) if !is_late => SignalStep::AwaitNext,
        Some(why) => SignalStep::Refuse(why),
    }
}

impl LatchedSignal {
    /// Whether its step can be decided: its counts are known, or it need not wait for them.
    pub(crate) fn is_ready(&self, view: &View, latch: &Latch) -> bool {
        view.now >= self.until || !is_closed(latch) || view.has_answers(self.needs)
    }

    /// The step of a signal behind the latch. If a late stream has begun, an operator's signal may
    /// find zero before its time is over. A drain that goes on, or was cancelled meanwhile, needs
    /// no last call yet.
    pub(crate) fn step(&self, view: &View, policy: &Policy, latch: &Latch) -> SignalStep {
        let refusal = if latch.is_rejected {
            Some(UNSEEN)
        } else if !is_closed(latch) || view.now >= self.until || !view.has_answers(self.needs) {
            Some(ASKING)
        } else {
            signal_refusal(view, self.kind.quits(policy))
        };
        match (&self.kind, refusal) {
            (SignalKind::Finish, _) if view.record.phase != Phase::Drained => SignalStep::Hold,
            (_, None) => SignalStep::Send,
            (SignalKind::Finish, Some(UNSEEN)) => SignalStep::Refuse(UNSEEN),
            (SignalKind::Finish, Some(_)) => SignalStep::Hold,
            (SignalKind::Operator { until, .. }, Some(OLDER | ASKING | BYTES))
                if view.now < *until =>
            {
                SignalStep::AwaitNext
            }
            (_, Some(why)) => SignalStep::Refuse(why),
        }
    }

    pub(crate) fn is_of_stream(&self, stream: u32) -> bool {
        matches!(self.kind, SignalKind::Operator { stream: other, .. } if other == stream)
    }
}

fn is_closed(latch: &Latch) -> bool {
    latch.is_sealed || latch.is_closed_by_own
}

pub(crate) const IN_FLIGHT: &str = "streams are in flight";
pub(crate) const ASKING: &str = "the counters, or Envoy, have not all answered yet";
pub(crate) const BUSY: &str = "another signal is being passed";
pub(crate) const UNSEEN: &str =
    "Envoy's stats matcher rejects the gauge that keeps streams from beginning meanwhile";
const OTHERS: &str = "streams of a scope that another gate waits for are in flight";
const OLDER: &str = "Envoy counts requests that no counter knows";
const BYTES: &str = "Envoy has bytes of responses that are not yet written to clients";
const DIED: &str = "a worker's counter does not answer; the signal passes after ten seconds of \
    silence";
const NO_COUNTER: &str = "no counter of streams is known here";
const REJECTED: &str = "Envoy's stats matcher rejects a counter of streams";
const MISCOUNTED: &str = "the gauges of streams in flight cannot be true";

/// The reason why a signal may not pass at this moment. If no counter is known, or none can be
/// believed, a single zero of Envoy's count is not enough: a drain must have found that it lasts.
/// `quits`: the process ends, so the streams of all scopes matter.
pub(crate) fn signal_refusal(view: &View, quits: bool) -> Option<&'static str> {
    let observed = &view.observed;
    let lasts = view.record.phase == Phase::Drained;
    match (observed.in_flight_reason(), observed.count) {
        (Some(Reason::Streams(_)), _) => Some(IN_FLIGHT),
        (Some(Reason::NoCounter), _) => Some(NO_COUNTER),
        (Some(Reason::Unsure(CountState::Leaking)), _) => {
            Some("a worker's counter does not answer, and Envoy's own count is not known")
        }
        (Some(Reason::Unsure(CountState::Partial)), _) => {
            Some("streams may be older than the counter, and Envoy's own count is not known")
        }
        (Some(Reason::Unsure(CountState::Miscounted)), _) => Some(MISCOUNTED),
        (Some(Reason::Unsure(_)), _) => Some(REJECTED),
        (Some(_), _) => Some(OLDER),
        (None, _) if observed.unwritten_bytes().is_some() => Some(BYTES),
        (None, _) if !observed.is_complete() => Some(ASKING),
        (None, _) if quits && observed.others_in_flight > 0 => Some(OTHERS),
        (None, CountState::Unknown) if !lasts => Some(NO_COUNTER),
        (None, CountState::Rejected) if !lasts => Some(REJECTED),
        (None, CountState::Miscounted) if !lasts => Some(MISCOUNTED),
        (None, CountState::Leaking) if !lasts || observed.may_revive => Some(DIED),
        (None, _) => None,
    }
}
