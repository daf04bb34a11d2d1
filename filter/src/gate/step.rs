//! The progress of a call of the drain, which one worker makes and which may fail.

/// The number of times that a call is tried.
pub(super) const TRIES: u64 = 3;
/// The pause of [`Step::record_and_pause`] after a failure, for each try so far; milliseconds.
const PAUSE: u64 = 1_000;

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

/// The outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// The call was answered with success.
    Success,
    /// The call failed, or got no answer.
    Failure,
}

impl CallOutcome {
    pub(super) fn from_status(status: Option<u16>) -> Self {
        if status == Some(200) { Self::Success } else { Self::Failure }
    }
}

impl Step {
    /// The step as numbers, for the text in shared data.
    pub(super) fn to_numbers(self) -> [u64; 3] {
        match self {
            Self::Due => [0, 0, 0],
            Self::UnderWay { since, tries } => [1, since, tries],
            Self::Done => [2, 0, 0],
            Self::Failed => [3, 0, 0],
            Self::Paused { until, tries } => [4, until, tries],
        }
    }

    pub(super) fn from_numbers([kind, since, tries]: [u64; 3]) -> Option<Self> {
        match kind {
            0 => Some(Self::Due),
            1 => Some(Self::UnderWay { since, tries }),
            2 => Some(Self::Done),
            3 => Some(Self::Failed),
            4 => Some(Self::Paused { until: since, tries }),
            _ => None,
        }
    }

    /// Whether the call is not tried again.
    pub(super) fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed)
    }

    /// Claims the call, if it is due or its worker has not recorded an outcome in time. Another
    /// worker tries after twice the time limit of a call.
    pub fn claim(&mut self, patience: u64, now: u64) -> bool {
        let tries = match *self {
            Self::Due => 0,
            Self::UnderWay { since, tries } if now >= since.saturating_add(2 * patience) => tries,
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

    /// Records that the call was not made after all, which does not count as a try.
    pub fn postpone(&mut self) {
        if let Self::UnderWay { tries, .. } = *self {
            *self =
                if tries > 1 { Self::UnderWay { since: 0, tries: tries - 1 } } else { Self::Due };
        }
    }

    /// Forbids further tries, because the call is to be undone. It may have arrived, so it counts
    /// as made.
    pub(super) fn stop(&mut self) {
        if *self != Self::Due {
            *self = Self::Done;
        }
    }

    /// Records the outcome of the call. After a failure, it is tried again at once, as long as
    /// tries are left. The outcome of a call of an earlier, cancelled drain changes nothing, and a
    /// late failure does not undo the success of another try.
    pub fn record(&mut self, outcome: CallOutcome) {
        *self = match (outcome, *self) {
            (_, Self::Due) => Self::Due,
            (CallOutcome::Success, _) | (_, Self::Done) => Self::Done,
            (CallOutcome::Failure, paused @ Self::Paused { .. }) => paused,
            (CallOutcome::Failure, Self::UnderWay { tries, .. }) if tries < TRIES => {
                Self::UnderWay { since: 0, tries }
            }
            _ => Self::Failed,
        };
    }

    /// Records the outcome like [`Self::record`], but the next try comes after a pause, because the
    /// call is to the app, which may be busy.
    pub fn record_and_pause(&mut self, outcome: CallOutcome, now: u64) {
        self.record(outcome);
        if let Self::UnderWay { since: 0, tries } = *self {
            *self = Self::Paused { until: now.saturating_add(PAUSE * tries), tries };
        }
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{CallOutcome, Step};

    #[wasm_bindgen_test(unsupported = test)]
    fn a_call_to_the_app_is_tried_three_times_with_pauses() {
        let mut step = Step::Due;
        for (from, pause) in [(10_000, 1_000), (20_000, 2_000)] {
            assert!(step.claim(500, from) && !step.claim(500, from + 999), "one worker makes it");
            step.record_and_pause(CallOutcome::Failure, from);
            assert!(!step.claim(500, from + pause - 1), "{step:?}");
            step.record_and_pause(CallOutcome::Failure, from + 1);
            assert!(matches!(step, Step::Paused { .. }), "a late failure of the same try");
        }
        assert!(step.claim(500, 22_000));
        step.record_and_pause(CallOutcome::Failure, 22_000);
        assert_eq!(step, Step::Failed);
        step.record_and_pause(CallOutcome::Success, 22_001);
        assert_eq!(step, Step::Done, "the first try was merely slow");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_worker_that_dies_uses_up_its_try() {
        let mut step = Step::Due;
        for now in [10_000, 11_000, 12_000] {
            assert!(step.claim(500, now));
        }
        assert!(!step.claim(500, 13_000));
        assert_eq!(step, Step::Failed);
    }
}
