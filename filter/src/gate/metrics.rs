//! The metrics that a gate writes, and those of its scopes that it reads.

use strum::VariantArray as _;

use crate::census::CountState;
use crate::config::Fault;
use crate::config::wire::Scope;
use crate::host::{Control, Kind, Metric};
use crate::metrics::{self, Evictions, define};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Metrics {
    /// The metrics for streams in flight, long-lived and begun, of each of the gate's scopes.
    pub(super) scopes: Vec<(Scope, [Metric; 3])>,
    /// The gauges for streams in flight and long-lived, of each of the gate's scopes.
    pub(super) gauges: Vec<Metric>,
    /// The counters for streams begun and excluded, of every scope, the gate's or not.
    pub(super) all_begun: Vec<(Scope, Metric)>,
    /// One for each [`CountState`]: 1 for the state of the count, otherwise 0.
    pub(super) count: Vec<Metric>,
    pub(super) state: Metric,
    pub(super) seconds: Metric,
    pub(super) late: Metric,
    pub(super) refused: Metric,
    pub(super) heals: Metric,
    pub(super) expired: Metric,
    pub(super) forced: Metric,
    pub(super) deadline: Metric,
    pub(super) holding: Metric,
    pub(super) evictions: Evictions,
}

type NameOfScope = fn(Scope) -> String;

const OF_A_SCOPE: [(Kind, NameOfScope); 3] = [
    (Kind::Gauge, metrics::in_flight),
    (Kind::Gauge, metrics::long_lived),
    (Kind::Counter, metrics::begun),
];

impl Metrics {
    /// # Errors
    /// The metric that Envoy does not define.
    pub(super) fn define(host: &impl Control, gate_scopes: &[Scope]) -> Result<Self, Fault> {
        let mut own = [Metric(0); metrics::GATE.len()];
        for (metric, (kind, name)) in own.iter_mut().zip(&metrics::GATE) {
            *metric = define(host, *kind, (*name).into())?;
            if *kind == Kind::Counter {
                host.make_visible(*metric);
            }
        }
        let [state, seconds, late, refused, heals, expired, forced, _evictions, deadline, holding] =
            own;
        let all_begun = define_all_begun(host)?;
        let count = define_count_states(host)?;
        let mut scopes = Vec::new();
        for scope in gate_scopes {
            scopes.push((*scope, define_of_scope(host, *scope)?));
        }
        let gauges =
            scopes.iter().flat_map(|(_, [in_flight, long_lived, _])| [*in_flight, *long_lived]);
        Ok(Self {
            gauges: gauges.collect(),
            scopes,
            all_begun,
            count,
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
        })
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

fn define_of_scope(host: &impl Control, scope: Scope) -> Result<[Metric; 3], Fault> {
    let mut three = [Metric(0); 3];
    for (metric, (kind, name)) in three.iter_mut().zip(&OF_A_SCOPE) {
        *metric = define(host, *kind, name(scope))?;
    }
    Ok(three)
}
