//! The number of streams that are due at a moment. Pure.
//!
//! The pace follows from the number of streams and the time that are left, so it corrects itself:
//! streams that end by themselves, and orders that are lost, change only the interval.

/// An interval of the monotonic clock; milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Window {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// The most time whose ends are caught up at once after a pause, for example if the VM of the gate
/// that claimed them has died; milliseconds.
const MOST_CATCH_UP: u64 = 1_000;

/// The progress of a drain's ends. All workers share it, so no stream is due twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Progress {
    /// The moment up to which all ends that were due were ordered.
    pub(crate) last: u64,
    /// Streams that the counters were ordered to end.
    pub(crate) ordered: u64,
}

impl Progress {
    /// Takes the streams that are due now, of `left` streams and at most `most`.
    pub(crate) fn claim(&mut self, now: u64, window: Window, left: u64, most: u64) -> u64 {
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
        let caught_up = MOST_CATCH_UP.saturating_mul(left).div_ceil(span);
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
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Progress, Window};

    const WINDOW: Window = Window { from: 10_000, to: 30_000 };

    /// Claims every `step` milliseconds, and returns the moments and the amounts.
    fn run(streams: u64, step: usize) -> Vec<(u64, u64)> {
        let (mut progress, mut left) = (Progress::default(), streams);
        let mut claims = Vec::new();
        for now in (9_000..31_000).step_by(step) {
            let due = progress.claim(now, WINDOW, left, u64::MAX);
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
        let (mut progress, mut left, mut claims) = (Progress::default(), 1_000_u64, 0);
        for now in (10_000..20_000).step_by(10) {
            for _ in 0..2 {
                let due = progress.claim(now, WINDOW, left, u64::MAX);
                left -= due;
                claims += due;
            }
        }
        assert!(claims.abs_diff(500) <= 1, "{claims}");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_pause_is_not_caught_up_at_once() {
        let mut progress = Progress { last: 10_000, ordered: 0 };
        let due = progress.claim(20_000, WINDOW, 1_000, u64::MAX);
        assert!(due <= 1_000 / 10, "{due}");
        let mut stuck = Progress::default();
        assert_eq!(stuck.claim(40_000, WINDOW, 1_000, 64), 64, "after the window, all that can");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_claim_of_extreme_numbers_does_not_exceed_the_streams_left() {
        for window in [WINDOW, Window { from: 0, to: u64::MAX }, Window { from: 5, to: 5 }] {
            for now in [0, 5, 10_001, u64::MAX] {
                for last in [0, 20_000, u64::MAX] {
                    for left in [0, 1, u64::MAX] {
                        let mut progress = Progress { last, ordered: u64::MAX };
                        assert!(progress.claim(now, window, left, left) <= left);
                    }
                }
            }
        }
    }
}
