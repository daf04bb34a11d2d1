//! The names of the metrics in Envoy. Envoy puts `wasmcustom.` before them; Prometheus shows them
//! as they are here.

use strum::VariantArray as _;

use crate::config::wire::Scope;
use crate::config::{Fault, fault};
use crate::forwarded::Verdict;
use crate::gate::{CountState, StreamKind};
use crate::host::{Host, Metric, MetricKind};

/// Gauge: the time, in milliseconds of Envoy's monotonic clock, until which no new stream may begin
/// because a signal passes. It expires by itself.
pub const CLOSING: &str = "laststream_gate_closing_until";

/// The gate's own metrics, in the order of [`laststream_drain::requests::GateMetric`].
pub const GATE: [(MetricKind, &str); 11] = [
    (MetricKind::Gauge, "laststream_gate_state"),
    (MetricKind::Gauge, "laststream_gate_drain_seconds"),
    (MetricKind::Gauge, "laststream_gate_late_streams"),
    (MetricKind::Counter, "laststream_gate_refused_total"),
    (MetricKind::Counter, "laststream_gate_heals_total"),
    (MetricKind::Counter, "laststream_gate_expired_total"),
    (MetricKind::Counter, "laststream_gate_forced_total"),
    (MetricKind::Counter, EVICTIONS),
    (MetricKind::Gauge, "laststream_gate_deadline_seconds"),
    (MetricKind::Gauge, "laststream_gate_holding"),
    (MetricKind::Gauge, "laststream_gate_connections"),
];

/// Counter: streams that the gate ended.
pub const EVICTIONS: &str = "laststream_gate_evictions_total";

/// Counter: streams of this kind that the gate ended.
pub fn evictions(kind: StreamKind) -> String {
    format!("laststream_gate_evictions_{kind}_total")
}

/// The counters of ended streams. The counter that ends a stream writes them, and gates read them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Evictions {
    pub(crate) total: Metric,
    kinds: [Metric; StreamKind::VARIANTS.len()],
}

impl Evictions {
    /// # Errors
    /// The metric that Envoy does not define.
    pub(crate) fn define(host: &impl Host) -> Result<Self, Fault> {
        let total = define(host, MetricKind::Counter, EVICTIONS.into())?;
        let mut kinds = [Metric(0); StreamKind::VARIANTS.len()];
        for (metric, kind) in kinds.iter_mut().zip(StreamKind::VARIANTS) {
            *metric = define(host, MetricKind::Counter, evictions(*kind))?;
            host.make_visible(*metric);
        }
        host.make_visible(total);
        Ok(Self { total, kinds })
    }

    pub(crate) fn of(&self, kind: StreamKind) -> Metric {
        self.kinds[kind as usize]
    }
}

/// # Errors
/// The metric that Envoy does not define.
pub(crate) fn define(host: &impl Host, kind: MetricKind, name: String) -> Result<Metric, Fault> {
    host.define_metric(kind, &name)
        .ok_or_else(|| fault("", &format!("Envoy does not define the metric `{name}`")))
}

/// The error for a metric that Envoy's stats matcher rejects.
pub(crate) fn rejected(name: &str) -> String {
    format!(
        "the stats matcher of this Envoy rejects `wasmcustom.{name}`, so it stays zero: \
         add the inclusion prefix `wasmcustom.laststream_` to stats_config.stats_matcher (in \
         Istio the annotation `sidecar.istio.io/statsInclusionPrefixes: wasmcustom.laststream_`), \
         or remove the exclusion that matches it"
    )
}

/// Gauge: 1 while the count is in this state, else 0.
pub fn count(state: CountState) -> String {
    format!("laststream_gate_count_{state}")
}

/// Gauge: streams in flight, over all workers.
pub fn in_flight(scope: Scope) -> String {
    format!("laststream_streams_in_flight_{scope}")
}

/// Gauge: long-lived streams in flight, over all workers.
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

/// Counter: requests with this verdict on their `x-forwarded-proto`.
pub fn forwarded_proto(verdict: Verdict, scope: Scope) -> String {
    format!("laststream_forwarded_proto_{}_{scope}_total", verdict.name())
}
