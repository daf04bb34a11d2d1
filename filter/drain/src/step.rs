//! The progress of a call of the drain, which one worker makes and which may fail.

use crate::timing::{NOTIFY_PAUSE, RECLAIM_FACTOR, TRIES};

/// The progress of a call to Envoy, its agent or the app. One worker makes it at a time, and it may
/// fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// The call is not made yet.
    Due,
    /// A worker makes the call.
    UnderWay {
        /// The beginning of this try.
        since: u64,
        /// The number of this try.
        tries: u64,
    },
    /// The call was sent and cannot be taken back. Its outcome is not known yet.
    Sent {
        /// The time at which it was sent.
        since: u64,
        /// The number of this try.
        tries: u64,
    },
    /// A try has failed, and the next one comes after a pause.
    Paused {
        /// The time at which the next try is due.
        until: u64,
        /// The number of tries so far.
        tries: u64,
    },
    /// The call was answered with success.
    Done,
    /// All tries have failed.
    Failed,
}

/// The end of a call. The four failures differ in what they prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallEnd {
    /// It was answered, with this status.
    Answered(u16),
    /// Envoy did not send it: it does not know the cluster, or no endpoint in it.
    Refused,
    /// No answer came in time. The call may have arrived.
    TimedOut,
    /// The answer was broken off. The call has arrived.
    Reset,
    /// It was not made after all, because another worker makes it.
    NotMade,
}

impl CallEnd {
    /// The end of a call with this status; none if there was no answer. Envoy itself answers 504
    /// when the time limit is over.
    #[must_use]
    pub fn from_status(status: Option<u16>) -> Self {
        match status {
            Some(504) => Self::TimedOut,
            Some(status) => Self::Answered(status),
            None => Self::Reset,
        }
    }

    /// Whether the call was answered with success.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Answered(200)
    }

    /// Whether the call counts as sent: it may have arrived.
    #[must_use]
    pub fn may_have_arrived(self) -> bool {
        self.is_success() || matches!(self, Self::TimedOut | Self::Reset)
    }
}

/// Behind this number of tries, the text of a step says that the call was sent: an earlier version
/// of the module reads it as under way.
const SENT: u64 = 1_000;

impl Step {
    /// The step as numbers, for the text in shared data.
    #[must_use]
    pub fn to_numbers(self) -> [u64; 3] {
        match self {
            Self::Due => [0, 0, 0],
            Self::UnderWay { since, tries } => [1, since, tries],
            Self::Sent { since, tries } => [1, since, tries.saturating_add(SENT)],
            Self::Done => [2, 0, 0],
            Self::Failed => [3, 0, 0],
            Self::Paused { until, tries } => [4, until, tries],
        }
    }

    /// The step of these numbers.
    #[must_use]
    pub fn from_numbers([kind, since, tries]: [u64; 3]) -> Option<Self> {
        match kind {
            0 => Some(Self::Due),
            1 if tries >= SENT => Some(Self::Sent { since, tries: tries - SENT }),
            1 => Some(Self::UnderWay { since, tries }),
            2 => Some(Self::Done),
            3 => Some(Self::Failed),
            4 => Some(Self::Paused { until: since, tries }),
            _ => None,
        }
    }

