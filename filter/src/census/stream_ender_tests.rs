//! A counter that ends its streams, on a fake Envoy.

use laststream_drain::counts::{Endable, Order, Request};
use laststream_drain::state::{Kinds, Millis, Moment, Queue, StreamKind};
use wasm_bindgen_test::wasm_bindgen_test;

use super::{MOST_ACTIONS, MOST_LOOKS, jittered, stop_ends};
use crate::census::frames::{CLOSE, FRAMES};
use crate::census::messages::parse_reply;
use crate::fake::Fake;
use crate::host::Control as _;
use crate::lifecycle::{HttpStream, Root};
use crate::shared_text::to_text;

const GET: &[(&str, &str)] = &[(":method", "GET"), (":path", "/")];
const POST: &[(&str, &str)] = &[(":method", "POST"), (":path", "/")];
const WEBSOCKET: &[(&str, &str)] = &[(":method", "GET"), ("upgrade", "websocket")];

/// A counter with queue 2, which replies to queue 1.
struct Counter {
    host: Fake,
    root: Root,
    streams: Vec<HttpStream>,
}

impl Counter {
    fn new(configuration: &str) -> Self {
        let host = Fake::default();
        host.register_queue("gate").expect("a queue");
        host.clock.set(10_000);
        let mut root = Root::new(1);
        assert!(root.on_configure(&host, configuration.as_bytes()), "{:?}", host.lines);
        root.on_tick(&host);
        Self { host, root, streams: Vec::new() }
    }

    /// Begins a stream; the first has the context 10.
    fn begin(&mut self, headers: &[(&str, &str)]) -> u32 {
        let context = 10 + self.streams.len() as u32;
        self.host.request(headers);
        let mut stream = self.root.create_stream(context);
        stream.on_request_headers(&self.host);
        self.streams.push(stream);
        context
    }

    fn respond(&self, context: u32, status: u64) {
        let key = (context, "response\0code".into());
        self.host.set_properties.borrow_mut().insert(key, status.to_le_bytes().to_vec());
    }

    /// A request that is sent now, with an order of the drain that began at 9,000.
    fn order(&self, kinds: &[StreamKind], count: u64) -> Request {
        let sent_at = Moment(self.host.clock.get());
        let order = Order {
            count,
            kinds: Kinds::of(kinds),
            changing: false,
            began_before: sent_at,
            retry_after: [1, 10],
            grace: Millis(2_000),
            look_since: sent_at,
            drain: Moment(9_000),
        };
        Request { reply_to: Queue(1), round: 7, sent_at, order: Some(order), ..Request::default() }
    }

    fn send(&self, request: Request) -> Endable {
        self.host.enqueue(2, to_text(&request).as_bytes());
        self.root.on_queue_ready(&self.host, 2);
        let message = self.host.dequeue(1).expect("a reply");
        let (reply, _) = parse_reply(&message).expect("a reply");
        assert_eq!(reply.round, 7);
        reply.endable.expect("an answer to the order")
    }

    /// The property that the frame filter reads.
    fn close(&self, socket: u32) -> Option<Vec<u8>> {
        self.host.set_properties.borrow().get(&(socket, CLOSE.to_owned())).cloned()
    }

    fn answered(&self) -> Vec<u32> {
        self.host.answers.borrow().iter().map(|(context, ..)| *context).collect()
    }
}

/// The request with another order.
fn with(request: Request, change: impl FnOnce(&mut Order)) -> Request {
    let mut order = request.order.expect("an order");
    change(&mut order);
    Request { order: Some(order), ..request }
}

const KINDS: &str = r#"{"count": {"kinds": true}}"#;

