//! The queries to Envoy's admin interface and to the app: when they are made.

use super::calls::{Call, Target};
use super::envoy_samples::BeforeQuery;
use super::gate::Gate;
use super::machine::Record;
use super::observation::App;
use super::phase::Phase;
use super::query_pacing::QueryPacing;
use super::snapshot::needs_totals;
use super::stats::{self, Stats};
use super::step::Step;
use super::waiting::WaitsFor;
use crate::census::Survey;
use crate::host::Control;

/// Between two queries to Envoy or to the app; milliseconds. Less than a tick, because a tick can
/// come a little early.
const QUERY_INTERVAL: u64 = 50;
/// A query of the statistics may take so many times as long as other calls, because Envoy goes
/// through all of them.
const STATS_PATIENCE: u64 = 10;

impl Gate {
    /// Queries Envoy's own count, if it matters now.
    pub(super) fn query_envoy_stats(
        &mut self,
        host: &impl Control,
        now: u64,
        record: &Record,
        survey: &Survey,
    ) {
        if self.calls.contains(&Call::Stats)
            || !self.needs_envoy_stats(host, now, record, survey)
            || !QueryPacing::begin(host)
        {
            return;
        }
        let with_totals = needs_totals(survey.count_state);
        let gauges = self
            .metrics
            .gauges
            .iter()
            .map(|gauge| host.get_metric(*gauge).unwrap_or_default())
            .collect();
        self.envoy_samples.begin_query(BeforeQuery {
            at: now,
            begun: self.total_streams_begun(host),
            gauges,
            heals: self.heals(host),
            with_totals,
        });
        let path = if with_totals { stats::ALL } else { stats::GAUGES };
        let patience = self.policy.patience.saturating_mul(STATS_PATIENCE);
        let target = Target { patience, ..self.policy.admin_call("GET", path) };
        if !self.calls.send(host, Call::Stats, target) {
            self.on_envoy_stats(host, None);
        }
    }

    /// While the filter's count is above zero, or not quiet for long enough, Envoy's cannot open
    /// the gate. If the filter's cannot be believed, Envoy's also tells what began, and is needed
    /// all the time.
    fn needs_envoy_stats(
        &self,
        host: &impl Control,
        now: u64,
        record: &Record,
        survey: &Survey,
    ) -> bool {
        let is_fresh = self.envoy_samples.stats(now).is_some();
        // An answer that became too old before the counters' replies came is queried again.
        let is_due = |query: u64| !self.envoy_samples.has_begun(query) || !is_fresh;
        if self.latched_signal.as_ref().is_some_and(|signal| is_due(signal.needs.query)) {
            return true;
        }
        // A signal needs the next query for itself, once the latch is closed. A count that is still
        // valid is enough to try.
        let is_reserved = self.awaits_finish_call(record) || self.waiting.has_untried_signal();
        if is_reserved && is_fresh {
            return false;
        }
        if self.waiting.wanted_query().is_some_and(|query| query > 0 && is_due(query)) {
            return true;
        }
        if now.saturating_sub(self.envoy_samples.queried_at()) < QUERY_INTERVAL {
            return false;
        }
        let needs_totals = needs_totals(survey.count_state);
        if self.waiting.needs_fresh_counts() || self.is_healing() {
            return self.envoy_samples.is_new() || needs_totals || self.holding(host) == 0;
        }
        self.may_open_next(now, record, needs_totals) && (needs_totals || self.holding(host) == 0)
    }

    fn may_open_next(&self, now: u64, record: &Record, needs_totals: bool) -> bool {
        match record.phase {
            Phase::Draining => {
                needs_totals || self.quiet_period_end(record).is_some_and(|end| end <= now)
            }
            Phase::Drained => {
                self.waiting.any(WaitsFor::Opening) || self.awaits_finish_call(record)
            }
            Phase::Serving | Phase::Expired | Phase::Forced => false,
        }
    }

    /// Envoy has answered, or failed to. The counters are asked again after that, because only they
    /// can tell which of Envoy's requests do not hold the drain.
    pub(super) fn on_envoy_stats(&mut self, host: &impl Control, stats: Option<Stats>) {
        QueryPacing::end(host);
        self.envoy_samples.end_query(host.monotonic_time(), self.census.round() + 1, stats);
        if stats.is_some_and(|stats| stats.active.is_some_and(|active| active > 0)) {
            self.ask_counters(host);
        }
    }

    /// The app's last answer in this drain, and when the app was asked.
    pub(super) fn app_state(&self, record: &Record) -> Option<(u64, App)> {
        self.app_reply.filter(|(asked_at, _)| *asked_at >= record.began)
    }

    /// Asks the app whether it is there: at intervals, and once more when the quiet period ends.
    pub(super) fn query_app(&mut self, host: &impl Control, now: u64, record: &Record) {
        let Some(app) = &self.policy.app else { return };
        let decides =
            self.quiet_period_end(record).is_some_and(|end| self.app_asked_at < end && end <= now);
        let is_due = decides || now.saturating_sub(self.app_asked_at) >= QUERY_INTERVAL;
        if !record.phase.is_draining() || !is_due || self.calls.contains(&Call::App) {
            return;
        }
        self.app_asked_at = now;
        let (cluster, path, patience) = (&app.cluster, &app.path, self.policy.patience);
        let target = Target { cluster, method: "GET", path, patience };
        if !self.calls.send(host, Call::App, target) {
            self.app_reply = Some((now, App::Unreachable));
        }
    }

    /// Whether the last call of the drain is yet to be made.
    pub(super) fn awaits_finish_call(&self, record: &Record) -> bool {
        record.phase == Phase::Drained
            && self.policy.finishes()
            && !matches!(record.finish, Step::Done | Step::Failed)
    }
}
