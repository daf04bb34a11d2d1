//! A call of the drain that is made once, and may fail.

/// How often a call is tried.
pub(super) const TRIES: u64 = 3;

/// A call to Envoy or its agent that must be made once, and may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// It is not made yet.
    Due,
    /// A worker makes it.
    UnderWay {
        /// When this try began.
        since: u64,
        /// The number of this try.
        tries: u64,
    },
    /// It was answered with success.
    Done,
    /// It was tried as often as it may be.
    Failed,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// With success.
    Success,
    /// With a failure, or without an answer.
    Failure,
}

impl CallOutcome {
    pub(super) fn from_status(status: Option<u16>) -> Self {
        if status == Some(200) { Self::Success } else { Self::Failure }
    }
}

impl Step {
    /// Whether the call is not to be tried again.
    pub(super) fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed)
    }

    /// Claims the call, if it is due or its worker has not come back. A try may take twice as long
    /// as a call may, before another worker tries.
    pub fn claim(&mut self, patience: u64, now: u64) -> bool {
        let tries = match *self {
            Self::Due => 0,
            Self::UnderWay { since, tries } if now >= since.saturating_add(2 * patience) => tries,
            _ => return false,
        };
        if tries >= TRIES {
            *self = Self::Failed;
            return false;
        }
        *self = Self::UnderWay { since: now, tries: tries + 1 };
        true
    }

    /// The call was not made after all. It does not count as a try.
    pub fn postpone(&mut self) {
        if let Self::UnderWay { tries, .. } = *self {
            *self =
                if tries > 1 { Self::UnderWay { since: 0, tries: tries - 1 } } else { Self::Due };
        }
    }

    /// The call has ended. A failure is tried again at once, as long as tries are left. The outcome
    /// of a call of an earlier, cancelled drain changes nothing, and a late failure does not undo
    /// the success of another try.
    pub fn record(&mut self, outcome: CallOutcome) {
        *self = match (outcome, *self) {
            (_, Self::Due) => Self::Due,
            (CallOutcome::Success, _) | (_, Self::Done) => Self::Done,
            (CallOutcome::Failure, Self::UnderWay { tries, .. }) if tries < TRIES => {
                Self::UnderWay { since: 0, tries }
            }
            _ => Self::Failed,
        };
    }
}
