//! One worker's gate: what it has, and what makes it look. What it is asked is in `requests`, what
//! it knows in `snapshot`, what it does in `drive` and `signals`. The record is shared with the
//! other workers.

use std::collections::VecDeque;

use strum::VariantArray as _;

use super::census::{Census, Wishes};
use super::http::Command;
use super::latch::{self, Latch};
use super::machine::{App, Phase, Record, Trust};
use super::policy::Policy;
use super::record::SharedRecord;
use super::signals::Passage;
use super::waiting::{For, Needs, Waiting};
use super::witness::Witness;
use crate::census::Guard;
use crate::config::Fault;
use crate::config::wire::Scope;
use crate::host::{Control, Kind, Metric};
use crate::metrics::{self, define};

/// Between two looks; milliseconds.
const TICK: u32 = 100;
/// The same while somebody waits for an answer that takes no longer than the counters take.
const SHORT_TICK: u32 = 10;
/// The same while the drain is over, and Envoy may outlive it.
const REST: u32 = 1_000;

/// A call that was made.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Call {
    Begin,
    Finish,
    Cancel(u32),
    /// A signal, for that stream.
    Pass {
        stream: u32,
        latched: bool,
        /// Whether there is no Envoy after it.
        quits: bool,
    },
    Stats,
    App,
}

/// The gate's own metrics, and the three of each scope: in flight, long-lived, begun.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Metrics {
    pub(super) scopes: Vec<(Scope, [Metric; 3])>,
    /// In flight and long-lived of each scope.
    pub(super) gauges: Vec<Metric>,
    /// Of all scopes, the gate's or not: begun, excluded.
    pub(super) everywhere: Vec<(Scope, Metric)>,
    /// One for each word of [`Trust`]: 1 for what the count is worth, else 0.
    pub(super) count: Vec<Metric>,
    pub(super) state: Metric,
    pub(super) seconds: Metric,
    pub(super) late: Metric,
    pub(super) refused: Metric,
    pub(super) heals: Metric,
    pub(super) expired: Metric,
    pub(super) forced: Metric,
}

#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(super) root: u32,
    pub(super) policy: Policy,
    pub(super) metrics: Metrics,
    pub(super) record: SharedRecord,
    pub(super) census: Census,
    pub(super) waiting: Waiting,
    pub(super) latch: Latch,
    /// What waits behind the latch.
    pub(super) passage: Option<Passage>,
    pub(super) calls: Vec<(u32, Call)>,
    pub(super) witness: Witness,
    /// What the app's last answer says, and when it was asked.
    pub(super) app: Option<(u64, App)>,
    pub(super) app_asked: u64,
    /// Requests to the gate that are in flight on this worker.
    pub(super) callers: u64,
    /// How often a leak was found that both witnesses could put right; the gate looks again for a
    /// while.
    pub(super) heal_looks: u32,
    /// What the metrics and the log last said of the count.
    pub(super) told_trust: Option<Trust>,
    pub(super) period: u32,
    /// Whether a gRPC request was cut, which the log hears once.
    pub(super) has_cut: bool,
    /// Commands that the root is to run, with their streams, the oldest first.
    pub(super) inbox: VecDeque<(u32, Command)>,
}

type NameIn = fn(Scope) -> String;

/// In flight, long-lived, begun.
const OF_A_SCOPE: [(Kind, NameIn); 3] = [
    (Kind::Gauge, metrics::in_flight),
    (Kind::Gauge, metrics::long_lived),
    (Kind::Counter, metrics::begun),
];

