//! The gate of one worker: its state, its calls and its responses. The record is shared with the
//! gates of the other workers.
//!
//! The consequences of a snapshot are in `evaluation`, above this.

use std::collections::VecDeque;

use super::calls::{Call, CallKind, Calls, Target};
use super::ends::Ends;
use super::healing::Healing;
use super::http::Command;
use super::machine::Record;
use super::metrics::Metrics;
use super::policy::Policy;
use super::query_pacing::QueryPacing;
use super::record::SharedRecord;
use super::replies::{Outcome, json};
use super::schedule::Schedule;
use super::signals::{ASKING, BUSY, LatchedSignal, QUIT, SignalKind, UNSEEN, may_have_arrived};
use super::snapshot::Snapshot;
use super::sources::{Sources, envoy_busy};
use super::step::CallOutcome;
use super::total::SharedTotal;
use super::waiting::Waiting;
use crate::census::RequestOptions;
use crate::census::latch::{self, Latch};
use crate::config::{Fault, wire::Finish};
use crate::host::{Control, Kind, Level};
use crate::metrics::{self, define};

/// The time for which the latch stays closed, as a multiple of the time limit of a call, so that
/// Envoy's statistics can be queried meanwhile.
const LATCHED_FOR: u64 = 12;

/// The gate of one worker.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(super) policy: Policy,
    pub(super) record: SharedRecord,
    pub(super) sources: Sources,
    pub(super) waiting: Waiting,
    pub(super) latch: Latch,
    pub(super) latched_signal: Option<LatchedSignal>,
    pub(super) calls: Calls,
    pub(super) healing: Healing,
    pub(super) period: u32,
    /// Whether there is nothing to do. The gate may tick nevertheless, for [`Policy::idle_tick`].
    pub(super) is_idle: bool,
    /// Whether a gRPC request was reset, which is logged once.
    pub(super) has_reset_grpc: bool,
    /// Commands that wait for the root context, with their streams, the oldest first.
    pub(super) commands: VecDeque<(u32, Command)>,
    pub(super) ends: Ends,
}

impl Gate {
    /// # Errors
    /// The metric that Envoy does not define.
    pub(crate) fn new(host: &impl Control, root: u32, policy: Policy) -> Result<Self, Fault> {
        let metrics = Metrics::define(host, &policy.scopes)?;
        let latch = Latch::new(define(host, Kind::Gauge, metrics::CLOSING.into())?);
        let record = SharedRecord::of_this_filter(host, &policy.scopes);
        let mut gate = Self {
            ends: Ends::new(&record.key),
            sources: Sources::new(metrics, SharedTotal::of(&record.key)),
            record,
            policy,
            waiting: Waiting::default(),
            latch,
            latched_signal: None,
            calls: Calls::new(root),
            healing: Healing::default(),
            period: 0,
            is_idle: true,
            has_reset_grpc: false,
            commands: VecDeque::new(),
        };
        // A drain that began before this configuration goes on under it.
        host.record_metric(gate.sources.metrics.state, gate.record.read(host).phase as u64);
        host.record_metric(gate.sources.metrics.deadline, gate.policy.deadline / 1_000);
        gate.set_tick_period(host);
        Ok(gate)
    }

    pub(super) fn schedule<'g>(&'g self, record: &'g Record) -> Schedule<'g> {
        Schedule {
            policy: &self.policy,
            record,
            samples: &self.sources.samples,
            waiting: &self.waiting,
            latched: self.latched_signal.as_ref().map(|signal| signal.needs),
            is_latch_held: self.latch.is_held(),
            is_healing: self.healing.is_going_on(),
            has_commands: !self.commands.is_empty(),
        }
    }

    pub(super) fn set_tick_period(&mut self, host: &impl Control) {
        let record = self.record.read(host);
        let mut period = self.schedule(&record).tick_period(|| host.monotonic_time());
        self.is_idle = period == 0;
        if self.is_idle {
            period = self.policy.idle_tick();
        }
        if period != self.period {
            self.period = period;
            host.set_tick_period(period);
        }
    }

    pub(super) fn ask_counters(&mut self, host: &impl Control) {
        let record = self.record.read(host);
        let schedule = self.schedule(&record);
        let options = RequestOptions {
            latch_check: schedule.latch_check(latch::is_sealed(host)),
            long_lived_before: schedule.long_lived_before(),
            list_limit: self.waiting.list_limit(),
            plain_only: self.policy.exempts_long_lived,
            busy: envoy_busy(host),
        };
        self.sources.census.ask(host, options);
        self.sources.census.receive_replies(host);
    }

    pub(super) fn record_call_result(
        &self,
        host: &impl Control,
        kind: CallKind,
        outcome: CallOutcome,
    ) {
        self.record.update(host, &mut |record| match kind {
            CallKind::Begin => record.begin.record(outcome),
            CallKind::Finish => record.finish.record(outcome),
        });
        self.log_call_failure(host, kind, outcome);
    }

    pub(super) fn log_call_failure(
        &self,
        host: &impl Control,
        kind: CallKind,
        outcome: CallOutcome,
    ) {
        if outcome == CallOutcome::Failure {
            let failed = match kind {
                CallKind::Begin => "the call that makes traffic leave failed",
                CallKind::Finish => "the last call failed",
            };
            host.log(Level::Warning, failed);
        }
    }

    pub(super) fn send_begin_call(&mut self, host: &impl Control) {
        let target = self.policy.admin_call("POST", self.policy.begin_path());
        if !self.calls.send(host, Call::Begin, target) {
            self.record_call_result(host, CallKind::Begin, CallOutcome::Failure);
        }
    }

