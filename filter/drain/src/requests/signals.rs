//! The decision whether a signal to Envoy or to its agent may pass. Pure.
//!
//! A signal cannot be undone. It passes at zero only, behind the latch, so that no stream begins
//! meanwhile. Once one has passed, the latch stays closed until the process ends.

use super::view::View;
use super::waiting::{HeldSignal, Needs};
use crate::counts::Latch;
use crate::state::{CountState, Moment, Phase, Reason, StreamNumber};

/// The origin of a signal behind the latch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// An operator's request.
    Operator(HeldSignal),
    /// The last call of the drain. Whichever it is, the process ends.
    Finish,
}

impl Origin {
    fn ends_envoy(&self) -> bool {
        match self {
            Self::Operator(held) => held.signal.ends_envoy(),
            Self::Finish => true,
        }
    }
}

/// A signal that waits for both counts of a moment after the latch was closed. It owns the latch,
/// and for the last call also the right to make it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct LatchedSignal {
    pub(crate) origin: Origin,
    pub(crate) needs: Needs,
    /// The time after which it no longer waits for these counts.
    pub(crate) until: Moment,
    /// Whether streams see the latch.
    pub(crate) shown: Shown,
}

/// Whether streams see the latch. They read the filter's gauge at once; of routes it is known when
/// Envoy has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Shown {
    Yes,
    /// Envoy was told at that moment.
    Awaited(Moment),
    No,
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
    Refuse(Refusal),
}

/// Why a signal does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Refusal {
    /// Streams are in flight.
    InFlight,
    /// Streams of other scopes are.
    InFlightElsewhere,
    /// Envoy counts requests that no counter knows.
    Uncounted,
    /// TCP connections are open.
    Connected,
    /// Bytes of responses are not written yet.
    Unwritten,
    /// The counts are not known.
    Asking,
    /// A counter is late, or was and may own streams.
    LateCounter,
    /// No counter is known.
    NoCounter,
    /// The counters cannot be believed, and Envoy's own count is not known.
    Unsure(CountState),
    /// A zero of Envoy's count alone must last, and no drain has found that it does.
    NotLasting(CountState),
    /// Another signal is behind the latch.
    Busy,
    /// Streams cannot see the latch.
    LatchUnseen,
}

impl Refusal {
    /// Whether newer answers may show that the signal can pass.
    fn may_pass_soon(self) -> bool {
        matches!(self, Self::Uncounted | Self::Asking | Self::Unwritten | Self::LateCounter)
    }
}

/// The step of a signal that an operator has requested. `is_busy`: another one is behind the latch.
pub(crate) fn step_of_held(view: &View, held: &HeldSignal, is_busy: bool) -> SignalStep {
    let is_late = view.now >= held.until;
    match signal_refusal(view, held.signal.ends_envoy()) {
        _ if view.record.phase.is_unconditionally_open() => SignalStep::Send,
        None if !view.has_answers(held.needs) => SignalStep::Refuse(Refusal::Asking),
        None if is_busy && !is_late => SignalStep::Hold,
        None => SignalStep::CloseLatch,
        Some(refusal) if !is_late && refusal.may_pass_soon() => SignalStep::AwaitNext,
        Some(refusal) => SignalStep::Refuse(refusal),
    }
}

impl LatchedSignal {
    /// Whether its step can be decided: its counts are known, or it need not wait for them.
    pub(crate) fn is_ready(&self, view: &View, latch: &Latch) -> bool {
        let is_known = || match self.shown {
            Shown::Yes => view.has_answers(self.needs),
            Shown::Awaited(_) => false,
            Shown::No => true,
        };
        view.now >= self.until || !latch.is_closed() || is_known()
    }

    /// The step of a signal behind the latch. If a late stream has begun, an operator's signal may
    /// find zero before its time is over. A drain that goes on, or was cancelled meanwhile, needs
    /// no last call yet.
    pub(crate) fn step(&self, view: &View, latch: &Latch) -> SignalStep {
        let refusal = if latch.is_rejected || self.shown == Shown::No {
            Some(Refusal::LatchUnseen)
        } else if !latch.is_closed() || self.shown != Shown::Yes || !view.has_answers(self.needs) {
            Some(Refusal::Asking)
        } else {
            signal_refusal(view, self.origin.ends_envoy())
        };
        match (&self.origin, refusal) {
            (Origin::Finish, _) if view.record.phase != Phase::Drained => SignalStep::Hold,
            (_, None) => SignalStep::Send,
            (_, Some(Refusal::LatchUnseen)) => SignalStep::Refuse(Refusal::LatchUnseen),
            (Origin::Finish, Some(_)) => SignalStep::Hold,
            (Origin::Operator(held), Some(refusal))
                if view.now < held.until && refusal.may_pass_soon() =>
            {
                SignalStep::AwaitNext
            }
            (_, Some(refusal)) => SignalStep::Refuse(refusal),
        }
    }

    pub(crate) fn is_of_stream(&self, stream: StreamNumber) -> bool {
        matches!(&self.origin, Origin::Operator(held) if held.stream == stream)
    }
}

/// The reason why a signal may not pass at this moment. If no counter is known, or none can be
/// believed, a single zero of Envoy's count is not enough: a drain must have found that it lasts.
/// `ends_envoy`: the process ends, so the streams of all scopes matter.
pub(crate) fn signal_refusal(view: &View, ends_envoy: bool) -> Option<Refusal> {
    let observed = &view.observed;
    let lasts = view.record.phase == Phase::Drained;
    match (observed.in_flight_reason(), observed.count) {
        (Some(Reason::Streams(_)), _) => Some(Refusal::InFlight),
        (Some(Reason::NoCounter), _) => Some(Refusal::NoCounter),
        (Some(Reason::Unsure(count)), _) => Some(Refusal::Unsure(count)),
        (Some(Reason::Connections(_)), _) => Some(Refusal::Connected),
        (Some(_), _) => Some(Refusal::Uncounted),
        (None, _) if observed.unwritten_bytes().is_some() => Some(Refusal::Unwritten),
        (None, _) if !observed.is_complete() => Some(Refusal::Asking),
        (None, _) if ends_envoy && observed.others_in_flight > 0 => {
            Some(Refusal::InFlightElsewhere)
        }
        (None, CountState::Leaking) if !lasts || observed.may_revive => Some(Refusal::LateCounter),
        (None, CountState::Unknown) if !lasts => Some(Refusal::NoCounter),
        (None, count @ (CountState::Rejected | CountState::Miscounted)) if !lasts => {
            Some(Refusal::NotLasting(count))
        }
        (None, _) => None,
    }
}
