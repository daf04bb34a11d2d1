//! The pace of queries for Envoy's own count. An answer keeps Envoy's main thread busy, for seconds
//! if there are many clusters. So the gates of all workers query one after the other, and the pause
//! between queries is a multiple of the time that the last answer took.

use super::envoy_samples::valid_for;
use crate::host::Control;
use crate::parse;
use crate::shared_text::{self, SharedText};

/// The shared data key. The name is that of earlier versions.
const KEY: &str = "laststream.questions";
/// The pause after an answer, as a multiple of the time that the answer took. It leaves four fifths
/// of the main thread's time.
const PAUSE_FACTOR: u64 = 4;
/// The longest pause, in milliseconds. A push of configuration and a time-out also make an answer
/// slow, and after them a drain must not be without a query up to its deadline.
const LONGEST_PAUSE: u64 = 10_000;
/// A query that has been running for this time, in milliseconds, and this multiple of the time that
/// the last answer took was made by a VM that died.
const ABANDONED_AFTER: u64 = 1_000;
const ABANDONED_FACTOR: u64 = 10;

/// The queries of all gates so far; times are in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QueryPacing {
    /// The beginning of the last query.
    began: u64,
    /// The end of the last query, answered or failed; 0 while it is running.
    ended: u64,
    /// The time that the last answer took.
    took: u64,
    /// The time that all answers took together.
    busy: u64,
}

impl SharedText for QueryPacing {
    fn parse(text: &str) -> Option<Self> {
        let [began, ended, took, busy] = parse::numbers(&mut text.split(' '))?;
        Some(Self { began, ended, took, busy })
    }

    fn to_text(&self) -> String {
        let Self { began, ended, took, busy } = self;
        format!("{began} {ended} {took} {busy}")
    }
}

impl QueryPacing {
    pub(crate) fn read(host: &impl Control) -> Self {
        shared_text::read(host, KEY)
    }

    /// Whether a query is running.
    fn is_running(self, now: u64) -> bool {
        let longest = self.took.saturating_mul(ABANDONED_FACTOR).saturating_add(ABANDONED_AFTER);
        self.began > 0 && self.ended == 0 && now.saturating_sub(self.began) < longest
    }

    /// The time for which Envoy's main thread has been busy with queries, up to now.
    pub(crate) fn busy(self, now: u64) -> u64 {
        let running = if self.is_running(now) { now.saturating_sub(self.began) } else { 0 };
        self.busy.saturating_add(running)
    }

    /// Whether the next query may begin.
    pub(crate) fn is_allowed(self, now: u64) -> bool {
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

    /// Claims the next query. False: it is too early.
    pub(crate) fn begin(host: &impl Control) -> bool {
        let now = host.monotonic_time();
        shared_text::claim(host, KEY, &mut |queries: &mut Self| {
            let is_allowed = queries.is_allowed(now);
            if is_allowed {
                (queries.began, queries.ended) = (now, 0);
            }
            is_allowed
        })
    }

    /// Records that the query was answered, or failed.
    pub(crate) fn end(host: &impl Control) {
        let now = host.monotonic_time();
        shared_text::update(host, KEY, &mut |queries: &mut Self| {
            if queries.ended == 0 {
                let took = now.saturating_sub(queries.began);
                (queries.ended, queries.took) = (now.max(1), took);
                queries.busy = queries.busy.saturating_add(took);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::QueryPacing;
    use crate::fake::Fake;

    #[wasm_bindgen_test(unsupported = test)]
    fn queries_run_one_at_a_time_and_after_a_pause() {
        let host = Fake::default();
        host.clock.set(1_000);
        assert!(QueryPacing::begin(&host));
        assert!(!QueryPacing::begin(&host), "one is running");
        host.clock.set(1_040);
        assert_eq!(QueryPacing::read(&host).busy(1_040), 40);
        QueryPacing::end(&host);
        assert!(!QueryPacing::begin(&host), "too early");
        host.clock.set(1_200);
        assert!(QueryPacing::begin(&host));
        host.clock.set(2_599);
        assert!(!QueryPacing::begin(&host), "it may take longer than the last");
        host.clock.set(2_600);
        assert!(QueryPacing::begin(&host), "the VM of the gate that made it has died");
        QueryPacing::end(&host);
        host.clock.set(9_000);
        assert!(QueryPacing::begin(&host));
        host.clock.set(9_040);
        QueryPacing::end(&host);
        let pacing = QueryPacing::read(&host);
        assert!(
            pacing.is_allowed(9_200) && pacing.is_reserved(9_200),
            "for the worker with the answer"
        );
        assert!(!pacing.is_reserved(9_340), "the answer is too old");
        assert_eq!(pacing.busy(9_040), 80);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_slow_answer_does_not_block_queries_for_a_whole_drain() {
        let paced = |took| QueryPacing { began: 1_000, ended: 1_000 + took, took, busy: took };
        assert!(!paced(2_000).is_allowed(10_999) && paced(2_000).is_allowed(11_000));
        let timed_out = paced(10_000);
        assert!(!timed_out.is_allowed(20_999) && timed_out.is_allowed(21_000));
        assert_eq!(timed_out.longest_wait(), 30_000);
    }
}
