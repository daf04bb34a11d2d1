//! The pace of one gate's queries for Envoy's own count. An answer keeps Envoy's main thread busy,
//! for seconds if there are many clusters. So the workers query one after the other, and the pause
//! between queries is as long as the last answer took: the main thread has half of its time.

use super::moments::{Millis, Moment, Queue};
use super::timing::{
    ABANDONED_AFTER, ABANDONED_FACTOR, FAILED_PAUSE, FIRST_ABANDONED_AFTER, LONGEST_PAUSE,
    MOST_FAILED_PAUSE, QUERY_SLACK, VALID, VALID_FACTOR,
};

/// The queries of all workers of a gate so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct QueryPacing {
    /// The query that is not over yet.
    pub running: Option<RunningQuery>,
    /// The time at which the next query may begin, once none is running.
    pub next: Moment,
    /// The time that the last answer took; none as long as no query was answered.
    pub took: Option<Millis>,
    /// The time that all answers took together.
    pub busy: Millis,
    /// The queries since then that were given up or have failed.
    pub unanswered: u64,
}

/// A query that is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RunningQuery {
    /// Its beginning.
    pub began: Moment,
    /// Its time limit.
    pub limit: Millis,
    /// The gate that made it, which alone ends it.
    pub owner: Queue,
}

/// The time for which an answer is valid that took this long.
pub(crate) fn valid_for(took: Millis) -> Millis {
    took * VALID_FACTOR + VALID
}

impl QueryPacing {
    /// The longest time of a query, after which another may begin.
    fn patience(self, limit: Millis) -> Millis {
        let usual = match self.took {
            Some(took) => (took * ABANDONED_FACTOR).max(ABANDONED_AFTER),
            None => FIRST_ABANDONED_AFTER,
        };
        (usual * self.doubled()).min(limit + QUERY_SLACK)
    }

    /// Twice as much for each query without an answer.
    fn doubled(self) -> u64 {
        1 << self.unanswered.min(16)
    }

    fn is_running(self, now: Moment) -> bool {
        self.running.is_some_and(|query| now < query.began + self.patience(query.limit))
    }

    /// The time for which queries have kept Envoy's main thread busy, or may have up to now.
    pub(crate) fn busy(self, now: Moment) -> Millis {
        let running = self.running.map(|query| (now - query.began).min(self.patience(query.limit)));
        self.busy + running.unwrap_or_default()
    }

    /// Whether the next query may begin.
    pub fn is_allowed(self, now: Moment) -> bool {
        !self.is_running(now) && now >= self.next
    }

    /// The time that the last answer took, as far as is known.
    pub(crate) fn last_took(self) -> Millis {
        self.took.unwrap_or_default()
    }

    /// The longest time until the answer to the next query.
    pub(crate) fn longest_wait(self) -> Millis {
        pause_after(self.last_took()) + self.last_took() * 2
    }

    /// Begins a query of this gate, which takes at most `limit`, and returns whether it may.
    pub fn begin(&mut self, now: Moment, limit: Millis, owner: Queue) -> bool {
        let is_allowed = self.is_allowed(now);
        if is_allowed {
            self.unanswered += u64::from(self.running.is_some());
            self.running = Some(RunningQuery { began: now, limit, owner });
        }
        is_allowed
    }

    /// Records the end of the query that this gate began at that moment, unless it was given up. A
    /// query that has failed did not keep Envoy busy, and says nothing about the next one.
    pub fn end(&mut self, began: Moment, owner: Queue, now: Moment, is_answered: bool) {
        let is_same = |query: RunningQuery| (query.began, query.owner) == (began, owner);
        if !self.running.is_some_and(is_same) {
            return;
        }
        self.running = None;
        if is_answered {
            let took = now - began;
            self.busy = self.busy + took;
            (self.took, self.unanswered, self.next) = (Some(took), 0, now + pause_after(took));
        } else {
            self.next = now + (FAILED_PAUSE * self.doubled()).min(MOST_FAILED_PAUSE);
            self.unanswered += 1;
        }
    }

    /// Ends the query of a gate that is deleted: its answer is dropped.
    pub(crate) fn drop_query_of(&mut self, owner: Option<Queue>) {
        self.running = self.running.filter(|query| Some(query.owner) != owner);
    }
}

fn pause_after(took: Millis) -> Millis {
    took.min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Millis, Moment, QueryPacing, Queue};

    const LIMIT: Millis = Millis(10_000);
    const OWN: Queue = Queue(1);

    /// An answer that took this long, to a query at 1,000.
    fn after(took: u64) -> QueryPacing {
        let mut pacing = QueryPacing::default();
        assert!(pacing.begin(Moment(1_000), LIMIT, OWN));
        pacing.end(Moment(1_000), OWN, Moment(1_000 + took), true);
        pacing
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn queries_run_one_at_a_time_and_after_a_pause() {
        let mut pacing = QueryPacing::default();
        assert!(pacing.begin(Moment(1_000), LIMIT, OWN));
        assert!(!pacing.begin(Moment(1_040), LIMIT, OWN), "one is running");
        pacing.end(Moment(1_000), OWN, Moment(1_040), true);
        assert!(!pacing.begin(Moment(1_079), LIMIT, OWN), "too early");
        assert!(pacing.begin(Moment(1_080), LIMIT, OWN));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_slow_answer_does_not_block_queries_for_a_whole_drain() {
        assert!(!after(2_000).is_allowed(Moment(4_999)) && after(2_000).is_allowed(Moment(5_000)));
        let slow = after(30_000);
        assert!(!slow.is_allowed(Moment(40_999)) && slow.is_allowed(Moment(41_000)));
    }

    /// Otherwise one lost answer would keep an idle drain closed for the time limit of a query, and
    /// then for a pause after it.
    #[wasm_bindgen_test(unsupported = test)]
    fn a_lost_answer_costs_little_and_each_further_one_more() {
        let mut pacing = after(2);
        for (began, again) in [(2_000, 2_200), (2_200, 2_600), (2_600, 3_400)] {
            assert!(pacing.begin(Moment(began), LIMIT, OWN));
            assert!(!pacing.is_allowed(Moment(again - 1)) && pacing.is_allowed(Moment(again)));
        }
        pacing.end(Moment(2_000), OWN, Moment(3_400), true);
        assert!(pacing.is_allowed(Moment(3_400)), "a query that was given up ends no other");
        assert!(pacing.begin(Moment(3_400), LIMIT, OWN));
        pacing.end(Moment(3_400), OWN, Moment(3_402), true);
        assert!(!pacing.is_allowed(Moment(3_403)) && pacing.is_allowed(Moment(3_404)));
        for (failed, again) in [(4_000, 4_100), (4_100, 4_300), (4_300, 4_700), (9_000, 9_800)] {
            assert!(pacing.begin(Moment(failed), LIMIT, OWN));
            pacing.end(Moment(failed), OWN, Moment(failed), false);
            assert!(!pacing.is_allowed(Moment(again - 1)) && pacing.is_allowed(Moment(again)));
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn only_its_owner_ends_a_query() {
        let mut pacing = after(2);
        assert!(pacing.begin(Moment(2_000), LIMIT, OWN));
        pacing.end(Moment(2_000), Queue(2), Moment(2_010), true);
        pacing.drop_query_of(Some(Queue(2)));
        assert!(!pacing.is_allowed(Moment(2_100)));
        pacing.drop_query_of(Some(OWN));
        assert!(pacing.is_allowed(Moment(2_100)));
    }
}
