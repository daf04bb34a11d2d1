//! Cancelling a drain: the gate serves again, and the call that told clients to leave is undone.
//!
//! Envoy may get calls in another order than they were made, and several workers make them. So no
//! worker makes the begin call again once it is to be undone, and a begin call that Envoy may have
//! got after the call that undid it is undone again. A call that undoes may reach Envoy after the
//! begin call of the next drain, which then makes it again.

use super::calls::{Call, CallKind};
use super::gate::Gate;
use super::phase::Phase;
use super::step::{CallOutcome, Step};
use crate::census::latch;
use crate::config::wire::BeginCall;
use crate::host::{Control, Level};

const STAYS_SEALED: &str = "; the signal to end was sent and cannot be undone: new streams are \
    refused until the process ends";

/// Whether the call that told clients to leave was undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Undo {
    NotNeeded,
    Done,
    Failed,
    Impossible,
}

impl Undo {
    fn text(self) -> &'static str {
        match self {
            Self::NotNeeded => "",
            Self::Done => "; Envoy's health checks answer as before",
            Self::Failed => {
                "; Envoy's admin interface did not answer, so health checks may go on failing"
            }
            Self::Impossible => {
                "; Envoy cannot undrain its listeners: it goes on telling clients to leave until \
                    it is restarted (`fail_health_checks` can be undone)"
            }
        }
    }
}

fn stays_sealed(host: &impl Control) -> &'static str {
    if latch::is_sealed(host) { STAYS_SEALED } else { "" }
}

/// What Envoy was told in the drain that was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cancelled {
    /// Whether there was a drain; otherwise only its begin call remained.
    was_draining: bool,
    /// Whether a begin call was made and not undone.
    has_begun: bool,
    /// Whether a begin call was under way, so Envoy may get it after the call that undoes it.
    may_begin_late: bool,
}

impl Gate {
    /// Cancels the gate's drain, and Envoy's if that is possible. The gate serves again at once: in
    /// a drain that goes on, the last call could still be made.
    pub(super) fn cancel_drain(&mut self, host: &impl Control, stream: u32) {
        let mut before = self.record.read(host);
        let mut cancelled = None;
        self.record.update(host, &mut |record| {
            before.clone_from(record);
            let has_begun = self.policy.begins() && record.begin != Step::Due;
            let found = Cancelled {
                was_draining: record.phase != Phase::Serving,
                has_begun,
                may_begin_late: has_begun && !record.begin.has_ended(),
            };
            cancelled = Some(found);
            record.begin.stop();
            record.serve_again(&self.policy);
        });
        let Some(cancelled) = cancelled.filter(|found| found.was_draining || found.has_begun)
        else {
            let why = format!("there is no drain{}", stays_sealed(host));
            return self.respond_plainly(host, stream, 200, &why);
        };
        self.ends.stop_drain(host, &before);
        host.record_metric(self.sources.metrics.state, Phase::Serving as u64);
        let Cancelled { was_draining, has_begun, may_begin_late } = cancelled;
        match self.policy.undo_path().filter(|_| has_begun) {
            Some(path) => {
                let call = Call::Cancel { stream, was_draining, may_begin_late };
                if !self.calls.send(host, call, self.policy.admin_call("POST", path)) {
                    self.respond_cancelled(host, stream, was_draining, Undo::Failed);
                }
            }
            None if has_begun && self.policy.begin == BeginCall::DrainListeners => {
                self.respond_cancelled(host, stream, was_draining, Undo::Impossible)
            }
            None => self.respond_cancelled(host, stream, was_draining, Undo::NotNeeded),
        }
    }

    /// Handles Envoy's answer to the call that undoes the begin call. If a begin call was under way
    /// when the drain was cancelled, Envoy may have got it after this one.
    pub(super) fn on_cancel_response(
        &mut self,
        host: &impl Control,
        stream: u32,
        (was_draining, may_begin_late): (bool, bool),
        outcome: CallOutcome,
    ) {
        self.record_undo(host, outcome);
        let is_undone = outcome == CallOutcome::Success;
        let undo = if is_undone { Undo::Done } else { Undo::Failed };
        self.respond_cancelled(host, stream, was_draining, undo);
        if may_begin_late && is_undone && self.record.read(host).phase == Phase::Serving {
            self.undo_again(host);
        }
    }

    /// Handles the end of a begin call. Envoy may have got it after the call that undid it.
    pub(super) fn on_begin_response(&mut self, host: &impl Control, outcome: CallOutcome) {
        let mut is_undone = false;
        self.record.update(host, &mut |record| {
            is_undone = record.begin == Step::Due && record.phase == Phase::Serving;
            record.begin_has_answered(outcome);
        });
        self.log_call_failure(host, CallKind::Begin, outcome);
        if is_undone {
            self.undo_again(host);
        }
    }

    fn undo_again(&mut self, host: &impl Control) {
        if let Some(path) = self.policy.undo_path()
            && !self.calls.send(host, Call::UndoAgain, self.policy.admin_call("POST", path))
        {
            self.record_undo(host, CallOutcome::Failure);
        }
    }