#[wasm_bindgen_test(unsupported = test)]
fn the_oldest_that_match_are_ended_once() {
    let mut counter = Counter::new(KINDS);
    let [first, second, third] = [GET, GET, GET].map(|headers| counter.begin(headers));
    let changing = counter.begin(POST);
    counter.host.clock.set(12_000);
    let request = counter.order(&[StreamKind::Waiting], 2);
    let reply = counter.send(request);
    assert_eq!(reply.streams, 1);
    assert_eq!(counter.answered(), [first, second]);
    let reply = counter.send(request);
    assert_eq!((reply.streams, counter.answered().len()), (0, 3), "{third} only");
    assert_eq!(counter.send(request).streams, 0);
    assert_eq!(counter.answered().len(), 3, "none twice, and not {changing}");
    assert_eq!(counter.host.metric_of("evictions_total"), 3);
    assert_eq!(counter.host.metric_of("evictions_waiting"), 3);
    counter.send(with(request, |order| order.changing = true));
    assert_eq!(counter.answered().last(), Some(&changing), "asked for");
    assert_eq!(counter.host.metric_of("in_flight"), 4, "the count is Envoy's to end");
    counter.streams.iter_mut().for_each(|stream| stream.on_delete(&counter.host));
    assert_eq!(counter.host.metric_of("in_flight"), 0);
}

#[wasm_bindgen_test(unsupported = test)]
fn an_interim_response_is_no_response() {
    let mut counter = Counter::new(KINDS);
    let [asked, answered] = [GET, GET].map(|headers| counter.begin(headers));
    counter.respond(asked, 100);
    counter.respond(answered, 200);
    counter.host.clock.set(12_000);
    counter.send(counter.order(&[StreamKind::Waiting, StreamKind::Other], 9));
    assert_eq!(counter.answered(), [asked], "with 503; the other is reset");
    assert_eq!(counter.host.metric_of("evictions_waiting"), 1);
    assert_eq!(counter.host.metric_of("evictions_other"), 1);
}

#[wasm_bindgen_test(unsupported = test)]
fn young_late_and_long_lived_streams_are_left_alone() {
    let mut counter = Counter::new(
        r#"{"count": {"kinds": true, "long_lived":
        {"headers": [{"name": "x-long"}]}}}"#,
    );
    counter.begin(GET);
    counter.begin(&[(":method", "GET"), ("x-long", "1")]);
    counter.host.clock.set(11_999);
    assert_eq!(counter.send(counter.order(&[StreamKind::Waiting], 9)).streams, 2, "young");
    counter.host.clock.set(12_000);
    let request = counter.order(&[StreamKind::Waiting], 9);
    let before = with(request, |order| order.began_before = Moment(10_000));
    assert_eq!(counter.send(before).streams, 0);
    let stale = Request { sent_at: Moment(11_000), ..request };
    assert_eq!(counter.send(stale).streams, 2, "of a state of the drain that may be over");
    assert!(counter.answered().is_empty());
    assert_eq!(counter.send(Request { plain_only: true, ..request }).streams, 0);
    assert_eq!(counter.answered(), [10]);
}

#[wasm_bindgen_test(unsupported = test)]
fn what_a_cancelled_drain_has_ordered_is_not_ended() {
    let mut counter = Counter::new(KINDS);
    for _ in 0..2 * MOST_ACTIONS {
        counter.begin(GET);
    }
    counter.host.clock.set(12_000);
    let order = counter.order(&[StreamKind::Waiting], 2 * MOST_ACTIONS);
    stop_ends(&counter.host, Moment(9_500));
    counter.send(order);
    assert_eq!(counter.answered().len() as u64, MOST_ACTIONS, "that was the drain of another gate");
    stop_ends(&counter.host, Moment(9_000));
    counter.root.on_queue_ready(&counter.host, 2);
    counter.host.dequeue(1);
    assert_eq!(counter.send(order).streams, MOST_ACTIONS);
    assert_eq!(counter.answered().len() as u64, MOST_ACTIONS, "neither the rest nor another one");
}

#[wasm_bindgen_test(unsupported = test)]
fn streams_whose_response_has_begun_are_reset() {
    let mut counter = Counter::new(KINDS);
    let [download, waiting, events, socket] =
        [GET, GET, &[(":method", "GET"), ("accept", "text/event-stream")], WEBSOCKET]
            .map(|headers| counter.begin(headers));
    counter.host.clock.set(20_000);
    for context in [download, events] {
        counter.respond(context, 200);
    }
    counter.respond(socket, 101);
    assert_eq!(counter.send(counter.order(&[StreamKind::Waiting], 9)).streams, 0);
    assert_eq!((counter.answered(), counter.host.resets.borrow().len()), (vec![waiting], 0));
    let kinds = [StreamKind::Other, StreamKind::EventStream, StreamKind::Websocket];
    counter.send(counter.order(&kinds, 9));
    assert_eq!(*counter.host.resets.borrow(), [download, events, socket]);
    assert_eq!(counter.host.metric_of("evictions_other"), 1);
}

