//! The gate's watch over changes of Envoy's configuration: its queries, and the handling of their
//! answers.

use super::calls::Call;
use super::config_drain::{ConfigDrain, DRAINING, Draining, Transition};
use super::config_drain_status::{NOT_EXPORTED, SINCE_UNKNOWN};
use super::gate::Gate;
use super::machine::Record;
use super::query_pacing::QueryPacing;
use super::snapshot::Snapshot;
use super::stats::Stats;
use crate::census::latch;
use crate::host::{Control, Level};

impl Gate {
    /// The drain of Envoy's configuration; none if the gate does not watch changes.
    pub(super) fn config_draining(&self, host: &impl Control) -> Option<Draining> {
        let drain_time = self.policy.config_drain_time?;
        Some(ConfigDrain::read(host).at(host.monotonic_time(), drain_time))
    }

    /// Whether the moment of a change is known, so that streams may be older than it.
    pub(super) fn has_older_streams(&self, host: &impl Control) -> bool {
        self.config_draining(host).is_some_and(|draining| draining.moment() > 0)
    }

    /// Queries Envoy for what drains, once a second. All queries of all gates share one pace, and
    /// the first worker that ticks after that second makes this query.
    pub(super) fn query_config_drain(&mut self, host: &impl Control, now: u64, record: &Record) {
        let is_watched = self.policy.config_drain_time.is_some();
        let query = self.policy.stats_query(DRAINING);
        if !is_watched
            || self.calls.any(Call::is_stats_query)
            || self.awaits_envoy_stats(host, record)
            || !QueryPacing::read(host).is_allowed(now)
            || !ConfigDrain::claim_query(host)
            || !QueryPacing::begin(host, query.patience)
        {
            return;
        }
        if !self.calls.send(host, Call::ConfigDrain(now), query) {
            QueryPacing::end(host);
        }
    }

    /// Whether a query would delay one for Envoy's count, which also shows what drains. It would in
    /// a drain that no stream holds any more, and while any worker's latch is closed.
    fn awaits_envoy_stats(&self, host: &impl Control, record: &Record) -> bool {
        latch::is_closed(host)
            || record.phase.is_draining() && self.sources.holding(host, &self.policy) == 0
    }

    /// Handles Envoy's answer to the query that began at `at`, or the failure of the query.
    pub(super) fn on_config_drain_answer(
        &mut self,
        host: &impl Control,
        at: u64,
        stats: Option<Stats>,
    ) {
        QueryPacing::end(host);
        self.record_config_drain(host, at, stats);
    }

    /// Records what drains. Every answer with Envoy's statistics shows it, also one to a query for
    /// Envoy's count.
    pub(super) fn record_config_drain(
        &mut self,
        host: &impl Control,
        at: u64,
        stats: Option<Stats>,
    ) {
        let (Some(drain_time), Some(stats)) = (self.policy.config_drain_time, stats) else {
            return;
        };
        let line = match ConfigDrain::record(host, at, stats.draining, drain_time) {
            Transition::None => return,
            Transition::Changed => {
                // The counters are asked at once, so that no other stream counts as an older one.
                self.ask_counters(host);
                "config drain: a change has replaced a listener or filter chain, and Envoy closes \
                 its streams after the drain time"
            }
            Transition::FoundDraining => SINCE_UNKNOWN,
            Transition::Ended => "config drain: over",
            Transition::NotExported => NOT_EXPORTED,
        };
        host.log(Level::Warning, line);
    }

    /// Sets the gauges of the config drain. The number of streams is set only from replies to the
    /// current round, because earlier replies may be about an earlier moment.
    pub(super) fn report_config_drain(&self, host: &impl Control, snapshot: &Snapshot) {
        let Some([streams, seconds]) = self.sources.metrics.config_drain else { return };
        match snapshot.config_draining {
            Some(Draining::Since { left, .. }) => {
                if snapshot.survey.completed_round >= self.sources.census.round() {
                    host.record_metric(streams, snapshot.survey.older);
                }
                host.record_metric(seconds, left.div_ceil(1_000));
            }
            _ => {
                host.record_metric(streams, 0);
                host.record_metric(seconds, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Gate, Record};
    use crate::census::latch::Latch;
    use crate::config::wire::{self, ConfigChange};
    use crate::fake::Fake;
    use crate::gate::phase::Phase;
    use crate::gate::policy::Policy;
    use crate::host::{Control as _, Kind};
    use crate::metrics::{self, define};

    /// Whether the gate queries, one second later.
    fn queries(host: &Fake, gate: &mut Gate, phase: Phase) -> bool {
        host.clock.update(|clock| clock + 1_000);
        let before = host.calls.borrow().len();
        let record = Record { phase, ..Record::default() };
        gate.query_config_drain(host, host.clock.get(), &record);
        let has_queried = host.calls.borrow().len() > before;
        if has_queried {
            let number = host.calls.borrow().len() as u32;
            gate.calls.take(number);
            gate.on_config_drain_answer(host, host.clock.get(), None);
        }
        has_queried
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn the_watch_does_not_delay_queries_of_a_drain_or_of_the_latch() {
        let host = Fake::default();
        host.clock.set(10_000);
        let mut policy = Policy::new(wire::Gate {
            config_change: Some(ConfigChange { drain_ms: 45_000 }),
            ..wire::Gate::default()
        });
        policy.scopes = vec![wire::Scope::Gateway];
        let mut gate = Gate::new(&host, 1, policy).expect("metrics");
        assert!(queries(&host, &mut gate, Phase::Serving));
        for phase in [Phase::Draining, Phase::Drained] {
            assert!(!queries(&host, &mut gate, phase), "nothing holds: {phase}");
        }
        let in_flight = gate.sources.metrics.scopes[0].1[0];
        host.record_metric(in_flight, 1);
        assert!(queries(&host, &mut gate, Phase::Draining), "the gate cannot open now");
        let closing = define(&host, Kind::Gauge, metrics::CLOSING.into()).expect("a gauge");
        let mut latch = Latch::new(closing);
        assert!(latch.close(&host, 99, 5_000));
        assert!(!queries(&host, &mut gate, Phase::Serving), "another worker's signal");
        latch.open(&host, 99);
        assert!(queries(&host, &mut gate, Phase::Serving));
    }
}
