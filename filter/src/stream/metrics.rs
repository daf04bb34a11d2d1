//! The metrics that a counter writes for its scope.

use core::cell::Cell;

use crate::census::StreamKind;
use crate::config::Fault;
use crate::config::fault;
use crate::config::wire::Scope;
use crate::forwarded::Verdict;
use crate::host::{Host, Metric, MetricKind};
use crate::metrics::{self, CLOSING, Evictions, define, rejected};

/// The metrics of one scope.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(super) in_flight: Metric,
    pub(super) long_lived: ProbedMetric,
    pub(crate) begun: ProbedMetric,
    pub(crate) excluded: ProbedMetric,
    pub(super) closing: Metric,
    verdicts: Option<[Metric; Verdict::ALL.len()]>,
    /// Ended streams: all, and by kind.
    evictions: Option<Evictions>,
}

impl Metrics {
    /// Defines them and makes them visible, at zero if they are new.
    ///
    /// # Errors
    /// The metric that Envoy does not define or rejects, and the fix.
    pub(super) fn define(
        host: &impl Host,
        scope: Scope,
        with_verdicts: bool,
        with_kinds: bool,
    ) -> Result<Self, Fault> {
        let mut verdicts = [Metric(0); Verdict::ALL.len()];
        for (metric, verdict) in verdicts.iter_mut().zip(&Verdict::ALL).filter(|_| with_verdicts) {
            *metric = visible_counter(host, metrics::forwarded_proto(*verdict, scope))?;
        }
        let gauge = |name| define(host, MetricKind::Gauge, name);
        Ok(Self {
            in_flight: probed_gauge(host, metrics::in_flight(scope))?,
            long_lived: ProbedMetric::new(gauge(metrics::long_lived(scope))?),
            begun: ProbedMetric::new(visible_counter(host, metrics::begun(scope))?),
            excluded: ProbedMetric::new(visible_counter(host, metrics::excluded(scope))?),
            closing: gauge(CLOSING.into())?,
            verdicts: with_verdicts.then_some(verdicts),
            evictions: if with_kinds { Some(Evictions::define(host)?) } else { None },
        })
    }

    pub(super) fn verdict(&self, verdict: Verdict) -> Option<Metric> {
        self.verdicts.as_ref()?.get(verdict as usize).copied()
    }

    /// The metrics of an ended stream.
    pub(super) fn evictions(&self, kind: StreamKind) -> impl Iterator<Item = Metric> {
        self.evictions.iter().flat_map(move |evictions| [evictions.total, evictions.of(kind)])
    }
}

fn visible_counter(host: &impl Host, name: String) -> Result<Metric, Fault> {
    let metric = define(host, MetricKind::Counter, name)?;
    host.make_visible(metric);
    Ok(metric)
}

fn probed_gauge(host: &impl Host, name: String) -> Result<Metric, Fault> {
    let metric = define(host, MetricKind::Gauge, name.clone())?;
    if accepts_values(host, metric) { Ok(metric) } else { Err(fault("", &rejected(&name))) }
}

/// A metric whose first increment shows whether Envoy rejects it. A probe like that of
/// `in_flight` would change the value of a counter metric for good. For a moment, it would make a
/// stream in flight look like an exempt one.
#[derive(Debug)]
pub(crate) struct ProbedMetric {
    pub(super) metric: Metric,
    is_probed: Cell<bool>,
}

impl ProbedMetric {
    fn new(metric: Metric) -> Self {
        Self { metric, is_probed: Cell::new(false) }
    }

    /// Adds one. The first call returns false if Envoy rejects the metric.
    pub(crate) fn increment(&self, host: &impl Host) -> bool {
        host.increment_metric(self.metric, 1);
        self.is_probed.replace(true) || is_above_zero(host, self.metric)
    }
}

/// Whether Envoy keeps the values of a gauge; makes it visible, too. If the stats matcher rejects
/// its name, Envoy returns a gauge that stays zero: "none in flight", for ever. The probe is
/// skipped while streams are in flight: a reader would see one too many. A stream that begins
/// during the probe cannot look like zero either, because `begun` changes.
fn accepts_values(host: &impl Host, gauge: Metric) -> bool {
    if is_above_zero(host, gauge) {
        return true;
    }
    host.increment_metric(gauge, 1);
    let accepts = is_above_zero(host, gauge);
    host.increment_metric(gauge, -1);
    accepts
}

fn is_above_zero(host: &impl Host, metric: Metric) -> bool {
    host.get_metric(metric).is_some_and(|value| value > 0)
}
