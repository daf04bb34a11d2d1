//! Commands: enqueued in the callback of their HTTP context, and run in one of the root context.
//!
//! The SDK passes the answer of a call to the context in whose callback the call was made, and
//! drops it if that context has gone. Only the root context outlives the calls of a command.

use super::gate::Gate;
use super::http::Command;
use super::phase::Phase;
use super::policy::Policy;
use super::query_pacing::QueryPacing;
use super::signals::{IN_FLIGHT, signal_refusal};
use super::waiting::{Needs, Waiter, WaitsFor};
use crate::host::{Control, Level};

/// The message that the gate sends to its own queue. No reply of a counter has this text.
const COMMAND: &[u8] = b"command";
/// The time for which a status waits for the counters; milliseconds. If it needs Envoy's answer, it
/// waits for [`READY_WAIT`].
const STATUS_WAIT: u64 = 50;
/// A hook is held up to the deadline of its drain plus this, because the last call may be under
/// way, or the drain may have been cancelled or have run out; milliseconds.
const AFTER_DEADLINE: u64 = 5_000;
/// The time for which a signal waits until every counter makes its streams check the latch;
/// milliseconds.
const SIGNAL_WAIT: u64 = 1_000;
/// The time for which a request for readiness waits for fresh counts if Envoy answers quickly, and
/// the longest such time; milliseconds. `pilot-agent wait` waits 500 ms by default, the command
/// line 5 s.
const READY_WAIT: u64 = 400;
const MOST_READY_WAIT: u64 = 4_000;
const ALREADY_OPEN: &str =
    "no drain begins: the one before opened the gate; DELETE /drain closes it";

impl Gate {
    /// Enqueues a command for the root context. If the message cannot be sent, the next tick runs
    /// the command.
    pub(super) fn enqueue_command(&mut self, host: &impl Control, stream: u32, command: Command) {
        self.commands.push_back((stream, command));
        let queue = self.sources.census.queue_or_register(host);
        if !queue.is_some_and(|queue| host.enqueue(queue, COMMAND)) {
            self.set_tick_period(host);
        }
    }

    /// Runs the oldest command, and returns whether there was one. Only one command runs in a
    /// callback, because Envoy nests the answers of one callback, and each command may also answer
    /// all held requests.
    pub(super) fn run_next_command(&mut self, host: &impl Control) -> bool {
        let Some((stream, command)) = self.commands.pop_front() else { return false };
        self.run_command(host, stream, command);
        // The VM of the worker that ticked for the drain may have died.
        self.set_tick_period(host);
        true
    }

    fn run_command(&mut self, host: &impl Control, stream: u32, command: Command) {
        match command {
            Command::Status => self.hold_for_counts(host, stream, WaitsFor::Counts),
            Command::Streams(limit) => self.hold_for_counts(host, stream, WaitsFor::Listing(limit)),
            Command::Ready => self.respond_or_hold(host, stream),
            Command::PreStop(0) => {
                self.begin_drain(host);
                self.respond_or_hold(host, stream);
            }
            Command::PreStop(wait) => self.hold_hook(host, stream, wait),
            Command::Drain => {
                self.begin_drain(host);
                let is_open = self.record.read(host).phase.is_unconditionally_open();
                let reason = if is_open { ALREADY_OPEN } else { "the drain has begun" };
                self.respond_plainly(host, stream, 202, reason);
            }
            Command::Cancel => self.cancel_drain(host, stream),
            Command::Force(why) => self.force_open(host, stream, &why),
            Command::Signal { path, is_graceful } => {
                self.signal_or_hold(host, stream, path, is_graceful)
            }
        }
    }

    fn begin_drain(&mut self, host: &impl Control) {
        let (now, begun) = (host.monotonic_time(), self.sources.counted_streams_begun(host));
        let mut began = false;
        self.record.update(host, &mut |record| began = record.drain(&self.policy, now, begun));
        if began {
            let Policy { deadline, quiet, .. } = &self.policy;
            host.log(
                Level::Warning,
                &format!("the drain begins: deadline in {deadline} ms, quiet for {quiet} ms"),
            );
            host.record_metric(self.sources.metrics.state, Phase::Draining as u64);
            // The quiet period begins now, not with the first tick.
            self.ask_counters(host);
            self.evaluate_and_answer(host);
        }
    }

