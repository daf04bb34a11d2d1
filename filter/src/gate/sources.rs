//! The sources of one worker's gate: the counters' metrics, their replies, Envoy's own count, and
//! the app's answer.

use strum::VariantArray as _;

use super::envoy_samples::{BeforeQuery, EnvoySamples, Ignorable};
use super::healing;
use super::machine::Record;
use super::metrics::Metrics;
use super::observation::{App, Observation, combine_counts};
use super::policy::Policy;
use super::query_pacing::QueryPacing;
use super::replies::{Details, ScopeStatus};
use super::stats::Stats;
use super::total::SharedTotal;
use super::waiting::Needs;
use crate::census::{Census, CountState, Sides, Survey, SurveyOptions, is_rejected, latch};
use crate::config::wire::Scope;
use crate::host::{Control, Metric};

/// The number of times that `in_flight` and `long_lived` are read before all long-lived streams
/// count as holding.
const READS: usize = 4;

#[derive(Debug, Clone)]
pub(super) struct Sources {
    pub(super) metrics: Metrics,
    pub(super) census: Census,
    pub(super) samples: EnvoySamples,
    /// The time of the last query to the app that has a result, and the state that it shows.
    pub(super) app_reply: Option<(u64, App)>,
    pub(super) app_asked_at: u64,
    pub(super) total: SharedTotal,
}

impl Sources {
    pub(super) fn new(metrics: Metrics, total: SharedTotal) -> Self {
        Self {
            metrics,
            census: Census::default(),
            samples: EnvoySamples::default(),
            app_reply: None,
            app_asked_at: 0,
            total,
        }
    }

    /// The numbers of the next requests to the counters and to Envoy.
    pub(super) fn next_answers(&self) -> Needs {
        Needs { round: self.census.round() + 1, query: self.samples.next_query() }
    }

    /// Streams ever begun that the counters of this gate's scopes have counted.
    pub(super) fn counted_streams_begun(&self, host: &impl Control) -> u64 {
        let begun =
            |(_, [_, _, begun]): &(Scope, [Metric; 3])| host.get_metric(*begun).unwrap_or_default();
        self.metrics.scopes.iter().map(begun).fold(0, u64::saturating_add)
    }

    /// Streams that hold the drain. An impossibly large number is an error of accounting, and does
    /// not count as zero.
    ///
    /// `in_flight` and `long_lived` cannot be read at once. If no stream began between the reads,
    /// `in_flight`, which is read first, is never too low and `long_lived` never too high; see
    /// `Stream::count`. If streams keep beginning between the reads, long-lived streams also count
    /// as holding.
    pub(super) fn holding(&self, host: &impl Control, policy: &Policy) -> u64 {
        let sum = |which: usize| {
            let scopes = self.metrics.scopes.iter();
            let values = scopes.map(|(_, metrics)| host.get_metric(metrics[which]));
            values.fold(0, |sum: u64, value| sum.saturating_add(value.unwrap_or(u64::MAX)))
        };
        let [in_flight, long_lived] = [0, 1];
        for _ in 0..READS {
            let begun = self.counted_streams_begun(host);
            let all = sum(in_flight);
            if all == 0 || !policy.exempts_long_lived {
                return all;
            }
            let long_lived = sum(long_lived);
            if self.counted_streams_begun(host) == begun {
                return all.saturating_sub(long_lived);
            }
        }
        sum(in_flight)
    }

    /// Streams ever begun, counted or excluded: of the gate's scopes, and of all others.
    fn total_streams_begun(&self, host: &impl Control, policy: &Policy) -> Sides {
        let mut begun = [0_u64; 2];
        for (scope, counter) in &self.metrics.all_begun {
            let side = usize::from(!policy.scopes.contains(scope));
            begun[side] = begun[side].saturating_add(host.get_metric(*counter).unwrap_or_default());
        }
        begun
    }

    pub(super) fn survey(&self, host: &impl Control, policy: &Policy) -> Survey {
        let options = SurveyOptions {
            scopes: &policy.scopes,
            exempts_long_lived: policy.exempts_long_lived,
            ignorable_since: self.samples.round(),
            busy: envoy_busy(host),
        };
        self.census.survey(host, options)
    }

