//! What cannot be taken back: signals to Envoy and to its agent. They pass at zero only, behind a
//! latch that lets no new stream begin meanwhile, and the latch stays closed for good when one has
//! passed.

use super::machine::{Phase, Reason, Trust};
use super::questions::Questions;
use super::root::{Call, Gate};
use super::snapshot::Snapshot;
use super::waiting::{For, Needs, Waiter};
use crate::config::wire::Finish;
use crate::host::{Control, Level};

/// The signal after which there is no Envoy.
const QUIT: &str = "/quitquitquit";

/// What is to pass.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Passing {
    /// A signal of an operator, for that stream.
    Signal {
        stream: u32,
        path: String,
        /// When it is refused at the latest.
        until: u64,
    },
    /// The drain's own last call.
    Finish,
}

/// It waits behind the closed latch, for both counts of a later moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Passage {
    what: Passing,
    pub(super) needs: Needs,
    /// When it is given up.
    until: u64,
}

impl Gate {
    /// Passes at once; the answer is Envoy's.
    pub(super) fn pass(&mut self, host: &impl Control, stream: u32, path: &str, latched: bool) {
        match self.call(host, &self.policy.admin, "POST", path) {
            Some(call) => self
                .calls
                .push((call, Call::Pass { stream, latched, quits: path.starts_with(QUIT) })),
            None => self.passed(host, stream, latched, false, None, ""),
        }
    }

    /// The counts that the signal has waited for are here. If they say zero, the latch is closed,
    /// and they are asked for once more.
    pub(super) fn try_signal(&mut self, host: &impl Control, snapshot: &Snapshot, waiter: Waiter) {
        if snapshot.record.phase.lets_go() {
            return self.pass(host, waiter.stream, &waiter.path, false);
        }
        let is_late = snapshot.now >= waiter.until;
        match refusal(snapshot) {
            None if !snapshot.has_heard(&self.witness, waiter.needs) => {
                self.refuse(host, snapshot, waiter.stream, ASKING)
            }
            None if self.passage.is_some() && !is_late => self.waiting.hold(waiter),
            None => {
                let (stream, until) = (waiter.stream, waiter.until);
                let what = Passing::Signal { stream, path: waiter.path.clone(), until };
                match self.close_latch(host, what) {
                    Ok(()) => {}
                    Err(BUSY) if !is_late => self.waiting.hold(waiter),
                    Err(why) => self.refuse(host, snapshot, stream, why),
                }
            }
            // The next answers may say zero.
            Some(OLDER | ASKING | DIED) if !is_late => {
                self.waiting.hold(Waiter { needs: self.next_answers(), ..waiter })
            }
            Some(why) => self.refuse(host, snapshot, waiter.stream, why),
        }
    }