    fn hold_hook(&mut self, host: &impl Control, stream: u32, wait: u64) {
        let now = host.monotonic_time();
        self.begin_drain(host);
        // Another hook may have begun the drain, long before this one.
        let record = self.record.read(host);
        let latest = record.deadline.max(now).saturating_add(AFTER_DEADLINE);
        let until = now.saturating_add(wait).min(latest);
        // While streams are in flight, the tick asks for fresh counts.
        self.hold_for_opening(stream, WaitsFor::Opening, until);
        if record.phase != Phase::Draining {
            self.ask_counters(host);
            self.evaluate_and_answer(host);
        }
    }

    fn force_open(&mut self, host: &impl Control, stream: u32, why: &str) {
        let now = host.monotonic_time();
        let begun = self.sources.counted_streams_begun(host);
        self.record.update(host, &mut |record| record.force(now, begun, why));
        host.increment_metric(self.sources.metrics.forced, 1);
        host.record_metric(self.sources.metrics.state, Phase::Forced as u64);
        host.log(Level::Critical, &format!("the gate was forced open: {why}"));
        self.respond_plainly(host, stream, 200, "the gate is open");
    }

    fn signal_or_hold(
        &mut self,
        host: &impl Control,
        stream: u32,
        path: String,
        is_graceful: bool,
    ) {
        let now = host.monotonic_time();
        let snapshot = self.evaluate(host);
        if is_graceful || snapshot.record.phase.is_unconditionally_open() {
            self.send_signal(host, stream, &path, false);
        } else if snapshot.observed.holding > 0 && signal_refusal(&snapshot) == Some(IN_FLIGHT) {
            self.refuse_signal(host, &snapshot, stream, IN_FLIGHT);
        } else {
            // Envoy is queried again once the latch is closed, so a valid count is enough to try.
            let needs = Needs { query: 0, ..self.sources.next_answers() };
            let until = now
                .saturating_add(SIGNAL_WAIT)
                .saturating_add(QueryPacing::read(host).longest_wait());
            let waits_for = WaitsFor::Signal;
            self.waiting.hold(Waiter { stream, waits_for, until, needs, path });
            // The counters are asked after the signal is held, because a held signal makes every
            // counter check the latch.
            self.ask_counters(host);
            self.evaluate_and_answer(host);
        }
    }

    /// Responds at once if the gate is certainly closed, or unconditionally open. Otherwise holds
    /// the request until fresh counts arrive.
    fn respond_or_hold(&mut self, host: &impl Control, stream: u32) {
        let snapshot = self.evaluate(host);
        if snapshot.may_open() && !snapshot.record.phase.is_unconditionally_open() {
            let wait = READY_WAIT.saturating_add(QueryPacing::read(host).longest_wait());
            let until = snapshot.now.saturating_add(wait.min(MOST_READY_WAIT));
            self.hold_for_opening(stream, WaitsFor::Ready, until);
            self.ask_counters(host);
            self.evaluate_and_answer(host);
        } else {
            self.respond_ready(host, stream, &snapshot, snapshot.is_open());
        }
    }

    /// Holds a request until counts arrive. Replies to a request that was just sent are good enough
    /// for a status. Envoy's answer is needed only if the count is zero, or if there is none yet.
    pub(super) fn hold_for_counts(
        &mut self,
        host: &impl Control,
        stream: u32,
        waits_for: WaitsFor,
    ) {
        let now = host.monotonic_time();
        let joins_round = waits_for == WaitsFor::Counts && self.sources.census.has_just_asked(now);
        let needs_envoy =
            self.sources.samples.is_new() || self.sources.holding(host, &self.policy) == 0;
        let needs = Needs {
            round: self.sources.census.round() + u64::from(!joins_round),
            query: if needs_envoy { self.sources.samples.next_query() } else { 0 },
        };
        let until = now.saturating_add(if needs_envoy { READY_WAIT } else { STATUS_WAIT });
        self.waiting.hold(Waiter { stream, waits_for, until, needs, path: String::new() });
        if !joins_round {
            self.ask_counters(host);
        }
        let survey = self.sources.survey(host, &self.policy);
        let record = self.record.read(host);
        self.query_envoy_stats(host, now, &record, &survey);
    }