impl Metrics {
    fn define(host: &impl Control, wanted: &[Scope]) -> Result<Self, Fault> {
        let mut own = [Metric(0); metrics::GATE.len()];
        for (metric, (kind, name)) in own.iter_mut().zip(&metrics::GATE) {
            *metric = define(host, *kind, (*name).into())?;
            if *kind == Kind::Counter {
                host.show(*metric);
            }
        }
        // nothing is evicted yet
        let [state, seconds, late, refused, heals, expired, forced, _evictions] = own;
        let (mut scopes, mut gauges, mut everywhere) = (Vec::new(), Vec::new(), Vec::new());
        for scope in Scope::VARIANTS {
            for name in &[metrics::begun, metrics::excluded] {
                everywhere.push((*scope, define(host, Kind::Counter, name(*scope))?));
            }
        }
        let count = Trust::VARIANTS
            .iter()
            .map(|trust| define(host, Kind::Gauge, metrics::count(*trust)))
            .collect::<Result<_, _>>()?;
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
        Ok(Self {
            scopes,
            gauges,
            everywhere,
            count,
            state,
            seconds,
            late,
            refused,
            heals,
            expired,
            forced,
        })
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
            metrics,
            record: SharedRecord::of_this_filter(host, &policy.scopes),
            policy,
            census: Census::default(),
            waiting: Waiting::default(),
            latch,
            passage: None,
            calls: Vec::new(),
            witness: Witness::default(),
            app: None,
            app_asked: 0,
            callers: 0,
            heal_looks: 0,
            told_trust: None,
            period: 0,
            has_cut: false,
            inbox: VecDeque::new(),
        };
        // A drain that began before this configuration goes on under it.
        host.set(gate.metrics.state, gate.record.read(host).phase as u64);
        gate.set_tick_period(host);
        Ok(gate)
    }

    /// A tick: ask, look, act, answer.
    pub(crate) fn tick(&mut self, host: &impl Control) {
        self.run_next_command(host);
        if self.period > 0 {
            self.ask(host);
        }
        self.evaluate_and_answer(host);
    }

    /// A message is here: a command's, or an answer of a counter. Envoy calls once for each, so a
    /// call that found a command need not look at all who wait: the others will.
    pub(crate) fn heard(&mut self, host: &impl Control, queue: u32) {
        if !self.census.is_mine(queue) {
            return;
        }
        let has_run = self.run_next_command(host);
        let is_answered = self.census.hear(host);
        if self.period > 0 && (is_answered || !has_run) {
            self.evaluate_and_answer(host);
        }
    }

    /// Something new is known: what follows need not wait for the tick.
    pub(super) fn evaluate_and_answer(&mut self, host: &impl Control) {
        let snapshot = self.evaluate(host);
        self.confirm_passage(host, &snapshot);
        self.answer_ready_waiters(host, &snapshot);
        self.set_tick_period(host);
    }

    pub(super) fn ask(&mut self, host: &impl Control) {
        let record = self.record.read(host);
        let draining = record.phase.is_draining();
        let older = self
            .policy
            .long_lived_after
            .filter(|_| draining)
            .map_or(0, |age| record.began.saturating_sub(age));
        let wishes = Wishes {
            guard: self.guard(host, &record),
            older,
            list: self.waiting.longest_listing(),
            plain_only: self.policy.exempts,
            busy: self.busy(host),
        };
        self.census.ask(host, wishes);
        self.census.hear(host);
    }

    /// Whether streams must ask whether the gate is closing: it costs them a read each.
    fn guard(&self, host: &impl Control, record: &Record) -> Guard {
        if latch::is_sealed(host) {
            Guard::ForGood
        } else if self.waiting.any(For::Signal)
            || self.passage.is_some()
            || self.latch.is_mine()
            || record.phase != Phase::Serving
        {
            Guard::ForAWhile
        } else {
            Guard::No
        }
    }

    /// Answers that are asked for from now on.
    pub(super) fn next_answers(&self) -> Needs {
        Needs { round: self.census.round() + 1, question: self.witness.next() }
    }

    /// When nothing will have been in flight for long enough, if it stays so.
    pub(super) fn quiet_ends(&self, record: &Record) -> Option<u64> {
        (record.phase == Phase::Draining && record.quiet_since > 0)
            .then_some(record.quiet_since + self.policy.quiet)
    }

    /// Ticks only as long as there is something to do, and so that the end of the quiet period is
    /// not missed by a tick.
    pub(super) fn set_tick_period(&mut self, host: &impl Control) {
        let record = self.record.read(host);
        let works = !self.waiting.is_empty() || self.latch.is_mine() || self.is_healing();
        let period = if !self.inbox.is_empty()
            || self.waiting.presses()
            || self.passage.is_some()
            || self.is_telling_the_agent(&record)
        {
            SHORT_TICK
        } else if let Some(end) = self.quiet_ends(&record) {
            u32::try_from(end.saturating_sub(host.now())).unwrap_or(TICK).clamp(SHORT_TICK, TICK)
        } else if record.phase == Phase::Draining || works {
            TICK
        } else if record.phase != Phase::Serving {
            REST
        } else {
            0
        };
        if period != self.period {
            self.period = period;
            host.tick_every(period);
        }
    }
}
