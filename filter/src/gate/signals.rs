//! The decision whether a signal to Envoy or to its agent may pass. Pure.
//!
//! A signal cannot be undone. It passes at zero only, behind the latch, so that no stream
//! begins meanwhile. Once one has passed, the latch stays closed until the process ends.

use super::observation::Reason;
use super::phase::Phase;
use super::snapshot::Snapshot;
use super::waiting::{Needs, Waiter};
use crate::census::CountState;

/// The signal that ends Envoy.
pub(super) const QUIT: &str = "/quitquitquit";

/// The origin of a signal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum SignalKind {
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

/// A signal that waits for both counts of a moment after the latch was closed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LatchedSignal {
    pub(super) kind: SignalKind,
    pub(super) needs: Needs,
    /// The time after which it no longer waits for these counts.
    pub(super) until: u64,
}

/// The next step of a signal whose counts are known, or whose time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignalStep {
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
pub(super) fn step_of_waiter(snapshot: &Snapshot, waiter: &Waiter, is_busy: bool) -> SignalStep {
    let is_late = snapshot.now >= waiter.until;
    match signal_refusal(snapshot) {
        _ if snapshot.record.phase.is_unconditionally_open() => SignalStep::Send,
        None if !snapshot.has_answers(waiter.needs) => SignalStep::Refuse(ASKING),
        None if is_busy && !is_late => SignalStep::Hold,
        None => SignalStep::CloseLatch,
        Some(OLDER | ASKING | DIED | BYTES) if !is_late => SignalStep::AwaitNext,
        Some(why) => SignalStep::Refuse(why),
    }
}

impl LatchedSignal {
    pub(super) fn is_ready(&self, snapshot: &Snapshot) -> bool {
        snapshot.now >= self.until || snapshot.has_answers(self.needs)
    }

    /// The step of a signal behind the latch, if `is_closed` still. If a late stream has begun, an
    /// operator's signal may find zero before its time is over. A drain that goes on, or was
    /// cancelled meanwhile, needs no last call yet.
    pub(super) fn step(&self, snapshot: &Snapshot, is_closed: bool) -> SignalStep {
        let refusal = if !is_closed || !snapshot.has_answers(self.needs) {
            Some(ASKING)
        } else {
            signal_refusal(snapshot)
        };
        match (&self.kind, refusal) {
            (SignalKind::Finish, _) if snapshot.record.phase != Phase::Drained => SignalStep::Hold,
            (_, None) => SignalStep::Send,
            (SignalKind::Finish, Some(_)) => SignalStep::Hold,
            (SignalKind::Operator { until, .. }, Some(OLDER | ASKING | BYTES))
                if snapshot.now < *until =>
            {
                SignalStep::AwaitNext
            }
            (_, Some(why)) => SignalStep::Refuse(why),
        }
    }

    pub(super) fn is_of_stream(&self, stream: u32) -> bool {
        matches!(self.kind, SignalKind::Operator { stream: other, .. } if other == stream)
    }
}

/// Whether a call counts as sent: without an answer, or after a time-out, it may have arrived.
pub(super) fn may_have_arrived(status: Option<u16>) -> bool {
    matches!(status, None | Some(200 | 504))
}

pub(super) const IN_FLIGHT: &str = "streams are in flight";
pub(super) const ASKING: &str = "the counters, or Envoy, have not all answered yet";
pub(super) const BUSY: &str = "another signal is being passed";
const OLDER: &str = "Envoy counts requests that no counter knows";
const BYTES: &str = "Envoy has bytes of responses that are not yet written to clients";
pub(super) const UNSEEN: &str =
    "Envoy's stats matcher rejects the gauge that keeps streams from beginning meanwhile";
const DIED: &str = "a worker's counter does not answer; the signal passes after ten seconds of \
    silence";
const NO_COUNTER: &str = "no counter of streams is known here";
const REJECTED: &str = "Envoy's stats matcher rejects a counter of streams";

/// The reason why a signal may not pass at this moment. If no counter is known, or none can be
/// believed, a single zero of Envoy's count is not enough: a drain must have found that it lasts.
pub(super) fn signal_refusal(snapshot: &Snapshot) -> Option<&'static str> {
    let observed = &snapshot.observed;
    let lasts = snapshot.record.phase == Phase::Drained;
    match (observed.in_flight_reason(), observed.count) {
        (Some(Reason::Streams(_)), _) => Some(IN_FLIGHT),
        (Some(Reason::NoCounter), _) => Some(NO_COUNTER),
        (Some(Reason::Unsure(CountState::Leaking)), _) => {
            Some("a worker's counter does not answer, and Envoy's own count is not known")
        }
        (Some(Reason::Unsure(CountState::Partial)), _) => {
            Some("streams may be older than the counter, and Envoy's own count is not known")
        }
        (Some(Reason::Unsure(_)), _) => Some(REJECTED),
        (Some(_), _) => Some(OLDER),
        (None, _) if observed.unwritten_bytes().is_some() => Some(BYTES),
        (None, _) if !observed.is_complete() => Some(ASKING),
        (None, CountState::Unknown) if !lasts => Some(NO_COUNTER),
        (None, CountState::Rejected) if !lasts => Some(REJECTED),
        (None, CountState::Leaking) if !lasts || observed.may_revive => Some(DIED),
        (None, _) => None,
    }
}
