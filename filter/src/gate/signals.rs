//! Signals to Envoy and to its agent, which cannot be taken back.
//!
//! A signal passes at zero only, behind the latch, so that no stream begins meanwhile. Once one has
//! passed, the latch stays closed until the process ends.

use super::calls::{Call, CallKind, Target};
use super::gate::Gate;
use super::latched_signal::{LatchedSignal, SignalKind};
use super::observation::Reason;
use super::phase::Phase;
use super::query_pacing::QueryPacing;
use super::snapshot::Snapshot;
use super::step::CallOutcome;
use super::waiting::{Waiter, WaitsFor};
use crate::census::{CountState, latch};
use crate::config::wire::Finish;
use crate::host::{Control, Level};

/// The signal that ends Envoy.
const QUIT: &str = "/quitquitquit";
/// The latch stays closed for so many times what a call may take, so that Envoy's statistics can be
/// queried in that time.
const LATCHED_FOR: u64 = 12;

impl Gate {
    /// Sends a signal at once; the stream gets Envoy's answer.
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

    /// The counts that the signal has waited for are known. If they are zero, the latch is closed
    /// and they are asked for once more.
    pub(super) fn try_signal(&mut self, host: &impl Control, snapshot: &Snapshot, waiter: Waiter) {
        if snapshot.record.phase.is_unconditionally_open() {
            return self.send_signal(host, waiter.stream, &waiter.path, false);
        }
        let is_late = snapshot.now >= waiter.until;
        match signal_refusal(snapshot) {
            None if !snapshot.has_answers(&self.envoy_samples, waiter.needs) => {
                self.refuse_signal(host, snapshot, waiter.stream, ASKING)
            }
            None if self.latched_signal.is_some() && !is_late => self.waiting.hold(waiter),
            None => {
                let (stream, until) = (waiter.stream, waiter.until);
                let kind = SignalKind::Operator { stream, path: waiter.path.clone(), until };
                match self.close_latch(host, kind) {
                    Ok(()) => {}
                    Err(BUSY) if !is_late => self.waiting.hold(waiter),
                    Err(why) => self.refuse_signal(host, snapshot, stream, why),
                }
            }
            // The next answers may be zero.
            Some(OLDER | ASKING | DIED) if !is_late => {
                self.waiting.hold(Waiter { needs: self.next_answers(), ..waiter })
            }
            Some(why) => self.refuse_signal(host, snapshot, waiter.stream, why),
        }
    }

