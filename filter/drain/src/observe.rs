//! One observation from all sources: the gauges, the counters' replies, Envoy's own count, the app.
//! Pure.

use crate::count_state::CountState;
use crate::facts::Facts;
use crate::observation::{App, EnvoyCount, Observation, combine_counts};
use crate::policy::Policy;
use crate::samples::{EnvoySamples, Ignorable};
use crate::survey::Survey;

/// What one worker knows besides the facts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sources<'s> {
    pub(crate) policy: &'s Policy,
    pub(crate) facts: &'s Facts<'s>,
    pub(crate) survey: &'s Survey,
    pub(crate) samples: &'s EnvoySamples,
    /// The newest total number of requests by Envoy's own count.
    pub(crate) total: u64,
    /// The last query to the app of this drain that has a result, and the state that it shows.
    pub(crate) app: Option<(u64, App)>,
}

impl Sources<'_> {
    pub(crate) fn observe(self) -> Observation {
        let Self { policy, facts, survey, samples, total, app } = self;
        // Gauges that cannot be true are not shown: the counters know their own streams.
        let holding = match survey.count_state {
            CountState::Miscounted => survey.in_flight,
            _ => facts.counts.holding(policy.exempts_long_lived),
        };
        let envoy = self.envoy_count();
        let known_by_envoy = if policy.has_admin() { samples.known_until() } else { u64::MAX };
        let known_by_app = app.map_or(u64::MAX, |(asked_at, _)| asked_at);
        let may_have_uncounted = self.may_have_uncounted_streams();
        Observation {
            count: combine_counts(survey.count_state, holding, envoy, may_have_uncounted),
            may_revive: survey.may_revive,
            known_until: survey.alive_until.min(known_by_envoy).min(known_by_app),
            holding,
            in_flight: survey.in_flight,
            others_in_flight: survey.others_in_flight,
            read_at: facts.counts.read_at,
            begun: facts.counts.begun.map(|begun| begun.saturating_add(total)),
            envoy,
            buffered: samples.stats(facts.now).and_then(|stats| stats.buffered),
            lingers: !policy.has_admin() || !samples.has_buffered_bytes(),
            app: app.map_or(App::Asking, |(_, app)| app),
        }
    }

    /// Envoy's count, less the streams that Envoy also counts and that do not hold the drain. If
    /// Envoy rejects a counter, a stream that is in flight now cannot be told from an earlier one;
    /// where a scope has no counter, its streams cannot be told from those of other scopes.
    fn envoy_count(self) -> EnvoyCount {
        let Self { policy, facts, survey, samples, .. } = self;
        if !policy.has_admin() {
            return EnvoyCount::Absent;
        }
        let is_known = survey.count_state != CountState::Unknown && facts.rejected.is_empty();
        let ignorable = Ignorable {
            in_flight: if is_known { survey.ignorable_in_flight } else { [0; 2] },
            begun: facts.counts.ever_begun,
            is_complete: survey.completed_round >= samples.round(),
        };
        samples.count(facts.now, ignorable, needs_totals(survey.count_state))
    }

    /// Whether there may be streams that no counter knows, as far as that can be told without
    /// Envoy's own count.
    fn may_have_uncounted_streams(self) -> bool {
        let Self { policy, facts, survey, samples, .. } = self;
        let is_young = facts.now.saturating_sub(survey.counting_since) < policy.assumed_after;
        // There is one counter for each worker and the main thread. A VM that has never entered the
        // index may be dead.
        let each = samples.workers().unwrap_or(0) + 1;
        let is_missing = survey.counters < each.saturating_mul(policy.scopes.len() as u64);
        let stats = samples.stats(facts.now);
        let is_draining = stats.and_then(|stats| stats.draining).unwrap_or(0) > 0;
        is_young || is_missing || is_draining
    }
}

/// Whether Envoy's totals must show that no stream began in between, because the counters cannot.
/// Counters that are merely being asked can.
pub(crate) fn needs_totals(counters: CountState) -> bool {
    !matches!(counters, CountState::Exact | CountState::Asking)
}
