//! Samples of Envoy's own count through its admin interface, each with the gate's own numbers just
//! before the query.

use crate::facts::Sides;
use crate::observation::EnvoyCount;
use crate::stats::Stats;
use crate::timing::{VALID, VALID_FACTOR};

/// Why Envoy's last answer was none. It does not mean that Envoy has no count: the gate holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AdminFault {
    /// Envoy does not know the cluster, or no endpoint in it.
    Refused,
    /// No answer came within the time limit.
    TimedOut,
    /// The answer was broken off.
    Reset,
    /// The answer has another status than 200.
    Status(u16),
    /// The answer is not, or not all of, Envoy's statistics.
    Foreign,
}

/// The gate's own numbers when a query began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct BeforeQuery {
    pub(crate) at: u64,
    /// Streams ever begun, counted or excluded.
    pub(crate) begun: Sides,
    /// The gauges of all of the gate's scopes.
    pub(crate) gauges: Vec<[u64; 2]>,
    /// The number of times that a leaked count had been healed.
    pub(crate) heals: u64,
    /// Whether the query includes the total number of requests.
    pub(crate) with_totals: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Sample {
    /// The number of the query.
    query: u64,
    before: BeforeQuery,
    took: u64,
    /// The first round of the census after the sample.
    round: u64,
    stats: Stats,
}

/// The queries of one worker's gate, and their answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct EnvoySamples {
    /// The number of queries so far.
    queries: u64,
    /// The beginning of the last query, whatever came of it.
    pub(crate) queried_at: u64,
    running: Option<BeforeQuery>,
    last: Option<Sample>,
    /// The total number of requests in the sample before the last one, if none was in flight then.
    idle_total: Option<u64>,
    /// Whether Envoy has ever answered with its count. Then Envoy exports the count, and a missing
    /// answer does not mean that there is no count.
    has_counted: bool,
    /// Why there was no answer since the last one.
    pub(crate) fault: Option<AdminFault>,
}

/// The counters' numbers, after a sample, of streams that do not hold the drain.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ignorable {
    /// Streams in flight that do not hold the drain.
    pub(crate) in_flight: Sides,
    /// Streams ever begun.
    pub(crate) begun: Sides,
    /// Whether every counter that may reply has replied.
    pub(crate) is_complete: bool,
}

impl EnvoySamples {
    pub(crate) fn begin_query(&mut self, before: BeforeQuery) {
        self.queries += 1;
        self.queried_at = before.at;
        self.running = Some(before);
    }

    /// The number of the next query. Its answer will be about a later moment than now.
    pub(crate) fn next_query(&self) -> u64 {
        self.queries + 1
    }

    pub(crate) fn has_begun(&self, query: u64) -> bool {
        self.queries >= query
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(crate) fn answered_query(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| last.query)
    }

    /// Records that another worker makes the query.
    pub(crate) fn withdraw_query(&mut self) {
        if self.running.take().is_some() {
            self.queries -= 1;
        }
    }

    /// Records the answer to the query, or why there is none. `round` is the next round of the
    /// census.
    pub(crate) fn end_query(&mut self, now: u64, round: u64, answer: Result<Stats, AdminFault>) {
        let Some(before) = self.running.take() else { return };
        match answer {
            Ok(stats) => {
                self.idle_total = self
                    .last
                    .take()
                    .and_then(|last| last.stats.total.filter(|_| last.stats.active == Some(0)));
                self.has_counted |= stats.active.is_some();
                let took = now.saturating_sub(before.at);
                self.last = Some(Sample { query: self.queries, took, before, round, stats });
                self.fault = None;
            }
            Err(fault) => self.fault = Some(fault),
        }
    }

    /// The beginning of the last answered query, and the total number of requests in its answer, if
    /// the query included it.
    pub(crate) fn needed_total(&self) -> Option<(u64, u64)> {
        let last = self.last.as_ref().filter(|last| last.before.with_totals)?;
        Some((last.before.at, last.stats.total?))
    }

    /// Whether it is not known yet what Envoy exports.
    pub(crate) fn is_new(&self) -> bool {
        self.last.is_none()
    }

