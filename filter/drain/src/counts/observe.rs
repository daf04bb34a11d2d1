//! One observation from all sources: the gauges, the counters' replies, Envoy's own count, the app.
//! Pure.

use super::facts::{Facts, Sides, is_below_zero};
use super::samples::EnvoySamples;
use super::stats::Stats;
use super::subtraction::Ignorable;
use super::survey::Survey;
use crate::state::{
    App, Begun, CountState, DrainPolicy, EnvoyCount, Moment, Observation, Shared, combine_counts,
};

/// What one worker knows besides the facts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sources<'s> {
    pub(crate) policy: &'s DrainPolicy,
    pub(crate) facts: &'s Facts,
    pub(crate) survey: &'s Survey,
    pub(crate) samples: &'s EnvoySamples,
}

impl Sources<'_> {
    pub(crate) fn observe(self, shared: &Shared) -> Observation {
        let Self { policy, facts, survey, samples } = self;
        let (app, total) = (shared.app_since_the_drain_began(), shared.total.sum());
        let envoy = self.envoy_count(shared.sums_lack_streams);
        // Gauges that cannot be true are not shown: the counters know their own streams.
        let (holding, in_flight) = match (survey.count_state, envoy) {
            (_, EnvoyCount::Holds(requests)) if policy.by_envoy => (requests, requests),
            _ if policy.by_envoy => (0, 0),
            (CountState::Miscounted, _) => (survey.in_flight, survey.in_flight),
            _ => (facts.counts.holding(policy.exempts_long_lived), survey.in_flight),
        };
        let known_by_envoy = policy.has_admin().then(|| samples.known_until());
        let moments = [survey.alive_until, known_by_envoy, app.map(|reply| reply.asked_at)];
        let may_have_uncounted = self.may_have_uncounted_streams();
        Observation {
            count: combine_counts(survey.count_state, holding, envoy, may_have_uncounted),
            may_revive: survey.may_revive,
            known_until: moments.into_iter().flatten().min().unwrap_or(facts.now),
            holding,
            in_flight,
            others_in_flight: self.others_in_flight(envoy),
            read_at: facts.counts.read_at,
            begun: Begun {
                before: facts.counts.begun_before.saturating_add(total),
                after: facts.counts.begun().saturating_add(total),
            },
            envoy,
            connections: self.connections(),
            buffered: samples.stats(facts.now).and_then(|stats| stats.buffered),
            lingers: !policy.has_admin() || !samples.has_buffered_bytes(),
            app: app.map_or(App::Awaited, |reply| reply.state),
        }
    }

    /// TCP connections, which only Envoy counts.
    fn connections(self) -> EnvoyCount {
        if !self.policy.counts_tcp {
            return EnvoyCount::Absent;
        }
        let stats = self.samples.stats(self.facts.now);
        let known = stats.and_then(|stats| stats.connections);
        known.map_or(EnvoyCount::Awaited, EnvoyCount::Holds)
    }

    /// Streams in flight of scopes that the gate does not wait for, by counters and gauges. After a
    /// death the gauges prove nothing, if Envoy has no request that a live counter does not know.
    fn others_in_flight(self, envoy: EnvoyCount) -> u64 {
        let Self { policy, facts, survey, samples } = self;
        if policy.by_envoy {
            return samples.stats(facts.now).and_then(|stats| stats.others).unwrap_or_default();
        }
        let gauges = facts.counts.others_in_flight;
        let is_wrong = survey.others_died || is_below_zero(gauges);
        let is_none = |stats: Stats| !stats.splits_directions || stats.others == Some(0);
        let envoy_has_none =
            envoy == EnvoyCount::Holds(0) && samples.stats(facts.now).is_some_and(is_none);
        survey.others_in_flight.max(if is_wrong && envoy_has_none { 0 } else { gauges })
    }

    /// The streams that can be subtracted from Envoy's count. If Envoy rejects a counter, a stream
    /// that is in flight now cannot be told from an earlier one; where a scope has no counter, its
    /// streams cannot be told from those of other scopes.
    pub(crate) fn ignorable(self) -> Ignorable {
        let Self { facts, survey, samples, .. } = self;
        let is_known = survey.count_state != CountState::Unknown && facts.rejected.is_empty();
        Ignorable {
            in_flight: if is_known { survey.ignorable } else { Sides::default() },
            begun: facts.counts.ever_begun,
            is_complete: survey.completed_round >= samples.round(),
        }
    }

    /// Envoy's count, less the streams that Envoy also counts and that do not hold the drain.
    fn envoy_count(self, sums_lack_streams: bool) -> EnvoyCount {
        let Self { policy, facts, survey, samples, .. } = self;
        if !policy.has_admin() {
            return EnvoyCount::Absent;
        }
        let ignorable = match sums_lack_streams {
            true => Ignorable { in_flight: Sides::default(), ..self.ignorable() },
            false => self.ignorable(),
        };
        samples.count(facts.now, ignorable, needs_totals(policy, survey.count_state))
    }

    /// Whether there may be streams that no counter knows, as far as that can be told without
    /// Envoy's own count.
    fn may_have_uncounted_streams(self) -> bool {
        let Self { policy, facts, survey, samples, .. } = self;
        let is_old = |since: Moment| facts.now - since >= policy.assumed_after;
        // There is one counter for each worker and the main thread. A VM that has never entered the
        // index may be dead.
        let counters = samples.workers().unwrap_or(0) + 1;
        let is_missing = survey.counters < counters.saturating_mul(policy.scopes.len() as u64);
        let stats = samples.stats(facts.now);
        let is_draining = stats.and_then(|stats| stats.draining).unwrap_or(0) > 0;
        !survey.counting_since.is_some_and(is_old) || is_missing || is_draining
    }
}

