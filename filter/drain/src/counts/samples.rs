//! Samples of Envoy's own count through its admin interface, each with what the gate knew when the
//! query began.

use super::facts::Gauges;
use super::stats::Stats;
use super::subtraction::{Ignorable, is_disproved, passing, subtracted};
use crate::state::{DrainPolicy, EnvoyCount, Millis, Moment, Total, valid_for};

/// Why Envoy's last answer was none. It does not mean that Envoy has no count: the gate holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum AdminFault {
    /// Envoy does not know the cluster, or has no connection to an endpoint in it.
    NotSent,
    /// No answer came within the time limit.
    TimedOut,
    /// The answer was broken off.
    Reset,
    /// The answer has another status than 200.
    Status(u16),
    /// The answer is not, or not all of, Envoy's statistics.
    Foreign,
}

/// What the gate knew when a query began.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct BeforeQuery {
    pub(crate) at: Moment,
    /// The time up to which every counter was known to be alive; none without counters.
    pub(crate) alive_until: Option<Moment>,
    pub(crate) ignorable: Ignorable,
    /// The gauges of all of the gate's scopes.
    pub(crate) gauges: Vec<Gauges>,
    /// The number of times that a leaked count had been healed.
    pub(crate) heals: u64,
    /// Whether the query includes the total number of requests.
    pub(crate) with_totals: bool,
    /// What the statistics count that its answer lacks because they were never written; none if it
    /// lacks none of them.
    pub(crate) unwritten: Option<Stats>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Sample {
    /// The number of the query.
    query: u64,
    before: BeforeQuery,
    took: Millis,
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
    pub(crate) queried_at: Moment,
    /// The queries that have not ended, with their numbers. All but the last were given up, but
    /// may still be answered.
    running: Vec<(u64, BeforeQuery)>,
    last: Option<Sample>,
    /// The last answer with all that Envoy exports, and the beginning of its query.
    whole: Option<(Moment, Stats)>,
    /// The total number of requests in the sample before the last one, if none was in flight then.
    idle_total: Option<u64>,
    /// Whether Envoy has ever answered with its count. Then Envoy exports the count, and a missing
    /// answer does not mean that there is no count.
    has_counted: bool,
    /// Why there was no answer since the last one.
    pub(crate) fault: Option<AdminFault>,
}

impl EnvoySamples {
    /// Begins a query, and returns its number.
    pub(crate) fn begin_query(&mut self, before: BeforeQuery) -> u64 {
        self.queries += 1;
        self.queried_at = before.at;
        self.running.push((self.queries, before));
        self.queries
    }

    /// The number of the next query. Its answer will be about a later moment than now.
    pub(crate) fn next_query(&self) -> u64 {
        self.queries + 1
    }

    pub(crate) fn has_begun(&self, query: u64) -> bool {
        self.queries >= query
    }

