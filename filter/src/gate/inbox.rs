//! Commands that wait until the root context runs them.
//!
//! The SDK hands the answer to a call to the context in whose callback the call was made, and drops
//! it where that context has gone. So a request is read, checked and refused in its stream's own
//! callback, where its headers and its connection are at hand; what it commands is run in a
//! callback of the root, to which the gate sends a message.

use super::http::Command;
use super::root::Gate;
use crate::host::Control;

/// What the gate sends to its own queue. No counter's answer reads like that.
const COMMAND: &[u8] = b"command";

impl Gate {
    /// Where the message cannot be sent, the next tick does without it.
    pub(super) fn admit(&mut self, host: &impl Control, stream: u32, command: Command) {
        self.inbox.push_back((stream, command));
        if !self.census.queue(host).is_some_and(|queue| host.send(queue, COMMAND)) {
            self.set_tick_period(host);
        }
    }

    /// Runs the oldest command, and says whether there was one. No more than one in a callback:
    /// Envoy nests the answers that one callback gives, and each command may answer all that is
    /// held as well.
    pub(super) fn run_next_command(&mut self, host: &impl Control) -> bool {
        let Some((stream, command)) = self.inbox.pop_front() else { return false };
        self.run(host, stream, command);
        // The worker that ticked for the drain may be one whose VM has died.
        self.set_tick_period(host);
        true
    }

    /// The client has gone before its command was run.
    pub(super) fn forget_command(&mut self, stream: u32) {
        self.inbox.retain(|(other, _)| *other != stream);
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
    fn the_root_runs_commands_in_their_order() {
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
    fn what_is_refused_never_gets_there() {
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
    fn a_client_that_has_gone_commands_nothing() {
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
    fn a_call_that_fails_has_no_headers_to_read() {
        let host = Fake::default();
        let root = gate(&host);
        let _signal = ask(&root, &host, 2, "POST", "/drain_listeners?graceful");
        root.on_queue_ready(&host, QUEUE);
        let call = host.calls.borrow().len() as u32;
        root.on_http_call_response(&host, call, 0, 0);
        assert_eq!(answers(&host), [(2, 502)]);
    }
}
