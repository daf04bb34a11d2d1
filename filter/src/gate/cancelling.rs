//! Cancelling a drain: the gate serves again, and the call that told clients to leave is undone.
//!
//! Envoy may get these calls late, and two workers may make them. So no worker makes the begin call
//! again once it is to be undone, and a begin call whose answer comes after that is undone again.

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

impl Gate {
    /// Cancels the gate's drain, and Envoy's if that is possible.
    pub(super) fn cancel_drain(&mut self, host: &impl Control, stream: u32) {
        let (mut record, mut has_begun) = (self.record.read(host), false);
        self.record.update(host, &mut |shared| {
            has_begun = self.policy.begins() && shared.begin != Step::Due;
            if has_begun {
                shared.begin.stop();
            }
            record.clone_from(shared);
        });
        let began = record.began;
        if record.phase == Phase::Serving && !has_begun {
            let why = format!("there is no drain{}", stays_sealed(host));
            return self.respond_plainly(host, stream, 200, &why);
        }
        // Envoy's answer can take a while, and until then the record shows a drain that goes on.
        self.ends.stop_drain(host, &record);
        match self.policy.undo_path().filter(|_| has_begun) {
            Some(path) => {
                let target = self.policy.admin_call("POST", path);
                if !self.calls.send(host, Call::Cancel { stream, began }, target) {
                    self.end_drain(host, stream, began, Undo::Failed);
                }
            }
            None if has_begun && self.policy.begin == BeginCall::DrainListeners => {
                self.end_drain(host, stream, began, Undo::Impossible)
            }
            None => self.end_drain(host, stream, began, Undo::NotNeeded),
        }
    }

    /// Handles Envoy's answer to the call that undoes the begin call of the drain that began at
    /// `began`.
    pub(super) fn on_cancel_response(
        &mut self,
        host: &impl Control,
        stream: u32,
        began: u64,
        outcome: CallOutcome,
    ) {
        let is_undone = outcome == CallOutcome::Success;
        self.end_drain(host, stream, began, if is_undone { Undo::Done } else { Undo::Failed });
    }

    /// Ends the drain that began at `began`. A drain that has begun since goes on.
    fn end_drain(&mut self, host: &impl Control, stream: u32, began: u64, undo: Undo) {
        let (mut ended, mut phase) = ("", Phase::Serving);
        self.record.update(host, &mut |record| {
            ended = match record.phase {
                Phase::Serving => "the drain was over already",
                _ if record.began != began => "another drain has begun since, and goes on",
                _ => "the drain was cancelled",
            };
            if record.began == began {
                record.serve_again(&self.policy);
            }
            if undo == Undo::Done {
                record.begin_is_undone(&self.policy);
            }
            phase = record.phase;
        });
        host.record_metric(self.sources.metrics.state, phase as u64);
        host.log(Level::Warning, &format!("{ended}{}", undo.text()));
        self.ask_counters(host);
        let why = format!("{ended}{}{}", undo.text(), stays_sealed(host));
        self.respond_plainly(host, stream, 200, &why);
    }

    /// Handles the end of a begin call. If it was undone meanwhile, Envoy may have got it after the
    /// call that undid it, so it is undone again.
    pub(super) fn on_begin_response(&mut self, host: &impl Control, outcome: CallOutcome) {
        self.record_call_result(host, CallKind::Begin, outcome);
        let record = self.record.read(host);
        let is_undone = record.phase == Phase::Serving && record.begin == Step::Due;
        if let Some(path) = self.policy.undo_path().filter(|_| is_undone)
            && !self.calls.send(host, Call::UndoAgain, self.policy.admin_call("POST", path))
        {
            self.on_undo_response(host, CallOutcome::Failure);
        }
    }

    /// Handles the end of the call that undoes a late begin call. After a failure, the record keeps
    /// that the begin call was made, so that `DELETE /drain` undoes it.
    pub(super) fn on_undo_response(&mut self, host: &impl Control, outcome: CallOutcome) {
        if outcome == CallOutcome::Success {
            return;
        }
        self.record.update(host, &mut |record| {
            if record.phase == Phase::Serving {
                record.begin = Step::Done;
            }
        });
        host.log(Level::Warning, &format!("a cancelled drain{}", Undo::Failed.text()));
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

    /// Answers the last call with this path, or lets it fail.
    fn answer(gate: &mut Gate, host: &Fake, call: &str, status: Option<u16>) {
        let last = host.calls.borrow().iter().rposition(|other| other == call).expect("a call");
        host.response.set(status);
        let headers = usize::from(status.is_some());
        gate.on_http_call_response(host, last as u32 + 1, headers, 0);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn the_begin_call_is_not_made_again_while_it_is_undone() {
        let host = Fake::default();
        let mut gate = draining(&host);
        run(&mut gate, &host, 3, Command::Cancel);
        assert_eq!(signals(&host), [FAIL, OK]);
        for now in [20_000, 30_000] {
            host.clock.set(now);
            gate.on_tick(&host);
        }
        assert_eq!(signals(&host), [FAIL, OK], "Envoy's main thread is busy");
        answer(&mut gate, &host, OK, None);
        run(&mut gate, &host, 4, Command::Cancel);
        assert_eq!(signals(&host), [FAIL, OK, OK], "it can be repeated");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_begin_call_that_ends_after_it_was_undone_is_undone_again() {
        for status in [Some(200), None] {
            let host = Fake::default();
            let mut gate = draining(&host);
            run(&mut gate, &host, 3, Command::Cancel);
            answer(&mut gate, &host, OK, Some(200));
            assert_eq!(gate.record.read(&host).begin, Step::Due);
            answer(&mut gate, &host, FAIL, status);
            assert_eq!(signals(&host), [FAIL, OK, OK], "{status:?}");
            answer(&mut gate, &host, OK, None);
            run(&mut gate, &host, 4, Command::Cancel);
            assert_eq!(signals(&host), [FAIL, OK, OK, OK], "that one failed: {status:?}");
            answer(&mut gate, &host, OK, Some(200));
            run(&mut gate, &host, 5, Command::Cancel);
            assert_eq!(signals(&host).len(), 4, "there is no drain: {status:?}");
        }
    }
}
