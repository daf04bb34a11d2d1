//! The metrics that a gate writes, and those of streams that it reads.

use std::sync::OnceLock;

use laststream_drain::counts::{Gauges, IndexEntry};
use laststream_drain::requests::{ADVICE, GateMetric};
use strum::VariantArray as _;

use super::CountState;
use super::shared::HEALS;
use crate::config::Fault;
use crate::config::wire::Scope;
use crate::host::{Control, Level, Metric, MetricKind};
use crate::metrics::{self, Evictions, define};
use crate::shared_text;

#[derive(Debug, Clone)]
pub(super) struct Metrics {
    /// The metrics of each of the gate's scopes.
    pub(super) scopes: Vec<ScopeMetrics>,
    /// The counters for streams begun and excluded, of every scope, the gate's or not.
    pub(super) all_begun: Vec<(Scope, Metric)>,
    /// The gauges for streams in flight of other scopes, once those have a counter.
    others: Vec<(Scope, OnceLock<Metric>)>,
    /// One for each [`CountState`]: 1 for the state of the count, otherwise 0.
    count: Vec<Metric>,
    /// In the order of [`metrics::GATE`].
    gate: [Metric; metrics::GATE.len()],
}

/// The metrics that streams of one scope write.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScopeMetrics {
    pub(super) scope: Scope,
    pub(super) in_flight: Metric,
    pub(super) long_lived: Metric,
    pub(super) begun: Metric,
}

impl ScopeMetrics {
    fn define(host: &impl Control, scope: Scope) -> Result<Self, Fault> {
        Ok(Self {
            scope,
            in_flight: define(host, MetricKind::Gauge, metrics::in_flight(scope))?,
            long_lived: define(host, MetricKind::Gauge, metrics::long_lived(scope))?,
            begun: define(host, MetricKind::Counter, metrics::begun(scope))?,
        })
    }
}

impl Metrics {
    /// # Errors
    /// The metric that Envoy does not define.
    pub(super) fn define(
        host: &impl Control,
        gate_scopes: &[Scope],
        deadline_s: u64,
    ) -> Result<Self, Fault> {
        let mut gate = [Metric(0); metrics::GATE.len()];
        for (metric, (kind, name)) in gate.iter_mut().zip(&metrics::GATE) {
            *metric = define(host, *kind, (*name).into())?;
            if *kind == MetricKind::Counter {
                host.make_visible(*metric);
            }
        }
        let mut scopes = Vec::new();
        for scope in gate_scopes {
            scopes.push(ScopeMetrics::define(host, *scope)?);
        }
        let other_scopes = Scope::VARIANTS.iter().filter(|scope| !gate_scopes.contains(scope));
        let metrics = Self {
            scopes,
            all_begun: define_all_begun(host)?,
            others: other_scopes.map(|scope| (*scope, OnceLock::new())).collect(),
            count: define_count_states(host)?,
            gate,
        };
        Evictions::define(host)?; // so that they are visible
        host.record_metric(metrics.of(GateMetric::Deadline), deadline_s);
        Ok(metrics)
    }

    /// The gauges of other scopes that have a counter.
    pub(super) fn others(
        &self,
        host: &impl Control,
        index: &[IndexEntry],
    ) -> impl Iterator<Item = Metric> {
        let has_counter = |scope: &Scope| index.iter().any(|entry| entry.scope == *scope);
        self.others.iter().filter(move |(scope, _)| has_counter(scope)).filter_map(
            |(scope, known)| {
                if known.get().is_none() {
                    let _ = known
                        .set(host.define_metric(MetricKind::Gauge, &metrics::in_flight(*scope))?);
                }
                known.get().copied()
            },
        )
    }

    pub(super) fn of(&self, metric: GateMetric) -> Metric {
        self.gate[metric as usize]
    }

    /// Takes leaked streams from the gauges. No live counter had a stream, and Envoy no request, so
    /// the gauges at that moment showed streams of dead VMs. Exactly these values are subtracted,
    /// because a stream that has begun since is not leaked. Returns whether the counters that
    /// leaked them are to be written off: no other gate has healed the count.
    pub(super) fn heal(&self, host: &impl Control, gauges: &[Gauges], heals: u64) -> bool {
        if gauges.iter().all(|leaked| *leaked == Gauges::default()) {
            return true;
        }
        let mut is_own = false;
        let is_stored = shared_text::update(host, HEALS, &mut |number: &mut u64| {
            is_own = *number == heals;
            *number += u64::from(is_own);
        });
        if !is_own || !is_stored {
            return false;
        }
        for (metrics, leaked) in self.scopes.iter().zip(gauges) {
            let of =
                [(metrics.in_flight, leaked.in_flight), (metrics.long_lived, leaked.long_lived)];
            for (metric, leaked) in of {
                // Above the largest positive number: what the gauge is below zero is added.
                host.increment_metric(metric, (leaked as i64).wrapping_neg());
            }
        }
        host.increment_metric(self.of(GateMetric::Heals), 1);
        let streams: i64 = gauges.iter().map(|leaked| leaked.in_flight as i64).sum();
        let line = match streams {
            0.. => format!("{streams} streams were counted by workers' VMs that have died"),
            _ => format!("the count was {} below zero", streams.unsigned_abs()),
        };
        host.log(Level::Warning, &format!("healed: {line}; Envoy has none"));
        true
    }

    /// Sets the gauges of the count's state. While the counters are being asked, a state that is
    /// shown stays. All workers share the gauges, so another worker may have reported since.
    pub(super) fn show_count(&self, host: &impl Control, count: CountState) {
        let gauges = || CountState::VARIANTS.iter().zip(&self.count);
        let is_shown = |gauge| host.get_metric(gauge) == Some(1);
        let is_reported = gauges().any(|(state, gauge)| {
            (count == CountState::Asking || *state == count) && is_shown(*gauge)
        });
        if is_reported {
            return;
        }
        for (state, gauge) in gauges() {
            host.record_metric(*gauge, (*state == count).into());
        }
        if count == CountState::Assumed {
            host.log(Level::Warning, &format!("the count is assumed: {ADVICE}"));
        }
    }
}

/// Defines two counters for each scope. Each stream of the scope is in one of them.
fn define_all_begun(host: &impl Control) -> Result<Vec<(Scope, Metric)>, Fault> {
    let mut all_begun = Vec::new();
    for scope in Scope::VARIANTS {
        for name in &[metrics::begun, metrics::excluded] {
            all_begun.push((*scope, define(host, MetricKind::Counter, name(*scope))?));
        }
    }
    Ok(all_begun)
}

fn define_count_states(host: &impl Control) -> Result<Vec<Metric>, Fault> {
    CountState::VARIANTS
        .iter()
        .map(|state| define(host, MetricKind::Gauge, metrics::count(*state)))
        .collect()
}
