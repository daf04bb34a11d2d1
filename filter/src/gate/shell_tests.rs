//! The shell with a fake Envoy: callbacks, contexts, and the order of calls and answers.

use laststream_drain::requests::{Client, Command, Event};
use laststream_drain::state::{Record, Shared, Step, StreamNumber};
use laststream_drain::timing::AFTER_DEADLINE;
use wasm_bindgen_test::wasm_bindgen_test;

use super::policy::GatePolicy;
use super::{Gate, Phase};
use crate::config::wire::{self, Begin, BeginCall};
use crate::fake::Fake;
use crate::host::Control as _;
use crate::lifecycle::{Flow, HttpStream, Root};
use crate::shared_text::{parse_or_default, to_text};

const QUEUE: u32 = 1;

fn gate(host: &Fake) -> Root {
    host.properties.borrow_mut().insert("destination/address", "127.0.0.1:16091");
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
    host.properties.borrow_mut().insert("destination/address", "10.0.0.1:16091");
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
    let end = 10_000 + 23_000 + AFTER_DEADLINE.0;
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

fn with_interval(host: &Fake) -> Root {
    let mut root = Root::new(1);
    let text = br#"{"role": "gate", "gate": {"evaluate_every_ms": 5000}}"#;
    assert!(root.on_configure(host, text), "{:?}", host.lines);
    root
}

#[wasm_bindgen_test(unsupported = test)]
fn a_gate_with_an_interval_evaluates_while_it_serves() {
    let host = Fake::default();
    host.clock.set(10_000);
    let root = with_interval(&host);
    assert_eq!((host.period.get(), host.metric_of("gate_count_")), (5_000, 0));
    root.on_tick(&host);
    assert_eq!(host.metric_of("gate_count_"), 1, "one of the words is true");
    assert_eq!(host.calls.borrow().len(), 1, "Envoy is asked");
    host.clock.set(12_000);
    root.on_tick(&host);
    assert_eq!(host.period.get(), 5_000, "answered, or given up");
}

#[wasm_bindgen_test(unsupported = test)]
fn one_worker_evaluates_for_all() {
    let host = Fake::default();
    host.clock.set(10_000);
    let roots = [with_interval(&host), with_interval(&host)];
    roots.iter().for_each(|root| root.on_tick(&host));
    assert_eq!(host.calls.borrow().len(), 1);
}

#[wasm_bindgen_test(unsupported = test)]
fn by_default_a_serving_gate_does_not_tick() {
    let host = Fake::default();
    gate(&host);
    assert_eq!(host.period.get(), 0);
    assert_eq!(host.metric_of("gate_deadline_seconds"), 23);
}

/// The variable is in the proxy's environment, and each worker reads it with the request that
/// begins a drain. A longer grace period changes nothing.
#[wasm_bindgen_test(unsupported = test)]
fn the_deadline_is_earlier_in_a_pod_with_a_shorter_grace_period() {
    for (state, deadline) in [("20 7", 13), ("70 7", 23), ("7 7", 2), ("- 7", 23)] {
        let host = Fake::default();
        let root = gate(&host);
        host.properties.borrow_mut().insert("filter_state/laststream.gate_grace", state);
        host.clock.set(10_000);
        let mut stream = ask(&root, &host, 2, "POST", "/drain");
        root.on_queue_ready(&host, QUEUE);
        let line = format!("the drain begins: deadline in {deadline}000 ms");
        assert!(host.lines.borrow().iter().any(|logged| logged.contains(&line)), "{state}");
        assert_eq!(host.metric_of("gate_deadline_seconds"), deadline, "{state}");
        stream.on_delete(&host);
    }
}

const FAIL: &str = "prometheus_stats POST /healthcheck/fail";
const OK: &str = "prometheus_stats POST /healthcheck/ok";

/// A gate whose drain has begun, and whose begin call is not answered yet.
fn draining(host: &Fake) -> Gate {
    let begin = Begin { call: BeginCall::FailHealthChecks, ..Begin::default() };
    let policy = GatePolicy::new(wire::Gate { begin, ..wire::Gate::default() });
    let mut gate = Gate::new(host, 1, policy).expect("metrics");
    host.clock.set(10_000);
    run(&mut gate, host, 2, Command::Drain);
    assert_eq!(signals(host), [FAIL]);
    gate
}

fn run(gate: &mut Gate, host: &Fake, stream: u32, command: Command) {
    let client = Client { has_access: true, longest_drain: None };
    let stream = StreamNumber(stream);
    gate.events.push_back(Event::Request { stream, command, client });
    gate.on_tick(host);
}

fn shared(gate: &Gate, host: &Fake) -> Shared {
    parse_or_default(host.get_shared_data(&gate.key).map(|(text, _)| text).as_deref())
}

fn record(gate: &Gate, host: &Fake) -> Record {
    shared(gate, host).record
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

/// Another worker begins the drain between the read of the record and the store of it.
#[wasm_bindgen_test(unsupported = test)]
fn a_store_that_another_worker_overtakes_is_made_again() {
    let other = Fake::default();
    let begun = shared(&draining(&other), &other);
    let host = Fake::default();
    let mut gate = Gate::new(&host, 1, GatePolicy::new(wire::Gate::default())).expect("metrics");
    host.clock.set(20_000);
    host.overtakes.borrow_mut().insert(gate.key.clone(), to_text(&begun).into_bytes());
    run(&mut gate, &host, 2, Command::Force("incident".into()));
    let stored = record(&gate, &host);
    assert_eq!((stored.phase, stored.began), (Phase::Forced, begun.record.began));
    assert!(host.overtakes.borrow().is_empty());
}

#[wasm_bindgen_test(unsupported = test)]
fn the_begin_call_is_not_made_again_while_it_is_undone() {
    let host = Fake::default();
    let mut gate = draining(&host);
    run(&mut gate, &host, 3, Command::Cancel);
    assert_eq!(signals(&host), [FAIL, OK]);
    assert_eq!(record(&gate, &host).phase, Phase::Serving, "no last call can be made");
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
        assert_eq!(record(&gate, &host).begin, Step::Due);
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