    /// Records the outcome of a call that undoes the begin call. A failed one may have arrived,
    /// too: a drain that has begun since makes its begin call again. Without a drain the record
    /// keeps that the begin call was made, so that `DELETE /drain` undoes it.
    pub(super) fn record_undo(&mut self, host: &impl Control, outcome: CallOutcome) {
        self.record.update(host, &mut |record| {
            if outcome == CallOutcome::Failure && record.phase == Phase::Serving {
                record.begin = Step::Done;
            } else {
                record.begin_is_undone(&self.policy);
            }
        });
    }

    fn respond_cancelled(
        &mut self,
        host: &impl Control,
        stream: u32,
        was_draining: bool,
        undo: Undo,
    ) {
        let phase = self.record.read(host).phase;
        let ended = match (was_draining, phase) {
            (false, _) => "the drain was over already",
            (true, Phase::Serving) => "the drain was cancelled",
            (true, _) => "the drain was cancelled; another drain has begun since, and goes on",
        };
        host.log(Level::Warning, &format!("{ended}{}", undo.text()));
        self.ask_counters(host);
        let why = format!("{ended}{}{}", undo.text(), stays_sealed(host));
        self.respond_plainly(host, stream, 200, &why);
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::Step;
    use crate::config::wire::{self, Begin, BeginCall};
    use crate::fake::Fake;
    use crate::gate::Gate;
    use crate::gate::http::Command;
    use crate::gate::phase::Phase;
    use crate::gate::policy::Policy;

    const FAIL: &str = "prometheus_stats POST /healthcheck/fail";
    const OK: &str = "prometheus_stats POST /healthcheck/ok";

    /// A gate whose drain has begun, and whose begin call is not answered yet.
    fn draining(host: &Fake) -> Gate {
        let begin = Begin { call: BeginCall::FailHealthChecks, ..Begin::default() };
        let policy = Policy::new(wire::Gate { begin, ..wire::Gate::default() });
        let mut gate = Gate::new(host, 1, policy).expect("metrics");
        host.clock.set(10_000);
        run(&mut gate, host, 2, Command::Drain);
        assert_eq!(signals(host), [FAIL]);
        gate
    }

    fn run(gate: &mut Gate, host: &Fake, stream: u32, command: Command) {
        gate.enqueue_command(host, stream, command);
        assert!(gate.run_next_command(host));
    }

    fn signals(host: &Fake) -> Vec<String> {
        let calls = host.calls.borrow();
        calls.iter().filter(|call| call.contains("POST")).cloned().collect()
    }

    /// Answers the call of this number among those with this path, or lets it fail.
    fn answer(gate: &mut Gate, host: &Fake, (call, number): (&str, usize), status: Option<u16>) {
        let such: Vec<usize> = (0..host.calls.borrow().len())
            .filter(|index| host.calls.borrow()[*index] == call)
            .collect();
        host.response.set(status);
        let headers = usize::from(status.is_some());
        gate.on_http_call_response(host, such[number] as u32 + 1, headers, 0);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn the_begin_call_is_not_made_again_while_it_is_undone() {
        let host = Fake::default();
        let mut gate = draining(&host);
        run(&mut gate, &host, 3, Command::Cancel);
        assert_eq!(signals(&host), [FAIL, OK]);
        assert_eq!(gate.record.read(&host).phase, Phase::Serving, "no last call can be made");
        for now in [20_000, 30_000] {
            host.clock.set(now);
            gate.on_tick(&host);
        }
        assert_eq!(signals(&host), [FAIL, OK], "Envoy's main thread is busy");
        answer(&mut gate, &host, (OK, 0), None);
        run(&mut gate, &host, 4, Command::Cancel);
        assert_eq!(signals(&host), [FAIL, OK, OK], "it can be repeated");
    }

    /// Envoy may have got the begin call last, whichever answer comes first.
    #[wasm_bindgen_test(unsupported = test)]
    fn a_begin_call_that_was_under_way_is_undone_after_both_answers() {
        for (order, status, expected) in [
            ([(FAIL, 0), (OK, 0)], Some(200), 1),
            ([(FAIL, 0), (OK, 0)], None, 1),
            ([(OK, 0), (FAIL, 0)], Some(200), 2),
            ([(OK, 0), (FAIL, 0)], None, 2),
        ] {
            let host = Fake::default();
            let mut gate = draining(&host);
            run(&mut gate, &host, 3, Command::Cancel);
            for call in order {
                let status = if call.0 == OK { Some(200) } else { status };
                answer(&mut gate, &host, call, status);
            }
            let calls = signals(&host);
            assert_eq!(calls[2..], vec![OK; expected], "{order:?} {status:?}");
            answer(&mut gate, &host, (OK, expected), Some(200));
            assert_eq!(gate.record.read(&host).begin, Step::Due);
            run(&mut gate, &host, 4, Command::Cancel);
            assert_eq!(signals(&host), calls, "there is no drain");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_late_undo_does_not_undo_the_next_drain() {
        for status in [Some(200), None] {
            let host = Fake::default();
            let mut gate = draining(&host);
            answer(&mut gate, &host, (FAIL, 0), Some(200));
            run(&mut gate, &host, 3, Command::Cancel);
            run(&mut gate, &host, 4, Command::Drain);
            assert_eq!(signals(&host), [FAIL, OK, FAIL]);
            answer(&mut gate, &host, (FAIL, 1), Some(200));
            answer(&mut gate, &host, (OK, 0), status);
            assert_eq!(signals(&host), [FAIL, OK, FAIL, FAIL], "{status:?}");
        }
    }
}
