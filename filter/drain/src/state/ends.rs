//! The streams that a drain ends before its deadline: which, how many are due at a moment, and the
//! progress that all workers share. Pure.
//!
//! The pace follows from the number of streams and the time that are left, so it corrects itself:
//! streams that end by themselves, and orders that are lost, change only the interval.

use super::kinds::Kinds;
use super::moments::{Millis, Moment};
use super::timing::END_CATCH_UP;

/// Which streams a drain ends, when, and how.
#[derive(Debug, Clone, Default)]
pub struct EndPolicy {
    /// Empty: the gate ends no stream.
    pub kinds: Kinds,
    /// Also requests whose method changes something.
    pub changing: bool,
    /// The range of `Retry-After`, in seconds.
    pub retry_after: [u64; 2],
    /// How long a frame filter may take to close a WebSocket.
    pub grace: Millis,
    /// The length of the window.
    pub over: Millis,
    /// How long before the deadline the window begins.
    pub before_deadline: Millis,
    /// Instead: streams of this age are ended from the beginning of the drain on.
    pub at_age: Option<Millis>,
    /// The time from the last end to the deadline, so that the quiet period fits in.
    pub reserve: Millis,
    /// The wait before clients are told to leave.
    pub delay: Millis,
}

/// An interval of the monotonic clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Window {
    /// Its beginning.
    pub from: Moment,
    /// Its end.
    pub to: Moment,
}

impl EndPolicy {
    /// The window in which a drain ends streams. After it, all streams that are left are ended at
    /// once.
    pub fn window(&self, began: Moment, deadline: Moment) -> Window {
        let begins = began + self.delay;
        let from = match self.at_age {
            Some(_) => begins,
            None => (deadline - self.before_deadline).max(begins),
        };
        Window { from, to: (from + self.over).min(deadline - self.reserve).max(from) }
    }
}

/// The ends of all drains of a gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct EndProgress {
    /// The beginning of the drain whose progress this is; none before the first one.
    pub began: Option<Moment>,
    /// The moment up to which all ends that were due were ordered.
    pub last: Moment,
    /// Streams that the counters were ordered to end.
    pub ordered: u64,
    /// The beginning of the newest drain that was cancelled, which ends no more streams.
    pub stopped: Option<Moment>,
}

impl EndProgress {
    /// Whether the drain that began then may end streams.
    pub(crate) fn may_end(&self, began: Moment) -> bool {
        self.stopped.is_none_or(|stopped| began > stopped)
            && self.began.is_none_or(|other| began >= other)
    }

    /// Begins the progress of this drain, and returns whether it did.
    pub(crate) fn begin(&mut self, drain: Moment) -> bool {
        let is_first = self.began.is_none_or(|began| drain > began);
        if is_first {
            *self = Self { began: Some(drain), stopped: self.stopped, ..Self::default() };
        }
        is_first
    }

    /// Forbids further ends of the drain that began then.
    pub(crate) fn stop(&mut self, drain: Moment) {
        self.stopped = self.stopped.max(Some(drain));
    }

    /// Takes the streams of those `left` that are due now, at most `most`.
    pub(crate) fn claim(&mut self, now: Moment, window: Window, left: u64, most: u64) -> u64 {
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
        let span = (window.to - since).0.max(1);
        let due = (now - since).0.saturating_mul(left) / span;
        let most_at_once = END_CATCH_UP.0.saturating_mul(left).div_ceil(span);
        let due = if due > most_at_once {
            self.last = now;
            most_at_once
        } else {
            self.last = since + Millis(due.saturating_mul(span) / left);
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

    use super::{EndProgress, Moment, Window};

    const WINDOW: Window = Window { from: Moment(10_000), to: Moment(30_000) };

    fn claim(progress: &mut EndProgress, now: u64, left: u64, most: u64) -> u64 {
        progress.claim(Moment(now), WINDOW, left, most)
    }

    /// Claims every `step` milliseconds, and returns the moments and the amounts.
    fn run(streams: u64, step: usize) -> Vec<(u64, u64)> {
        let (mut progress, mut left) = (EndProgress::default(), streams);
        let mut claims = Vec::new();
        for now in (9_000..31_000).step_by(step) {
            let due = claim(&mut progress, now, left, u64::MAX);
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
                    assert!(*due == 0 || *now > WINDOW.from.0, "{due} at {now}");
                }
                for quarter in 1..4 {
                    let until = WINDOW.from.0 + quarter * 5_000;
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
                let due = claim(&mut progress, now, left, u64::MAX);
                left -= due;
                claims += due;
            }
        }
        assert!(claims.abs_diff(500) <= 1, "{claims}");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_pause_is_not_caught_up_at_once() {
        let mut progress = EndProgress { last: Moment(10_000), ..EndProgress::default() };
        let due = claim(&mut progress, 20_000, 1_000, u64::MAX);
        assert!(due <= 1_000 / 10, "{due}");
        let mut stuck = EndProgress::default();
        assert_eq!(claim(&mut stuck, 40_000, 1_000, 64), 64, "after the window, all that can");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_claim_of_extreme_numbers_does_not_exceed_the_streams_left() {
        for (from, to) in [(10_000, 30_000), (0, u64::MAX), (5, 5)] {
            let window = Window { from: Moment(from), to: Moment(to) };
            for now in [0, 5, 10_001, u64::MAX] {
                for last in [0, 20_000, u64::MAX] {
                    for left in [0, 1, u64::MAX] {
                        let mut progress = EndProgress {
                            last: Moment(last),
                            ordered: u64::MAX,
                            ..Default::default()
                        };
                        assert!(progress.claim(Moment(now), window, left, left) <= left);
                    }
                }
            }
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_cancelled_drain_ends_nothing_and_the_next_one_does() {
        let mut progress = EndProgress { began: Some(Moment(600)), ..EndProgress::default() };
        progress.stop(Moment(500));
        progress.stop(Moment(400));
        for (began, ends) in [(500, false), (550, false), (600, true), (700, true)] {
            assert_eq!(progress.may_end(Moment(began)), ends, "{began}");
        }
    }
}