#[wasm_bindgen_test(unsupported = test)]
fn a_frame_filter_gets_its_grace_period() {
    let mut counter = Counter::new(KINDS);
    let sockets = [WEBSOCKET; 2].map(|headers| counter.begin(headers));
    for socket in sockets {
        counter.respond(socket, 101);
        let key = (socket, FRAMES.into());
        counter.host.set_properties.borrow_mut().insert(key, vec![]);
    }
    counter.host.clock.set(20_000);
    assert_eq!(counter.send(counter.order(&[StreamKind::Websocket], 9)).streams, 0);
    for socket in sockets {
        assert_eq!(counter.close(socket), Some(b"21000".to_vec()), "half of it");
    }
    counter.streams[0].on_delete(&counter.host);
    for (now, resets, ticks) in [(21_999, 0, true), (22_000, 1, false), (22_100, 1, false)] {
        counter.host.clock.set(now);
        counter.root.on_tick(&counter.host);
        assert_eq!(counter.host.resets.borrow().len(), resets, "at {now}");
        assert_eq!(counter.host.period.get() > 0, ticks, "at {now}");
    }
    assert_eq!(counter.host.metric_of("evictions_websocket"), 2, "each once");
}

#[wasm_bindgen_test(unsupported = test)]
fn silent_websockets_are_reset_as_fast_as_they_are_ordered() {
    let mut counter = Counter::new(KINDS);
    for _ in 0..1_024 {
        let socket = counter.begin(WEBSOCKET);
        counter.respond(socket, 101);
        let key = (socket, FRAMES.into());
        counter.host.set_properties.borrow_mut().insert(key, vec![]);
    }
    for now in [20_000, 20_050] {
        counter.host.clock.set(now);
        let request = counter.order(&[StreamKind::Websocket], 512);
        counter.host.enqueue(2, to_text(&request).as_bytes());
        counter.host.period.set(if now == 20_000 { 0 } else { 77 });
        for _ in 0..8 {
            counter.root.on_queue_ready(&counter.host, 2);
        }
    }
    assert_eq!(counter.host.period.get(), 77, "a second order does not put the tick off");
    let mut now = 22_050;
    while counter.host.resets.borrow().len() < 1_024 {
        counter.host.clock.set(now);
        counter.root.on_tick(&counter.host);
        now += u64::from(counter.host.period.get());
        assert!(now <= 22_250, "{}", counter.host.resets.borrow().len());
    }
    assert_eq!(counter.host.period.get(), 0);
}

#[wasm_bindgen_test(unsupported = test)]
fn a_refused_upgrade_is_not_left_to_the_frame_filter() {
    let mut counter = Counter::new(KINDS);
    let socket = counter.begin(WEBSOCKET);
    counter.respond(socket, 403);
    let key = (socket, FRAMES.into());
    counter.host.set_properties.borrow_mut().insert(key, vec![]);
    counter.host.clock.set(20_000);
    counter.send(counter.order(&[StreamKind::Websocket], 1));
    assert_eq!(*counter.host.resets.borrow(), [socket]);
}

#[wasm_bindgen_test(unsupported = test)]
fn no_callback_ends_more_streams_than_the_stack_allows() {
    let mut counter = Counter::new(KINDS);
    for _ in 0..200 {
        counter.begin(GET);
    }
    counter.host.clock.set(20_000);
    let request = counter.order(&[StreamKind::Waiting], 150);
    for _ in 0..2 {
        let part = with(request, |order| order.count = 75);
        counter.host.enqueue(2, to_text(&part).as_bytes());
    }
    let mut before = 0;
    for expected in [MOST_ACTIONS as usize, MOST_ACTIONS as usize, 22, 0] {
        // Envoy calls once for each message; the loop may find more.
        counter.root.on_queue_ready(&counter.host, 2);
        let answered = counter.answered().len();
        assert_eq!(answered - before, expected);
        before = answered;
    }
    let mut once = counter.answered();
    once.dedup();
    assert_eq!(once, (10..160).collect::<Vec<_>>(), "the oldest, each once");
}

