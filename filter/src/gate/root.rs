//! One worker's gate: what it has, and what makes it look. What it is asked is in `requests`, what it sees in `sight`, what it does in
//! `drive` and `signals`. The record is shared with the other workers.

use super::census::Census;
use super::latch::Latch;
use super::machine::{App, Phase, Step};
use super::policy::Policy;
use super::record::read_record;
use super::waiting::{For, Waiting};
use super::witness::Witness;
use crate::config::wire::Scope;
use crate::host::{Control, Kind, Metric};
use crate::metrics;

/// Between two looks; milliseconds.
const TICK: u32 = 100;
/// The same while somebody waits for an answer that takes no longer than the counters take.
const SHORT_TICK: u32 = 10;

/// A call that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
    Begin,
    Finish,
    Cancel(u32),
    /// For that stream; whether the latch is closed for it.
    Pass(u32, bool),
    Stats,
    App,
}

/// The gate's own metrics, and the four of each scope: in flight, long-lived, begun, excluded.
#[derive(Debug)]
pub(super) struct Metrics {
    pub(super) scopes: Vec<(Scope, [Metric; 4])>,
    pub(super) state: Metric,
    pub(super) seconds: Metric,
    pub(super) late: Metric,
    pub(super) refused: Metric,
    pub(super) heals: Metric,
    pub(super) expired: Metric,
    pub(super) forced: Metric,
}

#[derive(Debug)]
pub(crate) struct Gate {
    pub(super) root: u32,
    pub(super) policy: Policy,
    pub(super) metrics: Metrics,
    pub(super) census: Census,
    pub(super) waiting: Waiting,
    pub(super) latch: Latch,
    pub(super) calls: Vec<(u32, Call)>,
    pub(super) witness: Witness,
    pub(super) stats_asked: u64,
    /// How often a leaked count had been put right then.
    pub(super) heals_before: u64,
    /// The time since when all count, of which Envoy has shown that it left no stream behind.
    pub(super) cleared: Option<u64>,
    /// What the app's last answer says, and when it was asked.
    pub(super) app: Option<(u64, App)>,
    pub(super) app_asked: u64,
    pub(super) period: u32,
    /// Whether a gRPC request was cut, which the log hears once.
    pub(super) has_cut: bool,
}

impl Metrics {
    fn define(host: &impl Control, scopes: &[Scope]) -> Result<Self, String> {
        let gauge = |name: &str| define(host, Kind::Gauge, name);
        let counter = |name: &str| -> Result<Metric, String> {
            let metric = define(host, Kind::Counter, name)?;
            host.show(metric);
            Ok(metric)
        };
        let scope = |scope: &Scope| -> Result<(Scope, [Metric; 4]), String> {
            let [begun, excluded] = [metrics::begun(*scope), metrics::excluded(*scope)].map(|name| define(host, Kind::Counter, &name));
            Ok((*scope, [gauge(&metrics::in_flight(*scope))?, gauge(&metrics::long_lived(*scope))?, begun?, excluded?]))
        };
        Ok(Self {
            scopes: scopes.iter().map(scope).collect::<Result<_, _>>()?,
            state: gauge("laststream_gate_state")?,
            seconds: gauge("laststream_gate_drain_seconds")?,
            late: gauge("laststream_gate_late_streams")?,
            refused: counter("laststream_gate_refused_total")?,
            heals: counter("laststream_gate_heals_total")?,
            expired: counter("laststream_gate_expired_total")?,
            forced: counter("laststream_gate_forced_total")?,
        })
    }
}

fn define(host: &impl Control, kind: Kind, name: &str) -> Result<Metric, String> {
    host.metric(kind, name).ok_or_else(|| format!("Envoy does not define the metric `{name}`"))
}

impl Gate {
    /// # Errors
    /// Which metric Envoy does not define.
    pub(crate) fn new(host: &impl Control, root: u32, policy: Policy) -> Result<Self, String> {
        let metrics = Metrics::define(host, &policy.scopes)?;
        let latch = Latch::new(define(host, Kind::Gauge, metrics::CLOSING)?);
        let mut gate = Self {
            root,
            policy,
            metrics,
            census: Census::default(),
            waiting: Waiting::default(),
            latch,
            calls: Vec::new(),
            witness: Witness::default(),
            stats_asked: 0,
            heals_before: 0,
            cleared: None,
            app: None,
            app_asked: 0,
            period: 0,
            has_cut: false,
        };
        // A drain that began before this configuration goes on under it.
        let phase = read_record(host).phase;
        host.set(gate.metrics.state, phase_number(phase));
        gate.pace(host, phase);
        Ok(gate)
    }

    /// A tick: look, act, answer.
    pub(crate) fn tick(&mut self, host: &impl Control) {
        if self.period > 0 {
            self.ask(host);
        }
        self.look(host);
        self.settle(host);
        self.pace(host, read_record(host).phase);
    }

    /// Answers of the counters are here.
    pub(crate) fn heard(&mut self, host: &impl Control, queue: u32) {
        if self.census.is_mine(queue) {
            self.census.hear(host);
            self.look_again(host);
        }
    }

    /// Something new is known: what follows need not wait for the tick.
    pub(super) fn look_again(&mut self, host: &impl Control) {
        if read_record(host).phase == Phase::Draining {
            self.look(host);
        }
        self.settle(host);
    }

    pub(super) fn ask(&mut self, host: &impl Control) {
        let guard = self.minds(host);
        self.census.ask(host, guard);
        self.census.hear(host);
    }

    /// Whether streams must mind the gate: it costs them a read each.
    pub(super) fn minds(&self, host: &impl Control) -> bool {
        self.waiting.any(For::Signal) || self.latch.is_mine() || !matches!(read_record(host).phase, Phase::Serving)
    }

    /// Ticks only as long as there is something to do.
    pub(super) fn pace(&mut self, host: &impl Control, phase: Phase) {
        let finishing = phase == Phase::Drained && self.policy.finishes() && !matches!(read_record(host).finish, Step::Done | Step::Failed);
        let period = if self.waiting.any(For::Counts) || self.waiting.any(For::Signal) {
            SHORT_TICK
        } else if phase == Phase::Draining || finishing || !self.waiting.is_empty() || self.latch.is_mine() {
            TICK
        } else {
            0
        };
        if period != self.period {
            self.period = period;
            host.tick_every(period);
        }
    }
}

pub(super) fn phase_number(phase: Phase) -> u64 {
    Phase::ALL.iter().position(|other| *other == phase).unwrap_or_default() as u64
}
