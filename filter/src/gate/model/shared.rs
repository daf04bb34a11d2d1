//! The state that all VMs share: metrics, data, queues, and Envoy's admin interface with its calls.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use strum::VariantArray as _;

use crate::census::latch::SEALED;
use crate::config::wire::Scope;
use crate::gate::{CountState, StreamKind};
use crate::host::Metric;
use crate::metrics;

/// The number of metrics that have an effect on decisions.
pub(super) const TRACKED: usize = 1 + 4 * Scope::VARIANTS.len();

/// The names of all metrics, the tracked ones first: closing, then in flight, long-lived, begun and
/// excluded of each scope.
static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut names = vec![metrics::CLOSING.to_string()];
    for of_scope in [metrics::in_flight, metrics::long_lived, metrics::begun, metrics::excluded] {
        names.extend(Scope::VARIANTS.iter().map(|scope| of_scope(*scope)));
    }
    names.extend(metrics::GATE.iter().map(|(_, name)| (*name).to_string()));
    names.extend(CountState::VARIANTS.iter().map(|trust| metrics::count(*trust)));
    names.extend(StreamKind::VARIANTS.iter().map(|kind| metrics::evictions(*kind)));
    names
});

pub(super) fn metric_index(name: &str) -> Option<Metric> {
    NAMES
        .iter()
        .position(|other| other == name)
        .and_then(|index| u32::try_from(index).ok())
        .map(Metric)
}

/// The scope whose streams in flight this gauge counts.
pub(super) fn scope_of_in_flight(metric: Metric) -> Option<usize> {
    (metric.0 as usize).checked_sub(1).filter(|scope| *scope < Scope::VARIANTS.len())
}

pub(super) fn is_excluded(metric: Metric) -> bool {
    (metric.0 as usize) > 3 * Scope::VARIANTS.len()
}

/// An event that is checked as soon as it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Event {
    /// A request to the gate was answered; with the number of streams that held the drain when the
    /// gate had last read the gauge, and whether the answer tells that the last call was sent.
    Answered { request: u32, status: u16, holding: u64, tells: bool },
    /// A gate sent a signal to Envoy.
    Passed { number: u32, root: u32 },
}

/// A queue, and the root context that is called for its messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Queue {
    pub(super) worker: usize,
    pub(super) root: u32,
    pub(super) messages: Vec<Vec<u8>>,
}

/// A call to Envoy's admin interface.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Call {
    pub(super) number: u32,
    pub(super) worker: usize,
    pub(super) root: u32,
    pub(super) path: String,
    /// The end of the call, once Envoy's main thread has served it, or it has failed.
    pub(super) ended: Option<Response>,
}

/// The status and the body of a response; no status: there is none.
pub(super) type Response = (Option<u16>, String);

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Shared {
    /// Milliseconds.
    pub(super) clock: u64,
    /// The time by which the wall clock is ahead of it; milliseconds.
    pub(super) wall_step: u64,
    pub(super) values: [u64; TRACKED],
    /// Most steps change none of these, so states share them.
    pub(super) data: Arc<BTreeMap<String, Vec<u8>>>,
    pub(super) queues: Arc<Vec<Queue>>,
    pub(super) calls: Arc<Vec<Call>>,
    pub(super) calls_made: u32,
    /// Whether Envoy fails health checks.
    pub(super) is_unhealthy: bool,
    /// Whether the port of Istio's agent is closed.
    pub(super) agent_refuses: bool,
    /// When that last changed.
    pub(super) agent_turned: u64,
    /// Whether Envoy refuses the next call at once.
    pub(super) refuses_next: bool,
    /// The true number of streams of each scope that the filter counts, that hold the drain, and
    /// that have not ended.
    pub(super) holding: [u64; Scope::VARIANTS.len()],
    /// The events of the current step; empty between steps.
    pub(super) events: Vec<Event>,
}

impl Shared {
    /// The gauges of all scopes: in flight, and long-lived.
    pub(super) fn gauges(&self) -> impl Iterator<Item = u64> {
        self.values.iter().skip(1).take(2 * Scope::VARIANTS.len()).copied()
    }

    /// Whether no stream may begin any more, because a signal to end was sent.
    pub(super) fn is_sealed(&self) -> bool {
        self.values[0] == SEALED.0
    }

    pub(super) fn has_negative_gauge(&self) -> bool {
        self.gauges().any(|gauge| i64::try_from(gauge).is_err())
    }

    pub(super) fn queue(&mut self, queue: u32) -> Option<&mut Queue> {
        Arc::make_mut(&mut self.queues).get_mut((queue as usize).checked_sub(1)?)
    }
}
