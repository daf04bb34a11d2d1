//! The metrics that a gate writes, and those of streams that it reads.

use std::sync::OnceLock;

use laststream_drain::counts::{Gauges, IndexEntry};
use laststream_drain::requests::{ADVICE, Counter, Gauge, Level as DrainLevel};
use strum::VariantArray as _;

use super::CountState;
use super::shared::HEALS;
use crate::config::Fault;
use crate::config::wire::Scope;
use crate::host::{Control, Kind, Level, Metric, compare_and_set_shared};
use crate::metrics::{self, Evictions, define};
use crate::parse::digits;

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
    state: Metric,
    seconds: Metric,
    late: Metric,
    pub(super) refused: Metric,
    pub(super) heals: Metric,
    expired: Metric,
    forced: Metric,
    deadline: Metric,
    holding: Metric,
    pub(super) evictions: Evictions,
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
            in_flight: define(host, Kind::Gauge, metrics::in_flight(scope))?,
            long_lived: define(host, Kind::Gauge, metrics::long_lived(scope))?,
            begun: define(host, Kind::Counter, metrics::begun(scope))?,
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
        let mut own = [Metric(0); metrics::GATE.len()];
        for (metric, (kind, name)) in own.iter_mut().zip(&metrics::GATE) {
            *metric = define(host, *kind, (*name).into())?;
            if *kind == Kind::Counter {
                host.make_visible(*metric);
            }
        }
        let [state, seconds, late, refused, heals, expired, forced, _evictions, deadline, holding] =
            own;
        let mut scopes = Vec::new();
        for scope in gate_scopes {
            scopes.push(ScopeMetrics::define(host, *scope)?);
        }
        let others = Scope::VARIANTS.iter().filter(|scope| !gate_scopes.contains(scope));
        let metrics = Self {
            scopes,
            all_begun: define_all_begun(host)?,
            others: others.map(|scope| (*scope, OnceLock::new())).collect(),
            count: define_count_states(host)?,
            state,
            seconds,
            late,
            refused,
            heals,
            expired,
            forced,
            deadline,
            holding,
            evictions: Evictions::define(host)?,
        };
        metrics.set(host, Gauge::Deadline, deadline_s);
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
                    let _ =
                        known.set(host.define_metric(Kind::Gauge, &metrics::in_flight(*scope))?);
                }
                known.get().copied()
            },
        )
    }

    pub(super) fn set(&self, host: &impl Control, gauge: Gauge, value: u64) {
        let gauge = match gauge {
            Gauge::State => self.state,
            Gauge::Seconds => self.seconds,
            Gauge::Late => self.late,
            Gauge::Holding => self.holding,
            Gauge::Deadline => self.deadline,
            Gauge::Count => return self.show_count_state(host, value),
        };
        host.record_metric(gauge, value);
    }

    pub(super) fn increment(&self, host: &impl Control, counter: Counter) {
        let counter = match counter {
            Counter::Refused => self.refused,
            Counter::Expired => self.expired,
            Counter::Forced => self.forced,
        };
        host.increment_metric(counter, 1);
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
        let is_changed = compare_and_set_shared(host, HEALS, &mut |text| {
            is_own = text.and_then(digits::<u64>).unwrap_or_default() == heals;
            is_own.then(|| format!("{}", heals + 1).into_bytes())
        });
        if !is_own || !is_changed {
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
        host.increment_metric(self.heals, 1);
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
    fn show_count_state(&self, host: &impl Control, number: u64) {
        let gauges = || CountState::VARIANTS.iter().zip(&self.count);
        let is_shown = |gauge| host.get_metric(gauge) == Some(1);
        let is_reported = gauges().any(|(state, gauge)| {
            (number == CountState::Asking as u64 || *state as u64 == number) && is_shown(*gauge)
        });
        if is_reported {
            return;
        }
        for (state, gauge) in gauges() {
            host.record_metric(*gauge, (*state as u64 == number).into());
        }
        if number == CountState::Assumed as u64 {
            host.log(Level::Warning, &format!("the count is assumed: {ADVICE}"));
        }
    }
}

pub(super) fn level(level: DrainLevel) -> Level {
    match level {
        DrainLevel::Info => Level::Info,
        DrainLevel::Warning => Level::Warning,
        DrainLevel::Critical => Level::Critical,
    }
}

/// Defines two counters for each scope. Each stream of the scope is in one of them.
fn define_all_begun(host: &impl Control) -> Result<Vec<(Scope, Metric)>, Fault> {
    let mut all_begun = Vec::new();
    for scope in Scope::VARIANTS {
        for name in &[metrics::begun, metrics::excluded] {
            all_begun.push((*scope, define(host, Kind::Counter, name(*scope))?));
        }
    }
    Ok(all_begun)
}

fn define_count_states(host: &impl Control) -> Result<Vec<Metric>, Fault> {
    CountState::VARIANTS
        .iter()
        .map(|state| define(host, Kind::Gauge, metrics::count(*state)))
        .collect()
}