    /// Whether the call is not tried again.
    #[must_use]
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed)
    }

    /// Claims the call, if it is due or its worker has not recorded an outcome in time.
    pub fn claim(&mut self, patience: u64, now: u64) -> bool {
        let is_late =
            |since: u64| now >= since.saturating_add(patience.saturating_mul(RECLAIM_FACTOR));
        let tries = match *self {
            Self::Due => 0,
            Self::UnderWay { since, tries } | Self::Sent { since, tries } if is_late(since) => {
                tries
            }
            Self::Paused { until, tries } if now >= until => tries,
            _ => return false,
        };
        if tries >= TRIES {
            *self = Self::Failed;
            return false;
        }
        *self = Self::UnderWay { since: now, tries: tries + 1 };
        true
    }

    /// Records that the claimed call is being sent. False: it was not claimed, or was stopped.
    pub fn send(&mut self, now: u64) -> bool {
        let Self::UnderWay { tries, .. } = *self else { return false };
        *self = Self::Sent { since: now, tries };
        true
    }

    /// Records that the call was not sent after all: the latch behind it had opened.
    pub fn withdraw(&mut self) {
        if let Self::Sent { tries, .. } = *self {
            *self = Self::UnderWay { since: 0, tries };
            self.postpone();
        }
    }

    /// Records that the call was not made after all, which does not count as a try.
    pub fn postpone(&mut self) {
        if let Self::UnderWay { tries, .. } = *self {
            *self =
                if tries > 1 { Self::UnderWay { since: 0, tries: tries - 1 } } else { Self::Due };
        }
    }

    /// Forbids further tries, because the call is to be undone. It may have arrived, so it counts
    /// as made.
    pub fn stop(&mut self) {
        if *self != Self::Due {
            *self = Self::Done;
        }
    }

    /// Records the end of the call. After a failure, it is tried again at once, as long as tries
    /// are left. The end of a call of an earlier, cancelled drain changes nothing, and a late
    /// failure does not undo the success of another try.
    pub fn record(&mut self, end: CallEnd) {
        *self = match (end.is_success(), *self) {
            (_, Self::Due) => Self::Due,
            (true, _) | (_, Self::Done) => Self::Done,
            (false, paused @ Self::Paused { .. }) => paused,
            (false, Self::UnderWay { tries, .. } | Self::Sent { tries, .. }) if tries < TRIES => {
                Self::UnderWay { since: 0, tries }
            }
            _ => Self::Failed,
        };
    }

    /// Records the end like [`Self::record`], but the next try comes after a pause, because the
    /// call is to the app, which may be busy.
    pub fn record_and_pause(&mut self, end: CallEnd, now: u64) {
        self.record(end);
        if let Self::UnderWay { since: 0, tries } = *self {
            *self = Self::Paused { until: now.saturating_add(NOTIFY_PAUSE * tries), tries };
        }
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{CallEnd, Step, TRIES};

    const FAILURE: CallEnd = CallEnd::Answered(503);

    #[wasm_bindgen_test(unsupported = test)]
    fn a_call_is_tried_three_times() {
        let mut step = Step::Due;
        for number in 1..=TRIES {
            assert!(step.claim(100, 1_000 * number));
            assert!(!step.claim(100, 1_000 * number + 199), "it is under way");
            step.record(FAILURE);
        }
        assert!(!step.claim(100, 9_000));
        assert_eq!(step, Step::Failed);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_claimed_call_can_be_postponed_but_a_sent_one_cannot() {
        let mut step = Step::Due;
        assert!(!step.send(5), "nobody has claimed it");
        assert!(step.claim(100, 1_000));
        step.postpone();
        assert_eq!(step, Step::Due);
        assert!(step.claim(100, 1_000) && step.send(1_050));
        step.postpone();
        assert_eq!(step, Step::Sent { since: 1_050, tries: 1 });
        assert!(!step.claim(100, 1_249), "its answer may come");
        assert!(step.claim(100, 1_250), "its worker's VM has died");
        step.record(CallEnd::Answered(200));
        step.record(FAILURE);
        assert_eq!(step, Step::Done, "a late failure");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn the_app_is_called_again_after_a_pause() {
        let mut step = Step::Due;
        assert!(step.claim(100, 1_000));
        step.record_and_pause(CallEnd::Refused, 1_010);
        assert_eq!(step, Step::Paused { until: 2_010, tries: 1 });
        assert!(!step.claim(100, 2_009) && step.claim(100, 2_010));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_step_is_the_same_after_a_round_trip_through_its_numbers() {
        for step in [
            Step::Due,
            Step::UnderWay { since: 1, tries: 2 },
            Step::Sent { since: 1, tries: 2 },
            Step::Paused { until: 1, tries: 2 },
            Step::Done,
            Step::Failed,
        ] {
            assert_eq!(Step::from_numbers(step.to_numbers()), Some(step));
        }
        assert_eq!(Step::from_numbers([5, 0, 0]), None);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn only_a_call_that_was_surely_not_taken_counts_as_not_sent() {
        for (end, expected) in [
            (CallEnd::Answered(200), true),
            (CallEnd::Answered(503), false),
            (CallEnd::from_status(Some(504)), true),
            (CallEnd::from_status(None), true),
            (CallEnd::Refused, false),
            (CallEnd::NotMade, false),
        ] {
            assert_eq!(end.may_have_arrived(), expected, "{end:?}");
        }
    }
}