/// Whether Envoy's totals must show that no stream began in between, because the counters cannot.
/// Counters that are merely being asked can.
pub(crate) fn needs_totals(policy: &DrainPolicy, counters: CountState) -> bool {
    policy.by_envoy || !matches!(counters, CountState::Exact | CountState::Asking)
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{DrainPolicy, EnvoySamples, Facts, Moment, Sources, Stats, Survey};
    use crate::counts::{BeforeQuery, Census, Counts, IndexEntry};
    use crate::state::{Queue, Scope};

    const NOW: Moment = Moment(50_000);

    /// Streams of another scope, if a counter of it is dead.
    fn others(policy: &DrainPolicy, gauge: u64, envoy: Option<Stats>) -> u64 {
        let entry = IndexEntry {
            queue: Queue(1),
            scope: Scope::Outbound,
            since: Moment(1),
            written_off: Some(Moment(2)),
        };
        let facts = Facts {
            now: NOW,
            counts: Counts { others_in_flight: gauge, ..Counts::default() },
            index: vec![entry],
            queue: Some(Queue(1)),
            ..Facts::default()
        };
        let mut samples = EnvoySamples::default();
        if let Some(stats) = envoy {
            let before = BeforeQuery { at: NOW, with_totals: true, ..BeforeQuery::default() };
            let number = samples.begin_query(before);
            samples.end_query(number, NOW, 0, Ok(stats));
        }
        let survey = &Survey::new(&Census::default(), policy, &facts, 0);
        assert!(survey.others_died);
        let sources = Sources { policy, facts: &facts, survey, samples: &samples };
        sources.observe(&facts.shared).others_in_flight
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn after_a_death_in_another_scope_envoy_tells_which_streams_go_on() {
        let of = |scope| DrainPolicy { scopes: vec![scope], ..DrainPolicy::default() };
        let (inbound, gateway) = (of(Scope::Inbound), of(Scope::Gateway));
        let all = Stats { active: Some(0), total: Some(5), ..Stats::default() };
        let split = Stats { splits_directions: true, others: Some(0), ..all };
        for (policy, envoy, expected) in [
            (&inbound, Some(split), 0),
            (&gateway, Some(all), 0),
            (&inbound, Some(Stats { others: Some(1), ..split }), 8),
            (&inbound, Some(Stats { others: None, ..split }), 8),
            (&inbound, Some(Stats { ignored: Some(1), ..split }), 0),
            (&gateway, Some(Stats { active: Some(1), ..all }), 8),
            (&gateway, Some(Stats { active: None, ..all }), 8),
            (&inbound, None, 8),
        ] {
            assert_eq!(others(policy, 8, envoy), expected, "{envoy:?}");
        }
        assert_eq!(others(&inbound, u64::MAX, Some(split)), 0, "a gauge below zero");
        assert_eq!(others(&inbound, 0, None), 0, "the gauge shows none");
    }
}