#[wasm_bindgen_test(unsupported = test)]
fn an_order_ends_when_only_young_streams_are_left() {
    let mut counter = Counter::new(KINDS);
    counter.begin(GET);
    counter.host.clock.set(19_000);
    for _ in 0..100 {
        counter.begin(GET);
    }
    counter.host.clock.set(20_000);
    counter.send(counter.order(&[StreamKind::Waiting], 100));
    assert_eq!(counter.answered(), [10]);
    assert_eq!(counter.host.dequeue(2), None, "the rest of an order");
}

#[wasm_bindgen_test(unsupported = test)]
fn without_kinds_nothing_is_read_or_ended() {
    let mut counter = Counter::new("{}");
    let reads = counter.host.reads.get();
    counter.begin(GET);
    assert_eq!(counter.host.reads.get(), reads);
    counter.host.clock.set(20_000);
    assert_eq!(counter.send(counter.order(&[StreamKind::Waiting], 9)).streams, 0);
    assert!(counter.answered().is_empty());
}

#[wasm_bindgen_test(unsupported = test)]
fn retries_are_spread_over_the_range() {
    let mut counts = [0; 10];
    for context in 0..10_000 {
        let seconds = jittered([1, 10], context, 7);
        counts[seconds as usize - 1] += 1;
    }
    assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    assert_eq!(jittered([5, 5], 1, 2), 5);
    assert_eq!(jittered([9, 5], 1, 2), 9, "never below the range");
    assert!(jittered([0, u64::MAX], 1, 2) > 0);
}

#[wasm_bindgen_test(unsupported = test)]
fn responses_behind_many_waiting_requests_are_found() {
    let mut counter = Counter::new(KINDS);
    for _ in 0..2 * MOST_LOOKS + 100 {
        counter.begin(GET);
    }
    for _ in 0..10 {
        let context = counter.begin(GET);
        counter.respond(context, 200);
    }
    counter.host.clock.set(12_000);
    let endable = |count| counter.send(counter.order(&[StreamKind::Other], count)).streams;
    assert_eq!([0, 0, 0].map(endable), [0, 0, 10], "each pass goes on where the last one ended");
    assert_eq!((endable(9), counter.host.metric_of("evictions_other")), (1, 9));
}

#[wasm_bindgen_test(unsupported = test)]
fn the_reply_says_how_many_requests_no_pass_has_looked_at() {
    let mut counter = Counter::new(KINDS);
    for _ in 0..3 * MOST_LOOKS {
        let context = counter.begin(GET);
        counter.respond(context, 200);
    }
    for _ in 0..10 {
        counter.begin(GET);
    }
    counter.host.clock.set(12_000);
    let request = counter.order(&[StreamKind::Waiting], 0);
    for (pass, (endable, unseen)) in
        [(2_058, 2_058), (1_034, 1_034), (10, 10), (10, 0)].into_iter().enumerate()
    {
        let reply = counter.send(request);
        assert_eq!((reply.streams, reply.unseen), (endable, unseen), "pass {pass}");
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn a_gate_that_may_end_few_streams_does_not_stop_another_from_finding_responses() {
    let mut counter = Counter::new(KINDS);
    for _ in 0..10 {
        counter.begin(GET);
    }
    counter.host.clock.set(11_000);
    for _ in 0..2 * MOST_LOOKS {
        counter.begin(GET);
    }
    let response = counter.begin(GET);
    counter.respond(response, 200);
    counter.host.clock.set(20_000);
    let all = counter.order(&[StreamKind::Other], 0);
    let mut found = Vec::new();
    for pass in 0..3 {
        let now = 20_010 + pass * 10;
        counter.host.clock.set(now);
        found.push(counter.send(all).streams);
        let few = with(all, |order| {
            (order.began_before, order.look_since) = (Moment(10_500), Moment(now))
        });
        assert_eq!(counter.send(few).unseen, 0, "it has looked at all of its own");
    }
    assert_eq!(found, [0, 0, 1]);
}