    /// Reads the counts first and the streams ever begun last: if none is in flight and none began
    /// since, none existed in between.
    pub(super) fn observe(
        &self,
        host: &impl Control,
        policy: &Policy,
        (now, survey, record): (u64, &Survey, &Record),
    ) -> Observation {
        let holding = self.holding(host, policy);
        let begun = self.counted_streams_begun(host);
        let stats = self.samples.stats(now);
        let ignorable = self.ignorable_in_flight(host, policy, survey);
        let envoy = self.samples.count(now, ignorable, needs_totals(survey.count_state));
        let may_have_uncounted = self.may_have_uncounted_streams(policy, now, survey, stats);
        // An answer from before this drain is no answer about it.
        let app = self.app_reply.filter(|(asked_at, _)| *asked_at >= record.began);
        let app_known_until = app.map_or(u64::MAX, |(asked_at, _)| asked_at);
        Observation {
            count: combine_counts(survey.count_state, holding, envoy, may_have_uncounted),
            may_revive: survey.may_revive,
            known_until: survey.alive_until.min(self.samples.known_until()).min(app_known_until),
            holding,
            in_flight: survey.in_flight,
            begun: begun.saturating_add(self.total.newest(host)),
            envoy,
            buffered: stats.and_then(|stats| stats.buffered),
            lingers: !self.samples.has_buffered_bytes(),
            app: app.map_or(App::Asking, |(_, app)| app),
        }
    }

    /// The streams in flight that Envoy also counts and that do not hold the drain. If Envoy
    /// rejects a counter, a stream that is in flight now cannot be told from an earlier one.
    fn ignorable_in_flight(
        &self,
        host: &impl Control,
        policy: &Policy,
        survey: &Survey,
    ) -> Ignorable {
        let is_complete = survey.completed_round >= self.samples.round();
        // Where a scope has no counter, its streams cannot be told from those of other scopes.
        let is_known = survey.count_state != CountState::Unknown
            && !Scope::VARIANTS.iter().any(|scope| is_rejected(host, *scope));
        Ignorable {
            in_flight: if is_known { survey.ignorable_in_flight } else { [0; 2] },
            begun: self.total_streams_begun(host, policy),
            is_complete,
        }
    }

    /// Whether there may be streams that no counter knows, as far as that can be told without
    /// Envoy's own count.
    fn may_have_uncounted_streams(
        &self,
        policy: &Policy,
        now: u64,
        survey: &Survey,
        stats: Option<Stats>,
    ) -> bool {
        let is_young = now.saturating_sub(survey.counting_since) < policy.assumed_after;
        // There is one counter for each worker and the main thread. A VM that has never entered the
        // index may be dead.
        let each = self.samples.workers().unwrap_or(0) + 1;
        let is_missing = survey.counters < each.saturating_mul(policy.scopes.len() as u64);
        let is_draining = stats.and_then(|stats| stats.draining).unwrap_or(0) > 0;
        is_young || is_missing || is_draining
    }

    /// The gate's own numbers at the beginning of a query to Envoy.
    pub(super) fn before_query(
        &self,
        host: &impl Control,
        policy: &Policy,
        at: u64,
        with_totals: bool,
    ) -> BeforeQuery {
        let gauges = self.metrics.gauges.iter();
        BeforeQuery {
            at,
            gauges: gauges.map(|gauge| host.get_metric(*gauge).unwrap_or_default()).collect(),
            begun: self.total_streams_begun(host, policy),
            heals: healing::heals(host),
            with_totals,
        }
    }

    /// Subtracts leaked streams from the count, and writes off the counters that leaked them. Every
    /// live counter must have replied zero after Envoy did, and none of the gate's scopes may have
    /// counted a stream since the gauges were read; otherwise a gauge may show a stream that is in
    /// flight.
    pub(super) fn heal(&mut self, host: &impl Control, policy: &Policy, survey: &Survey) {
        let leaked = self.samples.leaked(host.monotonic_time()).filter(|leaked| {
            survey.completed_round >= self.samples.round()
                && self.total_streams_begun(host, policy)[0] == leaked.begun[0]
        });
        if leaked.is_some_and(|leaked| {
            healing::subtract(host, &self.metrics, &leaked.gauges, leaked.heals)
        }) {
            self.census.write_off(host, &survey.lost);
        }
    }

    pub(super) fn details(&self, host: &impl Control) -> Details {
        let status = |(scope, metrics): &(Scope, [Metric; 3])| {
            let [in_flight, long_lived, begun] =
                metrics.map(|metric| host.get_metric(metric).unwrap_or_default());
            ScopeStatus { scope: *scope, in_flight, long_lived, begun }
        };
        Details {
            scopes: self.metrics.scopes.iter().map(status).collect(),
            begun: self.counted_streams_begun(host),
            is_sealed: latch::is_sealed(host),
            refused: host.get_metric(self.metrics.refused).unwrap_or_default(),
            heals: healing::heals(host),
            evictions: host.get_metric(self.metrics.evictions.total).unwrap_or_default(),
        }
    }
}

/// The time for which Envoy's main thread has been busy with the gates' queries.
pub(super) fn envoy_busy(host: &impl Control) -> u64 {
    QueryPacing::read(host).busy(host.monotonic_time())
}

/// Whether Envoy's totals must show that no stream began in between, because the counters cannot.
/// Counters that are merely being asked can.
pub(super) fn needs_totals(counters: CountState) -> bool {
    !matches!(counters, CountState::Exact | CountState::Asking)
}
