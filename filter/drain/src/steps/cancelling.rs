//! Cancelling a drain: what Envoy was told in it, and how far that can be undone. Pure.
//!
//! Envoy may get calls in another order than they were made, and several workers make them. So no
//! worker makes the begin call again once it is to be undone, and a begin call that Envoy may have
//! got after the call that undid it is undone again. A call that undoes may reach Envoy after the
//! begin call of the next drain, which then makes it again.

use crate::requests::Cancelled;
use crate::state::{BeginCall, DrainPolicy, Phase, Record, Step};

/// Whether the call that told clients to leave was undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undo {
    NotNeeded,
    Done,
    Failed,
    Impossible,
}

impl Undo {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::NotNeeded => "",
            Self::Done => "; Envoy's health checks answer as before",
            Self::Failed => {
                "; Envoy's admin interface did not answer, so health checks may still fail"
            }
            Self::Impossible => {
                "; Envoy cannot undrain its listeners: it still tells clients to leave until \
                    it is restarted (`fail_health_checks` can be undone)"
            }
        }
    }
}

/// Behind the answer to a cancellation, if the signal to end has arrived.
pub(crate) const STAYS_SEALED: &str = "; the signal to end was sent and cannot be undone: new \
    streams are refused until the process ends";
/// The same, while that is not known yet.
pub(crate) const IS_FINISHING: &str = "; the last call was sent already and cannot be taken back: \
    if it arrives, new streams are refused until the process ends";

/// Cancels the drain. The gate serves again at once: in a drain that goes on, the last call could
/// still be made.
pub(crate) fn cancel(record: &mut Record, policy: &DrainPolicy) -> Cancelled {
    let has_begun = policy.begins() && record.begin != Step::Due;
    let cancelled = Cancelled {
        was_draining: record.phase != Phase::Serving,
        has_begun,
        may_begin_late: has_begun && !record.begin.has_ended(),
        is_finishing: matches!(record.finish, Step::Sent { .. } | Step::Done),
    };
    record.begin.stop();
    record.serve_again(policy);
    cancelled
}

/// How far the begin call is undone; none if a call must undo it.
pub(crate) fn undo(cancelled: &Cancelled, policy: &DrainPolicy) -> Option<Undo> {
    match policy.begin {
        BeginCall::FailHealthChecks if cancelled.has_begun => None,
        BeginCall::DrainListeners if cancelled.has_begun => Some(Undo::Impossible),
        _ => Some(Undo::NotNeeded),
    }
}

/// What became of the drain.
pub(crate) fn cancelled_in_words(was_draining: bool, phase: Phase) -> &'static str {
    match (was_draining, phase) {
        (false, _) => "the drain was over already",
        (true, Phase::Serving) => "the drain was cancelled",
        (true, _) => "the drain was cancelled; another drain has begun since, and is not over",
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{BeginCall, DrainPolicy, IS_FINISHING, Phase, Record, Step};
    use crate::requests::{Answer, Command, Effect};
    use crate::sim::Sim;
    use crate::state::{Moment, StreamNumber};

    /// The call may be answered before the latch is sealed.
    #[wasm_bindgen_test(unsupported = test)]
    fn a_cancellation_tells_of_a_last_call_that_was_sent() {
        for (finish, tells) in [
            (Step::Due, false),
            (Step::Sent { since: Moment(3_599_900), tries: 1 }, true),
            (Step::Done, true),
            (Step::Failed, false),
        ] {
            let mut sim =
                Sim::new(DrainPolicy { begin: BeginCall::Nothing, ..DrainPolicy::default() });
            let (began, deadline) = (sim.now, Moment(u64::MAX));
            let phase = Phase::Drained;
            sim.shared.record = Record { phase, began, deadline, finish, ..Record::default() };
            sim.request(StreamNumber(2), Command::Cancel);
            let is_told = |effect: &Effect| match effect {
                Effect::Respond(_, Answer::Outcome(200, outcome)) => {
                    outcome.reason.ends_with(IS_FINISHING)
                }
                _ => false,
            };
            assert_eq!(sim.effects.iter().any(is_told), tells, "{finish:?}");
        }
    }
}