    /// The round of the census that shows which requests of the last sample do not hold the drain.
    pub(crate) fn round(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| last.round)
    }

    /// Envoy's number of workers, which never changes.
    pub(crate) fn workers(&self) -> Option<u64> {
        self.last.as_ref().and_then(|last| last.stats.workers)
    }

    /// Whether Envoy exports the number of bytes that wait to be written, as far as is known.
    pub(crate) fn has_buffered_bytes(&self) -> bool {
        self.last.as_ref().is_none_or(|last| last.stats.buffered.is_some())
    }

    fn valid(&self, now: u64) -> Option<&Sample> {
        let is_valid = |last: &&Sample| {
            let age = now.checked_sub(last.before.at);
            age.is_some_and(|age| age <= valid_for(last.took))
        };
        self.last.as_ref().filter(is_valid)
    }

    /// The last answer, while it is valid.
    pub(crate) fn stats(&self, now: u64) -> Option<Stats> {
        self.valid(now).map(|sample| sample.stats)
    }

    /// The time up to which Envoy's count is known.
    pub(crate) fn known_until(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| last.before.at)
    }

    /// The requests that hold the drain. With `needs_totals`, the counters cannot show whether a
    /// stream began in between, so Envoy's totals must.
    pub(crate) fn count(&self, now: u64, ignorable: Ignorable, needs_totals: bool) -> EnvoyCount {
        let Some(sample) = self.valid(now) else {
            let is_absent = self.last.is_some() && !self.has_counted;
            return if is_absent { EnvoyCount::Absent } else { EnvoyCount::Asking };
        };
        let stats = &sample.stats;
        match stats.active {
            // Envoy has exported its count before, so it has no connection manager left.
            None if self.has_counted => EnvoyCount::Holds(0),
            None => EnvoyCount::Absent,
            Some(_) if needs_totals && !sample.before.with_totals => EnvoyCount::Asking,
            Some(_) if needs_totals && stats.total.is_none() => EnvoyCount::Absent,
            Some(active) => match active.saturating_sub(sample.ignorable_requests(ignorable)) {
                0 => EnvoyCount::Holds(0),
                _ if !ignorable.is_complete => EnvoyCount::Asking,
                holds => EnvoyCount::Holds(holds),
            },
        }
    }

    /// The gate's numbers before the last query, if Envoy had no request in flight in this sample
    /// and the one before, and none began in between. The gauges then showed only leaked streams,
    /// and perhaps short streams of connection managers that the operator ignores.
    pub(crate) fn leaked(&self, now: u64) -> Option<&BeforeQuery> {
        let sample = self.valid(now)?;
        let stats = &sample.stats;
        let is_idle = stats.active == Some(0)
            && stats.ignored == 0
            && stats.total.is_some()
            && stats.total == self.idle_total;
        is_idle.then_some(&sample.before)
    }
}

/// The time for which a sample is valid after a query that took `took`; milliseconds.
pub(crate) fn valid_for(took: u64) -> u64 {
    took.saturating_mul(VALID_FACTOR).saturating_add(VALID)
}

