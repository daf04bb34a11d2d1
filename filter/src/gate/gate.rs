//! The gate of one worker: what it owns, and when it evaluates. The record is shared with the gates
//! of the other workers.
//!
//! Requests are in `requests`, commands in `commands`, the evaluation in `drain`.

use std::collections::VecDeque;

use super::calls::Calls;
use super::envoy_samples::EnvoySamples;
use super::http::Command;
use super::latched_signal::LatchedSignal;
use super::machine::Record;
use super::metrics::Metrics;
use super::observation::App;
use super::phase::Phase;
use super::policy::Policy;
use super::record::SharedRecord;
use super::waiting::{Needs, Waiting, WaitsFor};
use crate::census::latch::{self, Latch};
use crate::census::{Census, CountState, LatchCheck, RequestOptions};
use crate::config::Fault;
use crate::host::{Control, Kind};
use crate::metrics::{self, define};

/// Between two evaluations; milliseconds.
const TICK: u32 = 100;
/// The same while a request waits for fresh counts.
const SHORT_TICK: u32 = 10;
/// The same while the drain is over, and Envoy may outlive it.
const TICK_WHEN_OVER: u32 = 1_000;

/// The gate of one worker.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(super) policy: Policy,
    pub(super) metrics: Metrics,
    pub(super) record: SharedRecord,
    pub(super) census: Census,
    pub(super) waiting: Waiting,
    pub(super) latch: Latch,
    pub(super) latched_signal: Option<LatchedSignal>,
    pub(super) calls: Calls,
    pub(super) envoy_samples: EnvoySamples,
    /// What the app's last answer says, and when the app was asked.
    pub(super) app_reply: Option<(u64, App)>,
    pub(super) app_asked_at: u64,
    /// Requests to the gate that are in flight on this worker.
    pub(super) requests_in_flight: u64,
    /// For how many evaluations in a row a leaked count could be healed.
    pub(super) healing_evaluations: u32,
    /// What the metrics and the log last showed.
    pub(super) reported_count_state: Option<CountState>,
    pub(super) period: u32,
    /// Whether a gRPC request was reset, which is logged once.
    pub(super) has_reset_grpc: bool,
    /// Commands that the root context is to run, with their streams, the oldest first.
    pub(super) commands: VecDeque<(u32, Command)>,
}

impl Gate {
    /// # Errors
    /// Which metric Envoy does not define.
    pub(crate) fn new(host: &impl Control, root: u32, policy: Policy) -> Result<Self, Fault> {
        let metrics = Metrics::define(host, &policy.scopes)?;
        let latch = Latch::new(define(host, Kind::Gauge, metrics::CLOSING.into())?);
        let mut gate = Self {
            metrics,
            record: SharedRecord::of_this_filter(host, &policy.scopes),
            policy,
            census: Census::default(),
            waiting: Waiting::default(),
            latch,
            latched_signal: None,
            calls: Calls::new(root),
            envoy_samples: EnvoySamples::default(),
            app_reply: None,
            app_asked_at: 0,
            requests_in_flight: 0,
            healing_evaluations: 0,
            reported_count_state: None,
            period: 0,
            has_reset_grpc: false,
            commands: VecDeque::new(),
        };
        // A drain that began before this configuration goes on under it.
        host.record_metric(gate.metrics.state, gate.record.read(host).phase as u64);
        gate.set_tick_period(host);
        Ok(gate)
    }

    pub(crate) fn on_tick(&mut self, host: &impl Control) {
        self.run_next_command(host);
        if self.period > 0 {
            self.ask_counters(host);
        }
        self.evaluate_and_answer(host);
    }

    /// A message has arrived: for a command, or a counter's reply. Envoy calls this once for each,
    /// so a call that runs a command leaves the evaluation to the others.
    pub(crate) fn on_queue_ready(&mut self, host: &impl Control, queue: u32) {
        if !self.census.owns_queue(queue) {
            return;
        }
        let has_run = self.run_next_command(host);
        let has_reply = self.census.receive_replies(host);
        if self.period > 0 && (has_reply || !has_run) {
            self.evaluate_and_answer(host);
        }
    }

    /// Called when something new is known, so that its consequences need not wait for the tick.
    pub(super) fn evaluate_and_answer(&mut self, host: &impl Control) {
        let snapshot = self.evaluate(host);
        self.confirm_latched_signal(host, &snapshot);
        self.answer_ready_waiters(host, &snapshot);
        self.set_tick_period(host);
    }

    pub(super) fn ask_counters(&mut self, host: &impl Control) {
        let record = self.record.read(host);
        let is_draining = record.phase.is_draining();
        let long_lived_before = self
            .policy
            .long_lived_after
            .filter(|_| is_draining)
            .map_or(0, |age| record.began.saturating_sub(age));
        let options = RequestOptions {
            latch_check: self.latch_check(host, &record),
            long_lived_before,
            list_limit: self.waiting.list_limit(),
            plain_only: self.policy.exempts_long_lived,
            busy: self.envoy_busy(host),
        };
        self.census.ask(host, options);
        self.census.receive_replies(host);
    }

    /// Streams check the latch only when it may be closed, because each check costs a read.
    fn latch_check(&self, host: &impl Control, record: &Record) -> LatchCheck {
        if latch::is_sealed(host) {
            LatchCheck::Always
        } else if self.waiting.any(WaitsFor::Signal)
            || self.latched_signal.is_some()
            || self.latch.is_held()
            || record.phase != Phase::Serving
        {
            LatchCheck::ForAWhile
        } else {
            LatchCheck::Off
        }
    }

    /// The answers to the next requests.
    pub(super) fn next_answers(&self) -> Needs {
        Needs { round: self.census.round() + 1, query: self.envoy_samples.next_query() }
    }

    /// When the quiet period ends, if no stream begins.
    pub(super) fn quiet_period_end(&self, record: &Record) -> Option<u64> {
        (record.phase == Phase::Draining && record.quiet_since > 0)
            .then_some(record.quiet_since + self.policy.quiet)
    }

    /// The gate ticks only while there is something to do. The last tick of the quiet period is
    /// shorter, so that its end is not missed by a tick.
    pub(super) fn set_tick_period(&mut self, host: &impl Control) {
        let record = self.record.read(host);
        let is_working = !self.waiting.is_empty() || self.latch.is_held() || self.is_healing();
        let period = if !self.commands.is_empty()
            || self.waiting.needs_fresh_counts()
            || self.latched_signal.is_some()
            || self.awaits_finish_call(&record)
        {
            SHORT_TICK
        } else if let Some(end) = self.quiet_period_end(&record) {
            u32::try_from(end.saturating_sub(host.monotonic_time()))
                .unwrap_or(TICK)
                .clamp(SHORT_TICK, TICK)
        } else if record.phase == Phase::Draining || is_working {
            TICK
        } else if record.phase != Phase::Serving {
            TICK_WHEN_OVER
        } else {
            0
        };
        if period != self.period {
            self.period = period;
            host.set_tick_period(period);
        }
    }
}