    /// Holds a request for the opening of the gate. The response must be true when it is sent, so
    /// it needs answers to later queries of the counters and Envoy.
    fn hold_for_opening(&mut self, stream: u32, waits_for: WaitsFor, until: u64) {
        let needs = self.sources.next_answers();
        self.waiting.hold(Waiter { stream, waits_for, until, needs, path: String::new() });
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use crate::fake::Fake;
    use crate::lifecycle::{Flow, HttpStream, Root};

    const QUEUE: u32 = 1;

    fn gate(host: &Fake) -> Root {
        host.properties.borrow_mut().insert("destination/address", "127.0.0.1:15091");
        let mut root = Root::new(1);
        assert!(root.on_configure(host, br#"{"role": "gate"}"#), "{:?}", host.lines);
        root
    }

    fn ask(root: &Root, host: &Fake, stream: u32, method: &str, path: &str) -> HttpStream {
        host.request(&[(":method", method), (":path", path), (":authority", "localhost")]);
        let mut stream = root.create_stream(stream);
        assert_eq!(stream.on_request_headers(host), Flow::Stop);
        stream
    }

    fn answers(host: &Fake) -> Vec<(u32, u16)> {
        host.answers.borrow().iter().map(|(stream, status, _)| (*stream, *status)).collect()
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn the_root_context_runs_commands_in_order() {
        let host = Fake::default();
        let root = gate(&host);
        let _streams = [(2, "POST"), (3, "DELETE"), (4, "POST")]
            .map(|(stream, method)| ask(&root, &host, stream, method, "/drain"));
        assert!(
            host.answers.borrow().is_empty() && host.calls.borrow().is_empty(),
            "no call is made in a stream's callback"
        );
        for expected in [&[(2, 202)][..], &[(2, 202), (3, 200)], &[(2, 202), (3, 200), (4, 202)]] {
            root.on_queue_ready(&host, QUEUE);
            assert_eq!(answers(&host), expected, "one command in each callback");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn refused_requests_are_not_enqueued() {
        let host = Fake::default();
        let root = gate(&host);
        let _wrong = [("GET", "/nothing"), ("PUT", "/drain"), ("POST", "/force")]
            .map(|(method, path)| ask(&root, &host, 2, method, path));
        host.properties.borrow_mut().insert("destination/address", "10.0.0.1:15091");
        let _stranger = ask(&root, &host, 3, "POST", "/force?reason=x");
        host.request(&[
            (":method", "POST"),
            (":path", "/drain"),
            (":authority", "localhost"),
            ("origin", "null"),
        ]);
        let mut page = root.create_stream(4);
        page.on_request_headers(&host);
        assert_eq!(answers(&host), [(2, 404), (2, 405), (2, 400), (3, 403), (4, 403)]);
        root.on_queue_ready(&host, QUEUE);
        assert_eq!(answers(&host).len(), 5);
        assert_eq!(host.metric_of("forced"), 0);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn the_command_of_a_client_that_has_gone_is_dropped() {
        let host = Fake::default();
        let root = gate(&host);
        let mut gone = ask(&root, &host, 2, "POST", "/force?reason=x");
        let _stays = ask(&root, &host, 3, "POST", "/drain");
        gone.on_delete(&host);
        gone.on_delete(&host);
        root.on_queue_ready(&host, QUEUE);
        root.on_queue_ready(&host, QUEUE);
        assert_eq!(answers(&host), [(3, 202)]);
        assert_eq!(host.metric_of("forced"), 0);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn without_a_queue_the_tick_runs_commands() {
        let host = Fake::default();
        let root = gate(&host);
        host.has_no_queues.set(true);
        let _streams = [2, 3].map(|stream| ask(&root, &host, stream, "POST", "/drain"));
        assert!(host.period.get() > 0, "a tick comes");
        assert!(host.answers.borrow().is_empty());
        root.on_tick(&host);
        assert!(host.period.get() > 0, "and another");
        root.on_tick(&host);
        assert_eq!(answers(&host), [(2, 202), (3, 202)]);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_hook_is_held_up_to_the_deadline_of_the_drain_that_it_has_found() {
        let host = Fake::default();
        let root = gate(&host);
        let mut streams = Vec::new();
        let requests = [
            (10_000, "POST", "/drain"),
            (12_000, "GET", "/prestop?wait"),
            (13_000, "DELETE", "/drain"),
        ];
        for ((time, method, path), stream) in requests.into_iter().zip(2..) {
            host.clock.set(time);
            streams.push(ask(&root, &host, stream, method, path));
            root.on_queue_ready(&host, QUEUE);
        }
        let end = 10_000 + 23_000 + super::AFTER_DEADLINE;
        for (time, expected) in [(end - 1, &[][..]), (end, &[(3, 503)])] {
            host.clock.set(time);
            root.on_tick(&host);
            assert_eq!(answers(&host)[2..], *expected, "{time}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn headers_of_a_failed_call_are_not_read() {
        let host = Fake::default();
        let root = gate(&host);
        let _signal = ask(&root, &host, 2, "POST", "/drain_listeners?graceful");
        root.on_queue_ready(&host, QUEUE);
        let call = host.calls.borrow().len() as u32;
        root.on_http_call_response(&host, call, 0, 0);
        assert_eq!(answers(&host), [(2, 502)]);
    }
}