impl Sample {
    /// Requests of this sample that do not hold the drain. A stream that is in flight after the
    /// sample and did not begin since the query was also in the sample. If connection managers of
    /// the other direction are left out, streams of other scopes are not in the sample. Each
    /// request in a connection manager that the operator ignores may be one of these streams.
    fn ignorable_requests(&self, after: Ignorable) -> u64 {
        let stayed = |side: usize| {
            let began = after.begun[side].saturating_sub(self.before.begun[side]);
            after.in_flight[side].saturating_sub(began)
        };
        let others = if self.stats.splits_directions { 0 } else { stayed(1) };
        stayed(0).saturating_add(others).saturating_sub(self.stats.ignored)
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{AdminFault, BeforeQuery, EnvoyCount, EnvoySamples, Ignorable, Stats};

    fn query(samples: &mut EnvoySamples, at: u64, begun: u64, gauge: u64) {
        samples.begin_query(BeforeQuery {
            at,
            begun: [begun, 0],
            gauges: vec![[gauge, 0]],
            heals: 0,
            with_totals: true,
        });
    }

    fn sees(samples: &mut EnvoySamples, (at, begun, gauge): (u64, u64, u64), stats: Stats) {
        query(samples, at, begun, gauge);
        samples.end_query(at + 1, 1, Ok(stats));
    }

    fn counted(active: u64, total: u64) -> Stats {
        Stats { active: Some(active), total: Some(total), ..Stats::default() }
    }

    fn ignorable(in_flight: u64, begun: u64) -> Ignorable {
        Ignorable { in_flight: [in_flight, 0], begun: [begun, 0], is_complete: true }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn only_streams_that_were_in_the_sample_are_ignored() {
        let mut samples = EnvoySamples::default();
        sees(&mut samples, (100, 7, 0), counted(3, 9));
        assert_eq!(samples.count(110, ignorable(2, 7), true), EnvoyCount::Holds(1));
        assert_eq!(
            samples.count(110, ignorable(1, 7), true),
            EnvoyCount::Holds(2),
            "one of them has ended"
        );
        assert_eq!(
            samples.count(110, ignorable(2, 8), true),
            EnvoyCount::Holds(2),
            "one of them may be another"
        );
        assert_eq!(
            samples.count(110, Ignorable { is_complete: false, ..ignorable(2, 8) }, true),
            EnvoyCount::Asking
        );
        assert_eq!(samples.count(110, ignorable(3, 7), true), EnvoyCount::Holds(0));
        assert_eq!(samples.count(5_000, ignorable(2, 7), true), EnvoyCount::Asking, "too old");
        assert_eq!(
            samples.count(50, ignorable(3, 7), true),
            EnvoyCount::Asking,
            "a sample of the future is not valid"
        );
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_stream_of_another_connection_manager_is_not_ignored() {
        let mut samples = EnvoySamples::default();
        sees(&mut samples, (100, 7, 0), Stats { ignored: 1, ..counted(1, 9) });
        assert_eq!(
            samples.count(110, ignorable(1, 7), true),
            EnvoyCount::Holds(1),
            "it may be in the ignored connection manager"
        );
        let outbound = Ignorable { in_flight: [0, 1], begun: [7, 0], is_complete: true };
        sees(&mut samples, (120, 7, 0), counted(1, 9));
        assert_eq!(samples.count(130, outbound, true), EnvoyCount::Holds(0));
        sees(&mut samples, (140, 7, 0), Stats { splits_directions: true, ..counted(1, 9) });
        assert_eq!(
            samples.count(150, outbound, true),
            EnvoyCount::Holds(1),
            "it is in a connection manager of the other direction"
        );
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_count_is_absent_if_envoy_never_had_it() {
        let mut samples = EnvoySamples::default();
        assert!(samples.is_new());
        assert_eq!(samples.count(100, ignorable(0, 0), false), EnvoyCount::Asking);
        sees(&mut samples, (100, 0, 0), Stats::default());
        assert_eq!(samples.count(110, ignorable(0, 0), false), EnvoyCount::Absent);
        assert_eq!(samples.count(9_000, ignorable(0, 0), false), EnvoyCount::Absent);
        sees(&mut samples, (9_000, 0, 0), Stats { active: Some(0), ..Stats::default() });
        assert_eq!(samples.count(9_001, ignorable(0, 0), false), EnvoyCount::Holds(0));
        assert_eq!(
            samples.count(9_001, ignorable(0, 0), true),
            EnvoyCount::Absent,
            "there is no total"
        );
        for _ in 0..9 {
            query(&mut samples, 9_100, 0, 0);
            samples.end_query(9_101, 1, Err(AdminFault::TimedOut));
        }
        assert_eq!(
            samples.count(19_000, ignorable(0, 0), false),
            EnvoyCount::Asking,
            "Envoy is known to export it"
        );
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn leaked_streams_need_two_idle_samples() {
        let mut samples = EnvoySamples::default();
        sees(&mut samples, (100, 7, 5), counted(0, 9));
        assert_eq!(samples.leaked(110), None, "one sample is not enough");
        sees(&mut samples, (200, 7, 4), counted(0, 9));
        let leaked = samples.leaked(210).map(|before| (&*before.gauges, before.heals));
        assert_eq!(leaked, Some((&[[4, 0]][..], 0)));
        sees(&mut samples, (300, 8, 4), counted(0, 10));
        assert_eq!(samples.leaked(310), None, "a request existed in between");
        sees(&mut samples, (400, 8, 4), counted(1, 11));
        assert_eq!(samples.leaked(410), None);
        sees(&mut samples, (500, 8, 4), counted(0, 11));
        sees(&mut samples, (600, 8, 4), Stats { ignored: 1, ..counted(0, 11) });
        assert_eq!(samples.leaked(610), None, "a gauge may show a stream that Envoy's count lacks");
    }

    /// A failure does not mean that Envoy has no count.
    #[wasm_bindgen_test(unsupported = test)]
    fn failures_leave_the_count_unknown() {
        for fault in [
            AdminFault::Refused,
            AdminFault::TimedOut,
            AdminFault::Reset,
            AdminFault::Status(503),
            AdminFault::Foreign,
        ] {
            let mut samples = EnvoySamples::default();
            for _ in 0..9 {
                query(&mut samples, 100, 0, 0);
                samples.end_query(200, 1, Err(fault));
            }
            assert_eq!(samples.count(300, ignorable(0, 0), false), EnvoyCount::Asking);
            assert_eq!((samples.fault, samples.answered_query()), (Some(fault), 0));
            sees(&mut samples, (300, 0, 0), counted(0, 0));
            assert_eq!((samples.fault, samples.answered_query()), (None, 10));
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_query_that_another_worker_makes_has_not_begun() {
        let mut samples = EnvoySamples::default();
        let next = samples.next_query();
        query(&mut samples, 100, 0, 0);
        assert!(samples.has_begun(next) && samples.is_running());
        samples.withdraw_query();
        assert!(!samples.has_begun(next) && !samples.is_running());
        assert_eq!((samples.next_query(), samples.fault), (next, None));
    }
}
