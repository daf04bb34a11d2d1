//! The streams that a drain ends before its deadline: which, how many are due at a moment, and the
//! progress that all workers share. Pure.
//!
//! The pace follows from the number of streams and the time that are left, so it corrects itself:
//! streams that end by themselves, and orders that are lost, change only the interval.

use crate::census::EndSurvey;
use crate::kinds::Kinds;
use crate::phase::Phase;
use crate::record::Record;
use crate::timing::{END_CATCH_UP, MOST_ORDERED};

/// Which streams a drain ends, when, and how. Times are in milliseconds.
#[derive(Debug, Clone, Default)]
pub struct EndPolicy {
    /// Empty: the gate ends no stream.
    pub kinds: Kinds,
    /// Also requests whose method changes something.
    pub changing: bool,
    /// The range of `Retry-After`, in seconds.
    pub retry_after: [u64; 2],
    /// How long a frame filter may take to close a WebSocket.
    pub grace: u64,
    /// The length of the window.
    pub over: u64,
    /// How long before the deadline the window begins.
    pub before_deadline: u64,
    /// Instead: streams of this age are ended from the beginning of the drain on.
    pub at_age: Option<u64>,
    /// The time from the last end to the deadline, so that the quiet period fits in.
    pub reserve: u64,
    /// The wait before clients are told to leave.
    pub delay: u64,
}

/// An interval of the monotonic clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Window {
    /// Its beginning.
    pub from: u64,
    /// Its end.
    pub to: u64,
}

/// The ends as a status shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndView {
    /// The kinds that are ended.
    pub kinds: Kinds,
    /// Streams of these kinds that are to be ended, as far as the counters have answered.
    pub left: Option<u64>,
    /// When the ends begin, and over.
    pub window: Window,
}

impl EndPolicy {
    /// The window in which a drain ends streams. After it, all streams that are left are ended at
    /// once.
    #[must_use]
    pub fn window(&self, record: &Record) -> Window {
        let begins = record.began.saturating_add(self.delay);
        let from = match self.at_age {
            Some(_) => begins,
            None => record.deadline.saturating_sub(self.before_deadline).max(begins),
        };
        let latest = record.deadline.saturating_sub(self.reserve);
        Window { from, to: from.saturating_add(self.over).min(latest).max(from) }
    }
}

/// The ends of all drains, which the gates of all workers share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct EndProgress {
    /// The beginning of the drain whose progress this is.
    pub began: u64,
    /// The moment up to which all ends that were due were ordered.
    pub last: u64,
    /// Streams that the counters were ordered to end.
    pub ordered: u64,
    /// The beginning of the newest drain that was cancelled, which ends no more streams.
    pub stopped: u64,
}

impl EndProgress {
    /// The window of this drain, if it ends streams.
    pub(crate) fn window(&self, policy: &EndPolicy, record: &Record) -> Option<Window> {
        let goes_on = record.phase == Phase::Draining
            && record.began > self.stopped
            && record.began >= self.began;
        (goes_on && !policy.kinds.is_empty()).then(|| policy.window(record))
    }

    /// Begins the progress of this drain, and returns whether it did.
    pub(crate) fn begin(&mut self, drain: u64) -> bool {
        let is_first = drain > self.began;
        if is_first {
            (self.began, self.last, self.ordered) = (drain, 0, 0);
        }
        is_first
    }

    /// Takes the streams that are due now. A counter that has not answered may have streams: until
    /// it does, a claim of none leaves the pace as it is.
    pub(crate) fn claim(&mut self, now: u64, window: Window, survey: &EndSurvey) -> u64 {
        if survey.endable == 0 && survey.answered < survey.asked {
            return 0;
        }
        let most = MOST_ORDERED.saturating_mul(survey.answered);
        self.claim_of(now, window, survey.endable, most)
    }

    fn claim_of(&mut self, now: u64, window: Window, left: u64, most: u64) -> u64 {
        if now < window.from {
            return 0;
        }
        let since = self.last.max(window.from).min(now);
        if left == 0 || now >= window.to {
            let due = left.min(most);
            (self.last, self.ordered) = (now, self.ordered.saturating_add(due));
            return due;
        }
        // Numbers that saturate here are impossible, and 128 bits would make the module larger.
        let span = (window.to - since).max(1);
        let due = (now - since).saturating_mul(left) / span;
        let caught_up = END_CATCH_UP.saturating_mul(left).div_ceil(span);
        let due = if due > caught_up {
            self.last = now;
            caught_up
        } else {
            self.last = since.saturating_add(due.saturating_mul(span) / left);
            due
        };
        let due = due.min(left).min(most);
        self.ordered = self.ordered.saturating_add(due);
        due
    }