    /// Closes the gate to new streams, and asks both witnesses again. A stream counts itself before
    /// it looks at the gate, and the gate closes before it looks at the count: one of the two sees
    /// the other.
    pub(super) fn close_latch(
        &mut self,
        host: &impl Control,
        what: Passing,
    ) -> Result<(), &'static str> {
        if self.passage.is_some() {
            return Err(BUSY);
        }
        let Some(me) = self.census.me() else { return Err(ASKING) };
        // Streams are refused from here on until Envoy has answered: so it must be possible to ask
        // it at once.
        if !Questions::read(host).may_ask(host.now()) {
            return Err(BUSY);
        }
        let patience = self.policy.patience.saturating_mul(LATCHED_FOR);
        if !super::latch::is_sealed(host) && !self.latch.close(host, me, patience) {
            return Err(if self.latch.is_rejected() { UNSEEN } else { BUSY });
        }
        self.passage = Some(Passage {
            what,
            needs: self.next_answers(),
            until: host.now().saturating_add(patience),
        });
        self.ask(host);
        Ok(())
    }

    /// Passes what waits behind the latch, if nothing is in flight now that no stream can begin.
    pub(super) fn confirm_passage(&mut self, host: &impl Control, snapshot: &Snapshot) {
        let Some(passage) = self.passage.take_if(|passage| {
            snapshot.now >= passage.until || snapshot.has_heard(&self.witness, passage.needs)
        }) else {
            return;
        };
        let is_closed = super::latch::is_sealed(host)
            || self.census.me().is_some_and(|me| self.latch.is_closed_by(host, me));
        // A drain that goes on, or was taken back meanwhile, needs no last call yet.
        if passage.what == Passing::Finish && snapshot.record.phase != Phase::Drained {
            self.reopen(host);
            return self.record.update(host, &mut |record| record.finish.put_off());
        }
        let why = if !is_closed || !snapshot.has_heard(&self.witness, passage.needs) {
            Some(ASKING)
        } else {
            refusal(snapshot)
        };
        match (passage.what, why) {
            (Passing::Signal { stream, path, .. }, None) => self.pass(host, stream, &path, true),
            (Passing::Finish, None) => self.finish(host),
            (what, Some(why)) => {
                self.reopen(host);
                self.put_back(host, snapshot, what, why);
            }
        }
    }

    /// The client of a signal has gone, and with it the signal.
    pub(super) fn forget_passage(&mut self, host: &impl Control, stream: u32) {
        let is_its = |passage: &mut Passage| matches!(passage.what, Passing::Signal { stream: other, .. } if other == stream);
        if self.passage.take_if(is_its).is_some() {
            self.reopen(host);
        }
    }

    /// A stream came late. A signal may still find zero before its time is over; the drain goes on.
    fn put_back(
        &mut self,
        host: &impl Control,
        snapshot: &Snapshot,
        what: Passing,
        why: &'static str,
    ) {
        match what {
            Passing::Signal { stream, path, until }
                if matches!(why, OLDER | ASKING) && snapshot.now < until =>
            {
                self.waiting.hold(Waiter {
                    stream,
                    what: For::Signal,
                    until,
                    needs: self.next_answers(),
                    path,
                });
            }
            Passing::Signal { stream, .. } => self.refuse(host, snapshot, stream, why),
            Passing::Finish => self.record.update(host, &mut |record| record.finish.put_off()),
        }
    }

    /// The last call of the drain.
    fn finish(&mut self, host: &impl Control) {
        let call = match self.policy.finish {
            Finish::DrainAgent => self.call(host, &self.policy.agent, "POST", "/drain"),
            _ => self.call(host, &self.policy.admin, "POST", QUIT),
        };
        match call {
            Some(call) => self.calls.push((call, Call::Finish)),
            None => self.finished(host, Some(503)),
        }
    }

    /// Without an answer, or after a time-out, the call may have arrived: then it counts as sent.
    pub(super) fn finished(&mut self, host: &impl Control, status: Option<u16>) {
        self.record_call_result(host, super::drive::CallKind::Finish, status == Some(200));
        if matches!(status, None | Some(200 | 504)) { self.seal(host) } else { self.reopen(host) }
    }

    fn seal(&mut self, host: &impl Control) {
        if !super::latch::is_sealed(host) {
            self.latch.seal(host);
            host.log(
                Level::Warning,
                "new streams are refused from now on: the signal to end was sent",
            );
        }
        self.ask(host);
    }

    pub(super) fn reopen(&mut self, host: &impl Control) {
        if let Some(me) = self.census.me() {
            self.latch.open(host, me);
        }
    }

    pub(super) fn refuse(
        &mut self,
        host: &impl Control,
        snapshot: &Snapshot,
        stream: u32,
        why: &str,
    ) {
        host.add(self.metrics.refused, 1);
        self.respond(host, stream, 503, snapshot, why);
    }

    /// Envoy's answer to a signal.
    pub(super) fn passed(
        &mut self,
        host: &impl Control,
        stream: u32,
        latched: bool,
        quits: bool,
        status: Option<u16>,
        body: &str,
    ) {
        if quits && matches!(status, None | Some(200 | 504)) {
            self.seal(host);
        } else if latched {
            self.reopen(host);
        }
        match status {
            Some(status) => host.answer(stream, status, &[("content-type", "text/plain")], body),
            None => {
                self.respond_plainly(host, stream, 502, "Envoy's admin interface did not answer")
            }
        }
    }
}

pub(super) const IN_FLIGHT: &str = "streams are in flight";
const ASKING: &str = "the counters, or Envoy, have not all answered yet";
const BUSY: &str = "another signal is being passed";
const OLDER: &str = "Envoy counts requests that no counter knows";
const UNSEEN: &str =
    "Envoy's stats matcher rejects the gauge that keeps streams from beginning meanwhile";
/// The latch stays closed for so many times what a call may take, so that Envoy can be asked for
/// its statistics in that time.
const LATCHED_FOR: u64 = 12;

/// Why a signal may not pass at this moment. Where no counter is known, or none can be believed, a
/// single zero of Envoy's is not enough: a drain must have found it to last.
pub(super) fn refusal(snapshot: &Snapshot) -> Option<&'static str> {
    let sight = &snapshot.sight;
    let lasts = snapshot.record.phase == Phase::Drained;
    match (sight.in_flight(), sight.trust) {
        (Some(Reason::Streams(_)), _) => Some(IN_FLIGHT),
        (Some(Reason::NoCounter), _) => Some(NO_COUNTER),
        (Some(Reason::Unsure(Trust::Leaking)), _) => {
            Some("a worker's counter does not answer, and Envoy's own count is not known")
        }
        (Some(Reason::Unsure(Trust::Partial)), _) => {
            Some("streams may be older than the counter, and Envoy's own count is not known")
        }
        (Some(Reason::Unsure(_)), _) => Some(REJECTED),
        (Some(_), _) => Some(OLDER),
        (None, _) if !sight.is_complete() => Some(ASKING),
        (None, Trust::Unknown) if !lasts => Some(NO_COUNTER),
        (None, Trust::Rejected) if !lasts => Some(REJECTED),
        // Its worker may be alive after all, and would not look at the latch.
        (None, Trust::Leaking) if !lasts => Some(DIED),
        (None, _) => None,
    }
}

const DIED: &str = "a worker's counter does not answer; the signal passes once another counts in \
    its place, or after ten seconds of silence";
const NO_COUNTER: &str = "no counter of streams is known here";
const REJECTED: &str = "Envoy's stats matcher rejects a counter of streams";
