//! One worker's gate: what it has, and what makes it look. What it is asked is in `requests`, what it sees in `sight`, what it does in
//! `drive` and `signals`. The record is shared with the other workers.

use alloc::string::String;
use alloc::vec::Vec;

use super::census::{Census, Wishes};
use super::latch::Latch;
use super::machine::{App, Phase, Record, Step};
use super::policy::Policy;
use super::record::read_record;
use super::waiting::{For, Waiting};
use super::witness::Witness;
use crate::config::Fault;
use crate::config::wire::Scope;
use crate::host::{Control, Kind, Metric};
use crate::metrics::{self, define};

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

/// The gate's own metrics, and the three of each scope: in flight, long-lived, begun.
#[derive(Debug)]
pub(super) struct Metrics {
    pub(super) scopes: Vec<(Scope, [Metric; 3])>,
    /// In flight and long-lived of each scope.
    pub(super) gauges: Vec<Metric>,
    /// Of all scopes, these or not: begun, excluded.
    pub(super) everywhere: Vec<Metric>,
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

type NameIn = fn(Scope) -> String;

/// In flight, long-lived, begun.
const OF_A_SCOPE: [(Kind, NameIn); 3] =
    [(Kind::Gauge, metrics::in_flight), (Kind::Gauge, metrics::long_lived), (Kind::Counter, metrics::begun)];

impl Metrics {
    fn define(host: &impl Control, wanted: &[Scope]) -> Result<Self, Fault> {
        let mut own = [Metric(0); metrics::GATE.len()];
        for (metric, (kind, name)) in own.iter_mut().zip(&metrics::GATE) {
            *metric = define(host, *kind, (*name).into())?;
            if *kind == Kind::Counter {
                host.show(*metric);
            }
        }
        let [state, seconds, late, refused, heals, expired, forced, _evictions] = own; // nothing is evicted yet
        let (mut scopes, mut gauges, mut everywhere) = (Vec::new(), Vec::new(), Vec::new());
        for scope in Scope::ALL {
            for name in &[metrics::begun, metrics::excluded] {
                everywhere.push(define(host, Kind::Counter, name(*scope))?);
            }
        }
        for scope in wanted {
            let mut three = [Metric(0); 3];
            for (metric, (kind, name)) in three.iter_mut().zip(&OF_A_SCOPE) {
                *metric = define(host, *kind, name(*scope))?;
                if *kind == Kind::Gauge {
                    gauges.push(*metric);
                }
            }
            scopes.push((*scope, three));
        }
        Ok(Self { scopes, gauges, everywhere, state, seconds, late, refused, heals, expired, forced })
    }
}

impl Gate {
    /// # Errors
    /// Which metric Envoy does not define.
    pub(crate) fn new(host: &impl Control, root: u32, policy: Policy) -> Result<Self, Fault> {
        let metrics = Metrics::define(host, &policy.scopes)?;
        let latch = Latch::new(define(host, Kind::Gauge, metrics::CLOSING.into())?);
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
        host.set(gate.metrics.state, read_record(host).phase as u64);
        gate.pace(host);
        Ok(gate)
    }

    /// A tick: look, act, answer.
    pub(crate) fn tick(&mut self, host: &impl Control) {
        if self.period > 0 {
            self.ask(host);
        }
        self.look(host);
        self.settle(host);
        self.pace(host);
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
        let record = read_record(host);
        let draining = record.phase == Phase::Draining;
        let older = self.policy.long_lived_after.filter(|_| draining).map_or(0, |age| record.began.saturating_sub(age));
        let wishes = Wishes { guard: self.minds(&record), older, list: self.waiting.longest_listing(), plain_only: self.policy.exempts };
        self.census.ask(host, wishes);
        self.census.hear(host);
    }

    /// Whether streams must mind the gate: it costs them a read each.
    fn minds(&self, record: &Record) -> bool {
        self.waiting.any(For::Signal) || self.latch.is_mine() || record.phase != Phase::Serving
    }

    /// When nothing will have been in flight for long enough, if it stays so.
    pub(super) fn quiet_ends(&self, record: &Record) -> Option<u64> {
        (record.phase == Phase::Draining && record.quiet_since > 0).then_some(record.quiet_since + self.policy.quiet)
    }

    /// Ticks only as long as there is something to do, and so that the end of the quiet period is not missed by a tick.
    pub(super) fn pace(&mut self, host: &impl Control) {
        let record = read_record(host);
        let phase = record.phase;
        let finishing = phase == Phase::Drained && self.policy.finishes() && !matches!(record.finish, Step::Done | Step::Failed);
        let period = if self.waiting.presses() {
            SHORT_TICK
        } else if let Some(end) = self.quiet_ends(&record) {
            u32::try_from(end.saturating_sub(host.now())).unwrap_or(TICK).clamp(SHORT_TICK, TICK)
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
