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
/// A query that runs for this multiple of the time that the last answer took, for at least
/// [`ABANDONED_AFTER`], or for longer than its time limit, was made by a VM that died.
const ABANDONED_FACTOR: u64 = 10;
/// See [`ABANDONED_FACTOR`]; milliseconds.
const ABANDONED_AFTER: u64 = 5_000;
/// The time after its limit in which the answer to a query is handled; milliseconds.
const SLACK: u64 = 1_000;

/// The queries of all gates so far; times are in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct QueryPacing {
    /// The beginning of the last query.
    began: u64,
    /// The end of the last query, answered or failed; 0 while it is running.
    ended: u64,
    /// The time that the last answer took.
    took: u64,
    /// The time that all answers took together, and queries that were abandoned.
    busy: u64,
    /// The time limit of the last query. Earlier versions ignore it.
    limit: u64,
}

impl SharedText for QueryPacing {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let [began, ended, took, busy] = parse::numbers(&mut words)?;
        let limit = words.next().and_then(|word| word.parse().ok()).unwrap_or(u64::MAX);
        Some(Self { began, ended, took, busy, limit })
    }

    fn to_text(&self) -> String {
        let Self { began, ended, took, busy, limit } = self;
        format!("{began} {ended} {took} {busy} {limit}")
    }
}

impl QueryPacing {
    pub(crate) fn read(host: &impl Control) -> Self {
        shared_text::read(host, KEY)
    }

    /// How long the last query has been running, at most as long as it can; none if it has ended.
    fn running_for(self, now: u64) -> Option<u64> {
        let is_running = self.began > 0 && self.ended == 0;
        is_running.then(|| now.saturating_sub(self.began).min(self.longest()))
    }

    /// The longest time of the last query; its VM has died if it takes longer.
    fn longest(self) -> u64 {
        let usual = self.took.saturating_mul(ABANDONED_FACTOR).max(ABANDONED_AFTER);
        self.limit.saturating_add(SLACK).min(usual)
    }

    /// Whether a query is running.
    fn is_running(self, now: u64) -> bool {
        self.running_for(now).is_some_and(|time| time < self.longest())
    }

    /// The time for which Envoy's main thread has been busy with queries, up to now. It never
    /// decreases.
    pub(crate) fn busy(self, now: u64) -> u64 {
        self.busy.saturating_add(self.running_for(now).unwrap_or_default())
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

    /// Claims the next query, which takes at most `limit`. False: it is too early.
    pub(crate) fn begin(host: &impl Control, limit: u64) -> bool {
        let now = host.monotonic_time();
        shared_text::claim(host, KEY, &mut |queries: &mut Self| {
            let is_allowed = queries.is_allowed(now);
            if is_allowed {
                queries.busy = queries.busy(now);
                (queries.began, queries.ended, queries.limit) = (now, 0, limit);
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
    use crate::shared_text::SharedText as _;

    const LIMIT: u64 = 10_000;

    #[wasm_bindgen_test(unsupported = test)]
    fn queries_run_one_at_a_time_and_after_a_pause() {
        let host = Fake::default();
        let begin = |now| {
            host.clock.set(now);
            QueryPacing::begin(&host, LIMIT)
        };
        let end = |now| {
            host.clock.set(now);
            QueryPacing::end(&host);
        };
        assert!(begin(1_000));
        assert!(!begin(1_040), "one is running");
        assert_eq!(QueryPacing::read(&host).busy(1_040), 40);
        end(1_040);
        assert!(!begin(1_040), "too early");
        assert!(begin(1_200));
        assert!(!begin(6_199), "the slowest answer has not come");
        assert_eq!(QueryPacing::read(&host).busy(6_200), 40 + 5_000);
        assert!(begin(6_200), "the VM of the gate that made it has died");
        assert_eq!(QueryPacing::read(&host).busy(6_200), 40 + 5_000, "it never decreases");
        end(6_240);
        let pacing = QueryPacing::read(&host);
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

    #[wasm_bindgen_test(unsupported = test)]
    fn the_text_of_an_earlier_version_has_no_limit() {
        let text = QueryPacing { began: 1, ended: 2, took: 3, busy: 4, limit: 5 }.to_text();
        assert_eq!(text, "1 2 3 4 5");
        let earlier = QueryPacing::parse("1 2 3 4").expect("numbers");
        assert_eq!((earlier.busy, earlier.longest()), (4, 5_000));
    }
}