    /// Gives back the part of a claim that no counter was sent.
    pub(crate) fn give_back(&mut self, unsent: u64) {
        self.ordered = self.ordered.saturating_sub(unsent);
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{EndPolicy, EndProgress, EndSurvey, Kinds, Phase, Record, Window};

    const WINDOW: Window = Window { from: 10_000, to: 30_000 };

    /// Claims every `step` milliseconds, and returns the moments and the amounts.
    fn run(streams: u64, step: usize) -> Vec<(u64, u64)> {
        let (mut progress, mut left) = (EndProgress::default(), streams);
        let mut claims = Vec::new();
        for now in (9_000..31_000).step_by(step) {
            let due = progress.claim_of(now, WINDOW, left, u64::MAX);
            left -= due;
            claims.push((now, due));
        }
        assert_eq!((left, progress.ordered), (0, streams));
        claims
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn ends_are_spread_evenly_and_none_comes_early() {
        for streams in [1, 3, 7, 40, 10_000, 1_000_000] {
            for step in [10, 100, 130, 990] {
                let claims = run(streams, step);
                for (now, due) in &claims {
                    assert!(*due == 0 || *now > WINDOW.from, "{due} at {now}");
                }
                for quarter in 1..4 {
                    let until = WINDOW.from + quarter * 5_000;
                    let ended: u64 =
                        claims.iter().filter(|(now, _)| *now <= until).map(|(_, due)| due).sum();
                    let even = streams * quarter / 4;
                    let slack = streams * step as u64 / 20_000 + 1;
                    assert!(ended.abs_diff(even) <= slack, "{streams}, {step}: {ended} of {even}");
                }
            }
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn two_gates_that_share_the_progress_order_no_more_than_one() {
        let (mut progress, mut left, mut claims) = (EndProgress::default(), 1_000_u64, 0);
        for now in (10_000..20_000).step_by(10) {
            for _ in 0..2 {
                let due = progress.claim_of(now, WINDOW, left, u64::MAX);
                left -= due;
                claims += due;
            }
        }
        assert!(claims.abs_diff(500) <= 1, "{claims}");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_pause_is_not_caught_up_at_once() {
        let mut progress = EndProgress { last: 10_000, ..EndProgress::default() };
        let due = progress.claim_of(20_000, WINDOW, 1_000, u64::MAX);
        assert!(due <= 1_000 / 10, "{due}");
        let mut stuck = EndProgress::default();
        assert_eq!(stuck.claim_of(40_000, WINDOW, 1_000, 64), 64, "after the window, all that can");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_claim_of_extreme_numbers_does_not_exceed_the_streams_left() {
        for window in [WINDOW, Window { from: 0, to: u64::MAX }, Window { from: 5, to: 5 }] {
            for now in [0, 5, 10_001, u64::MAX] {
                for last in [0, 20_000, u64::MAX] {
                    for left in [0, 1, u64::MAX] {
                        let mut progress =
                            EndProgress { last, ordered: u64::MAX, ..EndProgress::default() };
                        assert!(progress.claim_of(now, window, left, left) <= left);
                    }
                }
            }
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_worker_without_answers_leaves_the_pace_as_it_is() {
        let progress = EndProgress { last: 10_000, ..EndProgress::default() };
        for (answered, asked) in [(0, 1), (1, 2)] {
            let mut own = progress;
            let survey = EndSurvey { answered, asked, ..EndSurvey::default() };
            assert_eq!((own.claim(20_000, WINDOW, &survey), own), (0, progress));
        }
        let mut own = progress;
        let survey = EndSurvey { endable: 2, answered: 1, asked: 2, unseen: 0 };
        assert_eq!(own.claim(20_000, WINDOW, &survey), 1, "half of two");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_cancelled_drain_ends_nothing_and_the_next_one_does() {
        let policy = EndPolicy { kinds: Kinds::from_number(1), ..EndPolicy::default() };
        let drain = |began| Record { phase: Phase::Draining, began, ..Record::default() };
        let progress = EndProgress { began: 600, stopped: 500, ..EndProgress::default() };
        for (began, ends) in [(500, false), (550, false), (600, true), (700, true)] {
            assert_eq!(progress.window(&policy, &drain(began)).is_some(), ends, "{began}");
        }
        let drained = Record { phase: Phase::Drained, ..drain(700) };
        assert!(progress.window(&policy, &drained).is_none());
    }
}
