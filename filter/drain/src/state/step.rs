//! The progress of a call of the drain, which one worker makes and which may fail.

use super::moments::{Millis, Moment};
use super::timing::{RECLAIM_FACTOR, TRIES};

/// The progress of a call to Envoy, its agent or the app. One worker makes it at a time, because
/// the shared value then says that it was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Step {
    /// The call is not made yet.
    #[default]
    Due,
    /// A worker has sent it, and its outcome is not known yet.
    Sent {
        /// The beginning of this try.
        since: Moment,
        /// The number of this try.
        tries: u64,
    },
    /// It is to be made, or made again, from this moment on. It may have arrived before.
    Again {
        /// The time at which the next try is due.
        at: Moment,
        /// The number of tries so far.
        tries: u64,
    },
    /// The call was answered with success.
    Done,
    /// All tries have failed.
    Failed,
}

/// The end of a call. The failures differ in what they prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallEnd {
    /// It was answered by its receiver, with this status.
    Answered(u16),
    /// It was surely not sent: Envoy does not know the cluster, or has no connection to it.
    NotSent,
    /// No answer came in time. The call may have arrived.
    TimedOut,
    /// The answer was broken off. The call may have arrived.
    Reset,
}

/// The receiver's answers have this header, and Envoy's own have not.
pub const FROM_UPSTREAM: &str = "x-envoy-upstream-service-time";

/// What Envoy says in its own 503 about a request that it has not sent.
const NOT_SENT: [&str; 5] = [
    "no healthy upstream",
    "reset reason: remote connection failure",
    "reset reason: local connection failure",
    "reset reason: connection timeout",
    "reset reason: overflow",
];

impl CallEnd {
    /// The end of a call with this answer; without a status there was none. Envoy itself answers
    /// 504 when the time limit is over, and 503 also if the receiver closes the connection before
    /// it answers.
    pub fn from_answer(status: Option<u16>, is_from_upstream: bool, body: &str) -> Self {
        match status {
            None => Self::Reset,
            Some(504) => Self::TimedOut,
            Some(503) if !is_from_upstream => {
                let says = |text: &&str| text_after(body.as_bytes(), text.as_bytes()).is_some();
                if NOT_SENT.iter().any(says) { Self::NotSent } else { Self::Reset }
            }
            Some(status) => Self::Answered(status),
        }
    }

    /// Whether the call was answered with success.
    pub fn is_success(self) -> bool {
        self == Self::Answered(200)
    }

    /// Whether the call counts as sent: it may have arrived and have an effect.
    pub fn may_have_arrived(self) -> bool {
        self.is_success() || matches!(self, Self::TimedOut | Self::Reset)
    }
}

/// The text after the first `what`. The standard library's search would make the module a sixteenth
/// larger.
pub(crate) fn text_after<'b>(text: &'b [u8], what: &[u8]) -> Option<&'b [u8]> {
    (0..text.len()).find_map(|start| text.get(start..)?.strip_prefix(what))
}