    /// Makes the last call of the drain.
    pub(super) fn send_finish_call(&mut self, host: &impl Control) {
        let target = match self.policy.finish {
            Finish::DrainAgent => {
                Target { cluster: &self.policy.agent, ..self.policy.admin_call("POST", "/drain") }
            }
            _ => self.policy.admin_call("POST", QUIT),
        };
        if !self.calls.send(host, Call::Finish, target) {
            self.on_finish_response(host, Some(503));
        }
    }

    pub(super) fn on_finish_response(&mut self, host: &impl Control, status: Option<u16>) {
        self.record_call_result(host, CallKind::Finish, CallOutcome::from_status(status));
        if may_have_arrived(status) { self.seal(host) } else { self.open_latch(host) }
    }

    /// Postpones the last call, which was claimed but not made.
    pub(super) fn postpone_finish(&self, host: &impl Control) {
        self.record.update(host, &mut |record| record.finish.postpone());
    }

    /// Sends a signal at once; `stream` gets Envoy's answer.
    pub(super) fn send_signal(
        &mut self,
        host: &impl Control,
        stream: u32,
        path: &str,
        is_latched: bool,
    ) {
        let call = Call::Signal { stream, is_latched, ends_envoy: path.starts_with(QUIT) };
        if !self.calls.send(host, call, self.policy.admin_call("POST", path)) {
            self.on_signal_response(host, stream, is_latched, false, None, "");
        }
    }

    /// Handles Envoy's answer to a signal, or its failure.
    pub(super) fn on_signal_response(
        &mut self,
        host: &impl Control,
        stream: u32,
        is_latched: bool,
        ends_envoy: bool,
        status: Option<u16>,
        body: &str,
    ) {
        if ends_envoy && may_have_arrived(status) {
            self.seal(host);
        } else if is_latched {
            self.open_latch(host);
        }
        match status {
            Some(status) => {
                host.send_http_response(stream, status, &[("content-type", "text/plain")], body)
            }
            None => {
                self.respond_plainly(host, stream, 502, "Envoy's admin interface did not answer")
            }
        }
    }

    /// Closes the latch, which refuses new streams, and asks for both counts again. A stream is
    /// counted before it checks the latch, and the gate closes the latch before it reads the count,
    /// so one of the two sees the other.
    pub(super) fn close_latch(
        &mut self,
        host: &impl Control,
        kind: SignalKind,
    ) -> Result<(), &'static str> {
        if self.latched_signal.is_some() {
            return Err(BUSY);
        }
        let Some(gate) = self.sources.census.queue() else { return Err(ASKING) };
        // New streams are refused from here on until Envoy has answered, so the query must begin
        // at once.
        let is_allowed = QueryPacing::read(host).is_allowed(host.monotonic_time());
        if !is_allowed || self.calls.contains(&Call::Stats) {
            return Err(BUSY);
        }
        let patience = self.policy.patience.saturating_mul(LATCHED_FOR);
        if !latch::is_sealed(host) && !self.latch.close(host, gate, patience) {
            return Err(if self.latch.is_rejected() { UNSEEN } else { BUSY });
        }
        let until = host.monotonic_time().saturating_add(patience);
        let needs = self.sources.next_answers();
        self.latched_signal = Some(LatchedSignal { kind, needs, until });
        self.ask_counters(host);
        // If another worker has claimed the query since, the signal waits for that query to end.
        let (record, survey) = (self.record.read(host), self.sources.survey(host, &self.policy));
        self.query_envoy_stats(host, host.monotonic_time(), &record, &survey);
        if !self.sources.samples.has_begun(needs.query) {
            self.latched_signal = None;
            self.open_latch(host);
            return Err(BUSY);
        }
        Ok(())
    }

    /// Envoy replaces or removes the configuration, and drops the answers to all calls. A signal to
    /// end that was sent may have arrived, so the latch is sealed.
    pub(crate) fn on_delete(&mut self, host: &impl Control) {
        let ends = |call: &Call| match call {
            Call::Finish => true,
            Call::Signal { ends_envoy, .. } => *ends_envoy,
            _ => false,
        };
        if self.calls.contains(&Call::Stats) {
            QueryPacing::end(host);
        }
        if self.calls.any(ends) { self.seal(host) } else { self.open_latch(host) }
    }

    pub(super) fn open_latch(&mut self, host: &impl Control) {
        if let Some(gate) = self.sources.census.queue() {
            self.latch.open(host, gate);
        }
    }

    fn seal(&mut self, host: &impl Control) {
        if !latch::is_sealed(host) {
            self.latch.seal(host);
            host.log(
                Level::Warning,
                "new streams are refused from now on: the signal to end was sent",
            );
        }
        self.ask_counters(host);
    }

    pub(super) fn refuse_signal(
        &self,
        host: &impl Control,
        snapshot: &Snapshot,
        stream: u32,
        why: &str,
    ) {
        host.increment_metric(self.sources.metrics.refused, 1);
        respond_json(host, stream, 503, &json(&Outcome::new(snapshot, why)));
    }

    /// Responds without a snapshot, where no evaluation is needed.
    pub(super) fn respond_plainly(&self, host: &impl Control, stream: u32, status: u16, why: &str) {
        let outcome = Outcome {
            state: self.record.read(host).phase,
            reason: why.into(),
            holding: Some(self.sources.holding(host, &self.policy)),
        };
        respond_json(host, stream, status, &json(&outcome));
    }
}

pub(super) fn respond_json(host: &impl Control, stream: u32, status: u16, body: &str) {
    let json = ("content-type", "application/json");
    match status {
        503 => host.send_http_response(stream, status, &[json, ("retry-after", "1")], body),
        _ => host.send_http_response(stream, status, &[json], body),
    }
}
