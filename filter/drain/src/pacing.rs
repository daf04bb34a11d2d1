//! The pace of queries for Envoy's own count. An answer keeps Envoy's main thread busy, for seconds
//! if there are many clusters. So the gates of all workers query one after the other, and the pause
//! between queries is a multiple of the time that the last answer took.

use crate::samples::valid_for;
use crate::timing::{ABANDONED_AFTER, ABANDONED_FACTOR, LONGEST_PAUSE, PAUSE_FACTOR, QUERY_SLACK};

/// The queries of all gates so far, which all workers share; times are in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueryPacing {
    /// The beginning of the last query.
    pub began: u64,
    /// The end of the last query, answered or failed; 0 while it is running.
    pub ended: u64,
    /// The time that the last answer took.
    pub took: u64,
    /// The time that all answers took together, and queries that were abandoned.
    pub busy: u64,
    /// The time limit of the last query.
    pub limit: u64,
}

impl QueryPacing {
    /// How long the last query has been running, at most as long as it can; none if it has ended.
    fn running_for(self, now: u64) -> Option<u64> {
        let is_running = self.began > 0 && self.ended == 0;
        is_running.then(|| now.saturating_sub(self.began).min(self.longest()))
    }

    /// The longest time of the last query; its VM has died if it takes longer.
    fn longest(self) -> u64 {
        let usual = self.took.saturating_mul(ABANDONED_FACTOR).max(ABANDONED_AFTER);
        self.limit.saturating_add(QUERY_SLACK).min(usual)
    }

    fn is_running(self, now: u64) -> bool {
        self.running_for(now).is_some_and(|time| time < self.longest())
    }

    /// The time for which Envoy's main thread has been busy with queries, up to now. It never
    /// decreases.
    #[must_use]
    pub fn busy(self, now: u64) -> u64 {
        self.busy.saturating_add(self.running_for(now).unwrap_or_default())
    }

    /// Whether the next query may begin.
    #[must_use]
    pub fn is_allowed(self, now: u64) -> bool {
        !self.is_running(now) && now >= self.began.saturating_add(self.interval())
    }

    /// The time from the beginning of one query to the beginning of the next.
    fn interval(self) -> u64 {
        self.took.saturating_add(self.took.saturating_mul(PAUSE_FACTOR).min(LONGEST_PAUSE))
    }

    /// Whether the next query is left to the worker that has the last answer, which is still valid.
    pub(crate) fn is_reserved(self, now: u64) -> bool {
        now < self.began.saturating_add(valid_for(self.took))
    }

    /// The longest time until the answer to the next query.
    pub(crate) fn longest_wait(self) -> u64 {
        self.interval().saturating_add(self.took)
    }

    /// Claims the next query, which takes at most `limit`. False: it is too early.
    pub fn begin(&mut self, now: u64, limit: u64) -> bool {
        let is_allowed = self.is_allowed(now);
        if is_allowed {
            self.busy = self.busy(now);
            (self.began, self.ended, self.limit) = (now, 0, limit);
        }
        is_allowed
    }

    /// Records that the query was answered, or failed.
    pub fn end(&mut self, now: u64) {
        if self.ended == 0 {
            let took = now.saturating_sub(self.began);
            (self.ended, self.took) = (now.max(1), took);
            self.busy = self.busy.saturating_add(took);
        }
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::QueryPacing;

    const LIMIT: u64 = 10_000;

    #[wasm_bindgen_test(unsupported = test)]
    fn queries_run_one_at_a_time_and_after_a_pause() {
        let mut pacing = QueryPacing::default();
        assert!(pacing.begin(1_000, LIMIT));
        assert!(!pacing.begin(1_040, LIMIT), "one is running");
        assert_eq!(pacing.busy(1_040), 40);
        pacing.end(1_040);
        assert!(!pacing.begin(1_040, LIMIT), "too early");
        assert!(pacing.begin(1_200, LIMIT));
        assert!(!pacing.begin(6_199, LIMIT), "the slowest answer has not come");
        assert_eq!(pacing.busy(6_200), 40 + 5_000);
        assert!(pacing.begin(6_200, LIMIT), "the VM of the gate that made it has died");
        assert_eq!(pacing.busy(6_200), 40 + 5_000, "it never decreases");
        pacing.end(6_240);
        assert!(
            pacing.is_allowed(6_400) && pacing.is_reserved(6_400),
            "for the worker with the answer"
        );
        assert!(!pacing.is_reserved(6_540), "the answer is too old");
        assert_eq!(pacing.busy(6_600), 80 + 5_000);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_slow_answer_does_not_block_queries_for_a_whole_drain() {
        let paced = |took| QueryPacing {
            began: 1_000,
            ended: 1_000 + took,
            took,
            busy: took,
            limit: LIMIT,
        };
        assert!(!paced(2_000).is_allowed(10_999) && paced(2_000).is_allowed(11_000));
        let timed_out = paced(10_000);
        assert!(!timed_out.is_allowed(20_999) && timed_out.is_allowed(21_000));
        assert_eq!(timed_out.longest_wait(), 30_000);
    }
}
