//! What one worker's gate knows at one moment. Everything that is answered and done in one callback
//! follows from one snapshot.
//!
//! The queries to Envoy and the app are in `queries`.

use strum::VariantArray as _;

use super::envoy_samples::{EnvoySamples, Ignorable};
use super::gate::Gate;
use super::machine::Record;
use super::observation::{App, EnvoyCount, Observation, Reason, combine_counts};
use super::query_pacing::QueryPacing;
use super::stats::Stats;
use super::waiting::Needs;
use crate::census::{CountState, Sides, Survey, SurveyOptions, is_rejected};
use crate::config::wire::Scope;
use crate::host::{Control, Metric};

/// How often `in_flight` and `long_lived` are read before all long-lived streams count as holding.
const READS: usize = 4;

#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) now: u64,
    pub(super) survey: Survey,
    /// Envoy's last answer, while it is valid.
    pub(super) stats: Option<Stats>,
    pub(super) observed: Observation,
    /// The record after the evaluation, and the reason that it returned.
    pub(super) record: Record,
    pub(super) reason: Reason,
}

impl Snapshot {
    /// Whether the gate is open at this moment.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.reason, Reason::Open(_))
    }

    /// Whether newer answers may show it open.
    pub(super) fn may_open(&self) -> bool {
        matches!(self.reason, Reason::Open(_) | Reason::Asking | Reason::Finishing)
    }

    /// Whether those answers have arrived, or are not to be expected. For Envoy's answer, the
    /// counters must also have told which of its requests hold the drain.
    pub(super) fn has_answers(&self, samples: &EnvoySamples, needs: Needs) -> bool {
        let has_stats =
            || samples.has_answer(needs.query) && self.observed.envoy != EnvoyCount::Asking;
        self.survey.completed_round >= needs.round && (needs.query == 0 || has_stats())
    }
}

impl Gate {
    /// Streams ever begun that the counters of this gate's scopes have counted.
    pub(super) fn counted_streams_begun(&self, host: &impl Control) -> u64 {
        let begun =
            |(_, [_, _, begun]): &(Scope, [Metric; 3])| host.get_metric(*begun).unwrap_or_default();
        self.metrics.scopes.iter().map(begun).fold(0, u64::saturating_add)
    }

    /// Streams that hold the drain. An impossibly large number is an error of accounting, and is
    /// not taken for zero.
    ///
    /// `in_flight` and `long_lived` cannot be read at once. If no stream began between the reads,
    /// `in_flight`, which is read first, is never too low and `long_lived` never too high; see
    /// `Stream::count`. If one began, long-lived streams hold the drain, too.
    pub(super) fn holding(&self, host: &impl Control) -> u64 {
        let sum = |which: usize| {
            let values = self
                .metrics
                .scopes
                .iter()
                .map(|(_, metrics)| host.get_metric(metrics[which]).unwrap_or(u64::MAX));
            values.fold(0, u64::saturating_add)
        };
        let [in_flight, long_lived] = [0, 1];
        for _ in 0..READS {
            let begun = self.counted_streams_begun(host);
            let all = sum(in_flight);
            if all == 0 || !self.policy.exempts_long_lived {
                return all;
            }
            let long_lived = sum(long_lived);
            if self.counted_streams_begun(host) == begun {
                return all.saturating_sub(long_lived);
            }
        }
        sum(in_flight)
    }

    /// Streams ever begun, counted or excluded.
    pub(super) fn total_streams_begun(&self, host: &impl Control) -> Sides {
        let mut begun = [0_u64; 2];
        for (scope, counter) in &self.metrics.all_begun {
            let side = usize::from(!self.policy.scopes.contains(scope));
            begun[side] = begun[side].saturating_add(host.get_metric(*counter).unwrap_or_default());
        }
        begun
    }

    /// How long Envoy's main thread has been busy with the gates' queries.
    pub(super) fn envoy_busy(&self, host: &impl Control) -> u64 {
        QueryPacing::read(host).busy(host.monotonic_time())
    }

    pub(super) fn survey(&self, host: &impl Control) -> Survey {
        let options = SurveyOptions {
            scopes: &self.policy.scopes,
            exempts_long_lived: self.policy.exempts_long_lived,
            ignorable_since: self.envoy_samples.round(),
            busy: self.envoy_busy(host),
        };
        self.census.survey(host, options)
    }

    /// Reads the counts first and the streams ever begun last: if none is in flight and none began
    /// since, none existed in between.
    pub(super) fn observe(
        &self,
        host: &impl Control,
        now: u64,
        survey: &Survey,
        app: Option<(u64, App)>,
    ) -> Observation {
        let holding = self.holding(host);
        let begun = self.counted_streams_begun(host);
        let stats = self.envoy_samples.stats(now);
        let ignorable = self.ignorable_in_flight(host, survey);
        let needs_totals = needs_totals(survey.count_state);
        let envoy = self.envoy_samples.count(now, ignorable, needs_totals);
        let totals = if needs_totals { self.envoy_samples.total() } else { 0 };
        let may_have_uncounted = self.may_have_uncounted_streams(now, survey, stats);
        let app_known_until = app.map_or(u64::MAX, |(asked_at, _)| asked_at);
        Observation {
            count: combine_counts(survey.count_state, holding, envoy, may_have_uncounted),
            known_until: survey
                .alive_until
                .min(self.envoy_samples.known_until())
                .min(app_known_until),
            holding,
            in_flight: survey.in_flight,
            begun: begun.saturating_add(totals),
            envoy,
            buffered: stats.and_then(|stats| stats.buffered),
            lingers: !self.envoy_samples.has_buffered_bytes(),
            app: app.map_or(App::Asking, |(_, app)| app),
        }
    }

    /// The streams in flight that Envoy counts, too, and that do not hold the drain. If Envoy
    /// rejects a counter, a stream that is in flight now cannot be told from an earlier one.
    fn ignorable_in_flight(&self, host: &impl Control, survey: &Survey) -> Ignorable {
        let is_complete = survey.completed_round >= self.envoy_samples.round();
        let is_known = !Scope::VARIANTS.iter().any(|scope| is_rejected(host, *scope));
        Ignorable {
            in_flight: if is_known { survey.ignorable_in_flight } else { [0; 2] },
            begun: self.total_streams_begun(host),
            is_complete,
        }
    }

    /// Whether there may be streams that no counter knows, as far as that can be told without
    /// Envoy's own count.
    fn may_have_uncounted_streams(&self, now: u64, survey: &Survey, stats: Option<Stats>) -> bool {
        let is_young = now.saturating_sub(survey.counting_since) < self.policy.assumed_after;
        let Some(stats) = stats else { return is_young };
        // A request to the gate has a connection; if there is no other, there is no stream.
        let gate_connections = self.requests_in_flight.min(1);
        if stats.connections.is_some_and(|connections| connections <= gate_connections) {
            return false;
        }
        // One for each worker and the main thread. A VM that has never entered the index may be
        // dead.
        let each = stats.workers.unwrap_or(0) + 1;
        let is_missing = survey.counters < each.saturating_mul(self.policy.scopes.len() as u64);
        is_young || is_missing || stats.draining.unwrap_or(0) > 0
    }
}

/// Whether the counters cannot tell what began in between, so that Envoy's totals must. Counters
/// that are merely being asked can.
pub(super) fn needs_totals(counters: CountState) -> bool {
    !matches!(counters, CountState::Exact | CountState::Asking)
}
