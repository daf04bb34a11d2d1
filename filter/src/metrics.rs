//! The metrics, by their names in Envoy. Envoy puts `wasmcustom.` before them; Prometheus shows
//! them as they are here.

use core::cell::Cell;

use crate::config::wire::Scope;
use crate::config::{Fault, fault};
use crate::forwarded::Verdict;
use crate::gate::machine::Trust;
use crate::host::{Host, Kind, Metric};

/// Gauge: until when, in milliseconds of Envoy's monotonic clock, no new stream may begin because a
/// signal passes. It runs out by itself.
pub const CLOSING: &str = "laststream_gate_closing_until";

/// The gate's own metrics.
pub const GATE: [(Kind, &str); 8] = [
    (Kind::Gauge, "laststream_gate_state"),
    (Kind::Gauge, "laststream_gate_drain_seconds"),
    (Kind::Gauge, "laststream_gate_late_streams"),
    (Kind::Counter, "laststream_gate_refused_total"),
    (Kind::Counter, "laststream_gate_heals_total"),
    (Kind::Counter, "laststream_gate_expired_total"),
    (Kind::Counter, "laststream_gate_forced_total"),
    (Kind::Counter, "laststream_gate_evictions_total"),
];

/// The metrics of one scope.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) in_flight: Metric,
    pub(crate) long_lived: Metric,
    pub(crate) begun: Counter,
    pub(crate) excluded: Counter,
    pub(crate) closing: Metric,
    verdicts: Option<[Metric; Verdict::ALL.len()]>,
}

impl Metrics {
    /// Defines them and makes them visible, at zero where they are new.
    ///
    /// # Errors
    /// Says which one cannot be had, and what to change.
    pub(crate) fn define(
        host: &impl Host,
        scope: Scope,
        with_verdicts: bool,
    ) -> Result<Self, Fault> {
        let mut verdicts = [Metric(0); Verdict::ALL.len()];
        for (metric, verdict) in verdicts.iter_mut().zip(&Verdict::ALL).filter(|_| with_verdicts) {
            *metric = counter(host, forwarded_proto(*verdict, scope))?;
        }
        Ok(Self {
            in_flight: gauge(host, in_flight(scope))?,
            long_lived: gauge(host, long_lived(scope))?,
            begun: Counter::new(counter(host, begun(scope))?),
            excluded: Counter::new(counter(host, excluded(scope))?),
            closing: define(host, Kind::Gauge, CLOSING.into())?,
            verdicts: with_verdicts.then_some(verdicts),
        })
    }

    pub(crate) fn verdict(&self, verdict: Verdict) -> Option<Metric> {
        self.verdicts.as_ref()?.get(verdict as usize).copied()
    }
}

pub(crate) fn define(host: &impl Host, kind: Kind, name: String) -> Result<Metric, Fault> {
    host.metric(kind, &name)
        .ok_or_else(|| fault("", &format!("Envoy does not define the metric `{name}`")))
}

fn counter(host: &impl Host, name: String) -> Result<Metric, Fault> {
    let metric = define(host, Kind::Counter, name)?;
    host.show(metric);
    Ok(metric)
}

fn gauge(host: &impl Host, name: String) -> Result<Metric, Fault> {
    let metric = define(host, Kind::Gauge, name.clone())?;
    if counts(host, metric) { Ok(metric) } else { Err(fault("", &rejected(&name))) }
}

/// A counter that others rely on. It cannot be probed like a gauge, since what it has counted
/// stays: its first count is the probe.
#[derive(Debug)]
pub(crate) struct Counter {
    metric: Metric,
    probed: Cell<bool>,
}

impl Counter {
    fn new(metric: Metric) -> Self {
        Self { metric, probed: Cell::new(false) }
    }

    /// Counts one. False, and that once: it does not count.
    pub(crate) fn count(&self, host: &impl Host) -> bool {
        host.add(self.metric, 1);
        self.probed.replace(true) || host.value(self.metric).is_some_and(|value| value > 0)
    }
}

/// Whether a gauge counts at all, and makes it visible. Envoy hands out a gauge that stays zero
/// when its stats matcher rejects the name: "none in flight", for ever. The probe is skipped where
/// the gauge shows that it counts, so that nobody reads a stream too many while there are any.
fn counts(host: &impl Host, gauge: Metric) -> bool {
    let is_up = || host.value(gauge).is_some_and(|value| value > 0);
    if is_up() {
        return true;
    }
    host.add(gauge, 1);
    let counts = is_up();
    host.add(gauge, -1);
    counts
}

pub(crate) fn rejected(name: &str) -> String {
    format!(
        "the stats matcher of this Envoy rejects `wasmcustom.{name}`, so nothing can be counted: \
            add the inclusion prefix \
         `wasmcustom.laststream_` to stats_config.stats_matcher (in Istio the annotation \
         `sidecar.istio.io/statsInclusionPrefixes: \
         wasmcustom.laststream_`), or take the exclusion that matches it away"
    )
}

/// Gauge: 1 while the count is worth that, else 0.
pub fn count(trust: Trust) -> String {
    format!("laststream_gate_count_{trust}")
}

/// Gauge: streams in flight, over all workers.
pub fn in_flight(scope: Scope) -> String {
    format!("laststream_streams_in_flight_{scope}")
}

/// Gauge: those of them that are long-lived.
pub fn long_lived(scope: Scope) -> String {
    format!("laststream_streams_long_lived_{scope}")
}

/// Counter: streams that were ever counted.
pub fn begun(scope: Scope) -> String {
    format!("laststream_streams_begun_{scope}_total")
}

/// Counter: streams that a rule excluded from counting.
pub fn excluded(scope: Scope) -> String {
    format!("laststream_streams_excluded_{scope}_total")
}

/// Counter: requests by what became of their `x-forwarded-proto`.
pub fn forwarded_proto(verdict: Verdict, scope: Scope) -> String {
    format!("laststream_forwarded_proto_{}_{scope}_total", verdict.name())
}