    /// Closes the gate to new streams, and asks for both counts again. A stream counts itself
    /// before it checks the latch, and the gate closes the latch before it reads the count: one of
    /// the two sees the other.
    pub(super) fn close_latch(
        &mut self,
        host: &impl Control,
        kind: SignalKind,
    ) -> Result<(), &'static str> {
        if self.latched_signal.is_some() {
            return Err(BUSY);
        }
        let Some(gate) = self.census.queue() else { return Err(ASKING) };
        // New streams are refused from here on until Envoy has answered, so the query must be
        // allowed at once.
        if !QueryPacing::read(host).is_allowed(host.monotonic_time()) {
            return Err(BUSY);
        }
        let patience = self.policy.patience.saturating_mul(LATCHED_FOR);
        if !latch::is_sealed(host) && !self.latch.close(host, gate, patience) {
            return Err(if self.latch.is_rejected() { UNSEEN } else { BUSY });
        }
        let until = host.monotonic_time().saturating_add(patience);
        self.latched_signal = Some(LatchedSignal { kind, needs: self.next_answers(), until });
        self.ask_counters(host);
        Ok(())
    }

    /// Sends the signal behind the latch, if nothing is in flight now that no stream can begin.
    pub(super) fn confirm_latched_signal(&mut self, host: &impl Control, snapshot: &Snapshot) {
        let Some(signal) = self.latched_signal.take_if(|signal| {
            snapshot.now >= signal.until || snapshot.has_answers(&self.envoy_samples, signal.needs)
        }) else {
            return;
        };
        let is_closed = latch::is_sealed(host)
            || self.census.queue().is_some_and(|gate| self.latch.is_closed_by(host, gate));
        // A drain that goes on, or was cancelled meanwhile, needs no last call yet.
        if signal.kind == SignalKind::Finish && snapshot.record.phase != Phase::Drained {
            self.open_latch(host);
            return self.record.update(host, &mut |record| record.finish.postpone());
        }
        let why = if !is_closed || !snapshot.has_answers(&self.envoy_samples, signal.needs) {
            Some(ASKING)
        } else {
            signal_refusal(snapshot)
        };
        match (signal.kind, why) {
            (SignalKind::Operator { stream, path, .. }, None) => {
                self.send_signal(host, stream, &path, true)
            }
            (SignalKind::Finish, None) => self.send_finish_call(host),
            (kind, Some(why)) => {
                self.open_latch(host);
                self.wait_again(host, snapshot, kind, why);
            }
        }
    }

    /// The client of a signal has gone, so the signal is dropped.
    pub(super) fn forget_latched_signal(&mut self, host: &impl Control, stream: u32) {
        let is_of_stream = |signal: &mut LatchedSignal| match signal.kind {
            SignalKind::Operator { stream: other, .. } => other == stream,
            SignalKind::Finish => false,
        };
        if self.latched_signal.take_if(is_of_stream).is_some() {
            self.open_latch(host);
        }
    }

    /// A late stream has begun. An operator's signal may still find zero before its time is over;
    /// the drain goes on.
    fn wait_again(
        &mut self,
        host: &impl Control,
        snapshot: &Snapshot,
        kind: SignalKind,
        why: &'static str,
    ) {
        match kind {
            SignalKind::Operator { stream, path, until }
                if matches!(why, OLDER | ASKING) && snapshot.now < until =>
            {
                let (waits_for, needs) = (WaitsFor::Signal, self.next_answers());
                self.waiting.hold(Waiter { stream, waits_for, until, needs, path });
            }
            SignalKind::Operator { stream, .. } => self.refuse_signal(host, snapshot, stream, why),
            SignalKind::Finish => self.record.update(host, &mut |record| record.finish.postpone()),
        }
    }

    /// Makes the last call of the drain.
    fn send_finish_call(&mut self, host: &impl Control) {
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

    /// Without an answer, or after a time-out, the call may have arrived, so it counts as sent.
    pub(super) fn on_finish_response(&mut self, host: &impl Control, status: Option<u16>) {
        let outcome = if status == Some(200) { CallOutcome::Success } else { CallOutcome::Failure };
        self.record_call_result(host, CallKind::Finish, outcome);
        if may_have_arrived(status) { self.seal(host) } else { self.open_latch(host) }
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

    fn open_latch(&mut self, host: &impl Control) {
        if let Some(gate) = self.census.queue() {
            self.latch.open(host, gate);
        }
    }

    pub(super) fn refuse_signal(
        &mut self,
        host: &impl Control,
        snapshot: &Snapshot,
        stream: u32,
        why: &str,
    ) {
        host.increment_metric(self.metrics.refused, 1);
        self.respond(host, stream, 503, snapshot, why);
    }

    /// Envoy has answered a signal, or failed to.
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
}

fn may_have_arrived(status: Option<u16>) -> bool {
    matches!(status, None | Some(200 | 504))
}

pub(super) const IN_FLIGHT: &str = "streams are in flight";
const ASKING: &str = "the counters, or Envoy, have not all answered yet";
const BUSY: &str = "another signal is being passed";
const OLDER: &str = "Envoy counts requests that no counter knows";
const UNSEEN: &str =
    "Envoy's stats matcher rejects the gauge that keeps streams from beginning meanwhile";
const DIED: &str = "a worker's counter does not answer; the signal passes once another counts in \
    its place, or after ten seconds of silence";
const NO_COUNTER: &str = "no counter of streams is known here";
const REJECTED: &str = "Envoy's stats matcher rejects a counter of streams";

/// Why a signal may not pass at this moment. If no counter is known, or none can be believed, a
/// single zero of Envoy's is not enough: a drain must have found that it lasts.
pub(super) fn signal_refusal(snapshot: &Snapshot) -> Option<&'static str> {
    let observed = &snapshot.observed;
    let lasts = snapshot.record.phase == Phase::Drained;
    match (observed.in_flight_reason(), observed.count) {
        (Some(Reason::Streams(_)), _) => Some(IN_FLIGHT),
        (Some(Reason::NoCounter), _) => Some(NO_COUNTER),
        (Some(Reason::Unsure(CountState::Leaking)), _) => {
            Some("a worker's counter does not answer, and Envoy's own count is not known")
        }
        (Some(Reason::Unsure(CountState::Partial)), _) => {
            Some("streams may be older than the counter, and Envoy's own count is not known")
        }
        (Some(Reason::Unsure(_)), _) => Some(REJECTED),
        (Some(_), _) => Some(OLDER),
        (None, _) if !observed.is_complete() => Some(ASKING),
        (None, CountState::Unknown) if !lasts => Some(NO_COUNTER),
        (None, CountState::Rejected) if !lasts => Some(REJECTED),
        // Its worker may be alive after all, and would not check the latch.
        (None, CountState::Leaking) if !lasts => Some(DIED),
        (None, _) => None,
    }
}