impl Step {
    /// Whether the call is not tried again.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Done | Self::Failed)
    }

    /// The call, to be made or made again at once.
    pub(crate) fn again(now: Moment) -> Self {
        Self::Again { at: now, tries: 0 }
    }

    fn tries(self) -> u64 {
        match self {
            Self::Sent { tries, .. } | Self::Again { tries, .. } => tries,
            Self::Due | Self::Done | Self::Failed => 0,
        }
    }

    /// Whether the call is to be made now: it is due, or its worker has not recorded an outcome in
    /// time. A call whose tries are used up has failed.
    pub fn is_due(&mut self, patience: Millis, now: Moment) -> bool {
        let is_due = match *self {
            Self::Due => true,
            Self::Sent { since, .. } => now >= since + patience * RECLAIM_FACTOR,
            Self::Again { at, .. } => now >= at,
            Self::Done | Self::Failed => false,
        };
        if is_due && self.tries() >= TRIES {
            *self = Self::Failed;
        }
        is_due && *self != Self::Failed
    }

    /// Records that this worker sends the call, and returns whether it may.
    pub fn send(&mut self, patience: Millis, now: Moment) -> bool {
        let is_due = self.is_due(patience, now);
        if is_due {
            *self = Self::Sent { since: now, tries: self.tries() + 1 };
        }
        is_due
    }

    /// Forbids further tries, because the call is to be undone. It may have arrived, so it counts
    /// as made.
    pub(crate) fn stop(&mut self) {
        if *self != Self::Due {
            *self = Self::Done;
        }
    }

    /// Records the end of the call. After a failure it is tried again after a pause for each try,
    /// as long as tries are left. The end of a call of an earlier, cancelled drain changes nothing,
    /// and a late failure does not undo the success of another try.
    pub fn record(&mut self, end: CallEnd, now: Moment, pause: Millis) {
        *self = match (end.is_success(), *self) {
            (_, Self::Due) => Self::Due,
            (true, _) | (_, Self::Done) => Self::Done,
            (false, again @ Self::Again { .. }) => again,
            (false, Self::Sent { tries, .. }) if tries < TRIES => {
                Self::Again { at: now + pause * tries, tries }
            }
            _ => Self::Failed,
        };
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{CallEnd, Millis, Moment, Step, TRIES};

    const FAILURE: CallEnd = CallEnd::Answered(503);
    const PATIENCE: Millis = Millis(100);

    #[wasm_bindgen_test(unsupported = test)]
    fn a_call_is_tried_three_times() {
        let mut step = Step::Due;
        for number in 1..=TRIES {
            assert!(step.send(PATIENCE, Moment(1_000 * number)));
            assert!(!step.send(PATIENCE, Moment(1_000 * number + 199)), "it is under way");
            step.record(FAILURE, Moment(1_000 * number + 200), Millis(0));
        }
        assert!(!step.send(PATIENCE, Moment(9_000)));
        assert_eq!(step, Step::Failed);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_call_whose_worker_died_is_sent_again_and_a_late_failure_changes_nothing() {
        let mut step = Step::Due;
        assert!(step.send(PATIENCE, Moment(1_050)));
        assert!(!step.send(PATIENCE, Moment(1_249)), "its answer may come");
        assert!(step.send(PATIENCE, Moment(1_250)), "its worker's VM has died");
        step.record(CallEnd::Answered(200), Moment(1_260), Millis(0));
        step.record(FAILURE, Moment(1_270), Millis(0));
        assert_eq!(step, Step::Done);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn the_app_is_called_again_after_a_pause() {
        let mut step = Step::Due;
        assert!(step.send(PATIENCE, Moment(1_000)));
        step.record(CallEnd::NotSent, Moment(1_010), Millis(1_000));
        assert_eq!(step, Step::Again { at: Moment(2_010), tries: 1 });
        assert!(!step.send(PATIENCE, Moment(2_009)) && step.send(PATIENCE, Moment(2_010)));
    }

    /// Envoy's router answers 503 itself if the receiver closes the connection, also after it has
    /// read the call.
    #[wasm_bindgen_test(unsupported = test)]
    fn only_a_call_that_was_surely_not_taken_counts_as_not_sent() {
        const RESET: &str = "upstream connect error or disconnect/reset before headers. reset \
                             reason: ";
        let own = |reason: &str| (Some(503), false, format!("{RESET}{reason}"));
        for ((status, is_from_upstream, body), may_have_arrived) in [
            ((Some(200), true, String::new()), true),
            ((Some(503), true, "busy".into()), false),
            ((Some(404), false, String::new()), false),
            ((Some(504), false, "upstream request timeout".into()), true),
            ((None, false, String::new()), true),
            (own("connection termination"), true),
            (own("remote reset"), true),
            (own("protocol error"), true),
            ((Some(503), false, String::new()), true),
            ((Some(503), false, "no healthy upstream".into()), false),
            (own("remote connection failure, transport failure reason: x"), false),
            (own("connection timeout"), false),
            (own("overflow"), false),
        ] {
            let end = CallEnd::from_answer(status, is_from_upstream, &body);
            assert_eq!(end.may_have_arrived(), may_have_arrived, "{status:?} {body} {end:?}");
        }
        assert!(!CallEnd::NotSent.may_have_arrived());
    }
}
