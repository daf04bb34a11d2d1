//! Envoy's own count as the second source: what it was at a moment, beside what the gate knew just before.

use alloc::vec::Vec;

use super::stats::Stats;

/// How long a sample is good; milliseconds.
const GOOD: u64 = 1_500;
/// After so many failures in a row there is no admin interface.
const MISSING_AFTER: u32 = 3;

/// What the gate knew when it asked Envoy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Before {
    pub(crate) at: u64,
    /// Streams ever begun, counted or excluded.
    pub(crate) moved: u64,
    /// Streams in flight that need not be waited for: excluded, or exempt.
    pub(crate) idle: u64,
    /// The gauges, all of all scopes.
    pub(crate) gauges: Vec<u64>,
}

#[derive(Debug)]
struct Sample {
    before: Before,
    stats: Stats,
}

#[derive(Debug, Default)]
pub(crate) struct Witness {
    asked: Option<Before>,
    last: Option<Sample>,
    /// Of the sample before the last: how many requests there had ever been, if none was in flight.
    still: Option<u64>,
    failures: u32,
}

impl Witness {
    pub(crate) fn ask(&mut self, before: Before) {
        self.asked = Some(before);
    }

    /// Envoy's answer; none when there was none.
    pub(crate) fn answered(&mut self, stats: Option<Stats>) {
        match (stats, self.asked.take()) {
            (Some(stats), Some(before)) => {
                self.still = self.last.take().and_then(|last| last.stats.total.filter(|_| last.stats.active == Some(0)));
                self.last = Some(Sample { before, stats });
                self.failures = 0;
            }
            _ => self.failures = self.failures.saturating_add(1),
        }
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.failures >= MISSING_AFTER
    }

    /// The last answer, while it is good, and when it was asked for.
    pub(crate) fn stats(&self, now: u64) -> Option<(u64, Stats)> {
        let last = self.last.as_ref()?;
        (now.saturating_sub(last.before.at) < GOOD).then_some((last.before.at, last.stats))
    }

    /// Requests that hold. Those that need not be waited for are taken off only if they were there before and after, and none of them
    /// can be another one. Without the number of requests ever begun, quiet cannot be known, so neither is this.
    pub(crate) fn active(&self, now: u64, moved: u64, idle: u64) -> Option<u64> {
        let (_, stats) = self.stats(now)?;
        let before = &self.last.as_ref()?.before;
        let idle = if before.moved == moved { idle.min(before.idle) } else { 0 };
        stats.total?;
        Some(stats.active?.saturating_sub(idle))
    }

    /// The gauges at a moment when no request was in flight in Envoy, nor had been for a while: all that they showed then had leaked.
    pub(crate) fn leaked(&self, now: u64) -> Option<&[u64]> {
        let (_, stats) = self.stats(now)?;
        let still = stats.active == Some(0) && stats.total.is_some() && stats.total == self.still;
        still.then_some(&*self.last.as_ref()?.before.gauges)
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Before, Stats, Witness};

    fn seen(witness: &mut Witness, before: (u64, u64, u64, u64), stats: (u64, u64)) {
        let (at, moved, idle, gauge) = before;
        witness.ask(Before { at, moved, idle, gauges: vec![gauge] });
        witness.answered(Some(Stats { active: Some(stats.0), total: Some(stats.1), ..Stats::default() }));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn takes_off_only_what_was_there_all_the_time() {
        let mut witness = Witness::default();
        seen(&mut witness, (100, 7, 2, 0), (3, 9));
        assert_eq!(witness.active(110, 7, 2), Some(1));
        assert_eq!(witness.active(110, 7, 1), Some(2), "one of them has ended");
        assert_eq!(witness.active(110, 8, 2), Some(3), "one of them may be another");
        assert_eq!(witness.active(5_000, 7, 2), None, "too old");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn leaked_is_what_stands_still_where_nothing_is() {
        let mut witness = Witness::default();
        seen(&mut witness, (100, 7, 0, 5), (0, 9));
        assert_eq!(witness.leaked(110), None, "one sample is none");
        seen(&mut witness, (200, 7, 0, 4), (0, 9));
        assert_eq!(witness.leaked(210), Some(&[4][..]));
        seen(&mut witness, (300, 8, 0, 4), (0, 10));
        assert_eq!(witness.leaked(310), None, "a request has been there");
        seen(&mut witness, (400, 8, 0, 4), (1, 11));
        assert_eq!(witness.leaked(410), None);
        (0..3).for_each(|_| witness.answered(None));
        assert!(witness.is_missing());
    }
}
