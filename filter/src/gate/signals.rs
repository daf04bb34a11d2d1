//! Signals that pass at zero only, behind a latch that lets no new stream begin meanwhile.

use super::machine::{Phase, Trust};
use super::record::read_record;
use super::root::{Call, Gate};
use super::waiting::Waiter;
use crate::host::Control;

const OLDER: &str = "streams may be older than the counter";

impl Gate {
    /// Passes at once; the answer is Envoy's.
    pub(super) fn pass(&mut self, host: &impl Control, stream: u32, path: &str, latched: bool) {
        match self.call(host, &self.policy.admin, "POST", path) {
            Some(call) => self.calls.push((call, Call::Pass(stream, latched))),
            None => self.passed(host, stream, latched, None, ""),
        }
    }

    /// Closes the gate to new streams, looks again, and passes the signal only if nothing is in flight. A stream counts itself before it
    /// looks at the gate, and the gate closes before it looks at the count: one of the two sees the other.
    pub(super) fn signal(&mut self, host: &impl Control, waiter: Waiter) {
        let phase = read_record(host).phase;
        if phase.lets_go() {
            return self.pass(host, waiter.stream, &waiter.path, false);
        }
        match self.trust_of_signal(host, phase, &waiter) {
            Ok(()) => {}
            // Envoy's count was of a moment ago; the next one may be zero.
            Err(OLDER) if host.now() < waiter.until => return self.waiting.hold(waiter),
            Err(why) => return self.refuse(host, waiter.stream, why),
        }
        let closed = self.census.me().is_some_and(|me| self.latch.close(host, me, self.policy.patience));
        if self.latch.is_rejected() {
            return self.refuse(host, waiter.stream, "Envoy's stats matcher rejects the gauge that keeps streams from beginning meanwhile");
        }
        if !closed && host.now() < waiter.until {
            return self.waiting.hold(waiter);
        }
        if !closed {
            return self.refuse(host, waiter.stream, "another signal is being passed");
        }
        if self.holding(host) > 0 {
            self.reopen(host);
            return self.refuse(host, waiter.stream, "streams are in flight");
        }
        self.pass(host, waiter.stream, &waiter.path, true);
    }

    /// Whether the latch is closed now, and nothing in flight.
    pub(super) fn nothing_can_begin(&mut self, host: &impl Control) -> bool {
        let closed = self.census.me().is_some_and(|me| self.latch.close(host, me, self.policy.patience));
        let nothing = closed && self.holding(host) == 0;
        if closed && !nothing {
            self.reopen(host);
        }
        nothing
    }

    pub(super) fn trust_of_signal(&self, host: &impl Control, phase: Phase, waiter: &Waiter) -> Result<(), &'static str> {
        let mind = self.census.completed(host).is_some_and(|round| round >= waiter.round);
        let counted = self.census.result(host, &self.policy.scopes);
        let now = host.now();
        let active = self.witness.active(now, self.moved(host), self.idle(&counted));
        match self.trust(now, &counted, 0, active) {
            _ if phase == Phase::Drained => Ok(()),
            Trust::Exact if mind => Ok(()),
            Trust::Partial => Err(OLDER),
            Trust::Unknown => Err("nobody counts streams here"),
            Trust::Rejected => Err("Envoy's stats matcher rejects a counter of streams"),
            Trust::Leaking => Err("a worker's counter has died"),
            Trust::Exact | Trust::Asking => Err("not all who count streams have answered"),
        }
    }

    pub(super) fn reopen(&mut self, host: &impl Control) {
        if let Some(me) = self.census.me() {
            self.latch.open(host, me);
        }
    }

    pub(super) fn refuse(&mut self, host: &impl Control, stream: u32, why: &str) {
        host.add(self.metrics.refused, 1);
        self.outcome(host, stream, 503, why);
    }

    pub(super) fn passed(&mut self, host: &impl Control, stream: u32, latched: bool, status: Option<u16>, body: &str) {
        if latched {
            self.reopen(host);
        }
        match status {
            Some(status) => host.answer(stream, status, &[("content-type", "text/plain")], body),
            None => self.outcome(host, stream, 502, "Envoy's admin interface did not answer"),
        }
    }
}