    pub(crate) fn answered_query(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| last.query)
    }

    /// What the next query can leave out, because a whole answer since then has shown it. Without a
    /// connection manager in that answer, a later one's statistics are looked for in the whole.
    pub(crate) fn unwritten(&self, since: Moment, with_totals: bool) -> Option<Stats> {
        let (at, stats) = self.whole?;
        let has_all = stats.active.is_some() && (stats.total.is_some() || !with_totals);
        (at >= since && has_all).then(|| stats.unwritten())
    }

    /// Reads the answer to a query.
    pub(crate) fn read(&mut self, query: u64, text: &str, policy: &DrainPolicy) -> Option<Stats> {
        let (_, before) = self.running.iter().find(|(number, _)| *number == query)?;
        let stats = Stats::read(text, policy, before.unwritten.unwrap_or_default())?;
        if before.unwritten.is_none() {
            self.whole = Some((before.at, stats));
        }
        Some(stats.judged(policy))
    }

    /// Records the answer to a query, or why there is none. `round` is the next round of the
    /// census. Returns the beginning of the query.
    pub(crate) fn end_query(
        &mut self,
        query: u64,
        now: Moment,
        round: u64,
        answer: Result<Stats, AdminFault>,
    ) -> Option<Moment> {
        let index = self.running.iter().position(|(number, _)| *number == query)?;
        let (_, before) = self.running.remove(index);
        let began = before.at;
        match answer {
            _ if query < self.answered_query() => {} // a newer one was answered first
            Ok(stats) => {
                self.idle_total = self
                    .last
                    .take()
                    .and_then(|last| last.stats.total.filter(|_| last.stats.active == Some(0)));
                self.has_counted |= stats.active.is_some();
                self.last = Some(Sample { query, took: now - began, before, round, stats });
                self.fault = None;
            }
            Err(fault) => self.fault = Some(fault),
        }
        Some(began)
    }

    /// The totals in the last answer, as far as its query needed them; the others stay as they
    /// were.
    pub(crate) fn needed_total(&self, before: Total) -> Option<Total> {
        let last = self.last.as_ref()?;
        let requests = last.stats.total.filter(|_| last.before.with_totals);
        let connections = last.stats.connections_total;
        (requests.is_some() || connections.is_some()).then(|| Total {
            at: last.before.at,
            requests: requests.unwrap_or(before.requests),
            connections: connections.unwrap_or(before.connections),
        })
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

    fn valid(&self, now: Moment) -> Option<&Sample> {
        let is_valid = |last: &&Sample| {
            now.since(last.before.at).is_some_and(|age| age <= valid_for(last.took))
        };
        self.last.as_ref().filter(is_valid)
    }

    /// The last answer, while it is valid.
    pub(crate) fn stats(&self, now: Moment) -> Option<Stats> {
        self.valid(now).map(|sample| sample.stats)
    }

    /// The time up to which Envoy's count is known. A worker that stands still since it last
    /// replied may have ended a stream whose last bytes are in no sum yet, so every worker must
    /// have replied before the query began.
    pub(crate) fn known_until(&self) -> Moment {
        let before = self.last.as_ref().map(|last| &last.before);
        before.map_or(Moment(0), |before| {
            before.alive_until.map_or(before.at, |alive| alive.min(before.at))
        })
    }

    /// The requests that hold the drain. With `needs_totals`, the counters cannot show whether a
    /// stream began in between, so Envoy's totals must.
    pub(crate) fn count(&self, now: Moment, after: Ignorable, needs_totals: bool) -> EnvoyCount {
        let Some(Sample { before, stats, .. }) = self.valid(now) else {
            let is_absent = self.last.is_some() && !self.has_counted;
            return if is_absent { EnvoyCount::Absent } else { EnvoyCount::Awaited };
        };
        let Some(active) = stats.active else {
            // Envoy has exported its count before, so it has no connection manager left.
            return if self.has_counted { EnvoyCount::Holds(0) } else { EnvoyCount::Absent };
        };
        if needs_totals && !before.with_totals {
            return EnvoyCount::Awaited;
        }
        if needs_totals && stats.total.is_none() {
            return EnvoyCount::Absent;
        }
        match active.saturating_sub(subtracted(stats, before.ignorable, after)) {
            0 => EnvoyCount::Holds(0),
            _ if !after.is_complete => EnvoyCount::Awaited,
            rest if rest <= passing(before.ignorable, after) => EnvoyCount::Awaited,
            rest => EnvoyCount::Holds(rest),
        }
    }

    /// Whether the last sample proves that streams of the counters are in no sum of Envoy.
    pub(crate) fn lacks_streams(&self, after: Ignorable) -> bool {
        self.last
            .as_ref()
            .is_some_and(|last| is_disproved(&last.stats, last.before.ignorable, after))
    }

    /// What the gate knew before the last query, if Envoy had no request in flight in this sample
    /// and the one before, and none began in between. The gauges then showed only leaked streams,
    /// and perhaps short streams of connection managers that the operator ignores.
    pub(crate) fn leaked(&self, now: Moment) -> Option<&BeforeQuery> {
        let sample = self.valid(now)?;
        let stats = &sample.stats;
        let is_idle = stats.active == Some(0)
            && stats.ignored.unwrap_or_default() == 0
            && stats.total.is_some()
            && stats.total == self.idle_total;
        is_idle.then_some(&sample.before)
    }
}

#[cfg(test)]
#[path = "samples_tests.rs"]
mod tests;
