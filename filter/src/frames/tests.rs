//! The frame filter on a fake Envoy.

use laststream_drain::state::Moment;
use wasm_bindgen_test::wasm_bindgen_test;

use super::{HttpStream, Root};
use crate::census::frames::{CLOSE, FRAMES, notify_frame_filters, register_frame_filter};
use crate::fake::Fake;
use crate::host::Body::{self, Request, Response};
use crate::host::{Control as _, Host as _};

const CONFIGURATION: &[u8] = br#"{"role": "websocket"}"#;
/// The queue of the only frame filter.
const QUEUE: u32 = 1;

const CLOSE_TO_CLIENT: &[u8] = &[0x88, 2, 0x03, 0xe9];
const CLOSE_TO_UPSTREAM: &[u8] = &[0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe9];
const PING_TO_UPSTREAM: &[u8] = &[0x89, 0x80, 0, 0, 0, 0];
/// A text of the server, and one of the client.
const TEXT: &[u8] = &[0x81, 2, b'h', b'i'];
const MASKED_TEXT: &[u8] = &[0x81, 0x82, 0, 0, 0, 0, b'h', b'i'];

/// An Envoy, the frame filter, and one stream.
struct Scene {
    host: Fake,
    root: Root,
    stream: HttpStream,
}

impl Scene {
    /// A stream with these request headers, answered with this status.
    fn answered(headers: &[(&str, &str)], code: &'static str) -> Self {
        let host = Fake::with_headers(headers);
        host.clock.set(10_000);
        let mut root = Root::new(1);
        assert!(root.on_configure(&host, CONFIGURATION), "{:?}", host.lines);
        root.on_tick(&host);
        let mut stream = root.create_stream(2);
        stream.on_request_headers(&host);
        host.properties.borrow_mut().insert("response/code", code);
        Self { host, root, stream }
    }

    fn websocket() -> Self {
        Self::answered(&[("upgrade", "WebSocket")], "\u{65}\0\0\0\0\0\0\0")
    }

    /// Asks for the end of the stream, as a gate and a counter do.
    fn end(&self) {
        let until = self.host.clock.get() + 5_000;
        notify_frame_filters(&self.host, Moment(until));
        self.root.on_queue_ready(&self.host, QUEUE);
        let patient_until = self.host.clock.get() + 1_000;
        self.host.set_property(CLOSE, format!("{patient_until}").as_bytes());
    }

    /// Half of the grace period passes.
    fn wait(&self) {
        self.host.clock.update(|clock| clock + 1_000);
    }

    /// Passes a chunk to the filter, and returns the bytes that Envoy forwards instead.
    fn pass(&mut self, body: Body, chunk: &[u8]) -> Vec<u8> {
        *self.host.chunk.borrow_mut() = chunk.to_vec();
        self.stream.on_body(&self.host, body, chunk.len(), false);
        self.host.chunk.borrow().clone()
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn changes_nothing_until_a_counter_asks() {
    let mut scene = Scene::websocket();
    assert!(scene.host.property(FRAMES).is_some());
    let (reads, clock_reads) = (scene.host.reads.get(), scene.host.clock_reads.get());
    for _ in 0..3 {
        assert_eq!(scene.pass(Request, MASKED_TEXT), MASKED_TEXT);
        assert_eq!(scene.pass(Response, TEXT), TEXT);
    }
    assert_eq!(scene.host.reads.get(), reads + 1, "only the response code, and that once");
    assert_eq!(scene.host.clock_reads.get(), clock_reads);
}

#[wasm_bindgen_test(unsupported = test)]
fn the_client_gets_the_close_frame_and_the_app_its_answer() {
    let mut scene = Scene::websocket();
    scene.pass(Request, &MASKED_TEXT[..3]);
    scene.end();
    let two_and_a_part = [TEXT, TEXT, &TEXT[..3]].concat();
    assert_eq!(scene.pass(Response, &two_and_a_part), [TEXT, TEXT, CLOSE_TO_CLIENT].concat());
    assert_eq!(scene.pass(Response, b"i"), b"", "what comes later is dropped");
    assert_eq!(scene.pass(Response, TEXT), b"");
    for chunk in [&MASKED_TEXT[3..], MASKED_TEXT, CLOSE_TO_UPSTREAM] {
        assert_eq!(scene.pass(Request, chunk), chunk, "the client's messages, and its answer");
    }
    scene.wait();
    assert_eq!(scene.pass(Request, b"x"), b"x", "no second close frame");
    assert_eq!(scene.pass(Response, CLOSE_TO_CLIENT), b"", "the app's answer");
}

/// An app that gets a close frame before the client has answered closes its connection, and the
/// client's answer meets a reset.
#[wasm_bindgen_test(unsupported = test)]
fn the_app_gets_no_close_frame_while_the_client_can_answer() {
    let mut scene = Scene::websocket();
    scene.end();
    scene.wait();
    assert_eq!(scene.pass(Request, MASKED_TEXT), [MASKED_TEXT, PING_TO_UPSTREAM].concat());
    assert_eq!(scene.pass(Request, MASKED_TEXT), MASKED_TEXT, "the app has not answered yet");
    assert_eq!(scene.pass(Response, TEXT), [TEXT, CLOSE_TO_CLIENT].concat());
    scene.wait();
    assert_eq!(scene.pass(Request, MASKED_TEXT), MASKED_TEXT, "the client has not answered yet");
    assert_eq!(scene.pass(Request, CLOSE_TO_UPSTREAM), CLOSE_TO_UPSTREAM);

    let mut scene = Scene::websocket();
    scene.end();
    scene.pass(Response, TEXT);
    scene.stream.on_body(&scene.host, Request, 0, true);
    assert_eq!(*scene.host.chunk.borrow(), CLOSE_TO_UPSTREAM, "the client has sent its last chunk");
}

/// The close frame for the client needs a chunk of the response.
#[wasm_bindgen_test(unsupported = test)]
fn an_app_that_only_receives_is_pinged_once() {
    let mut scene = Scene::websocket();
    scene.end();
    let (part, rest) = MASKED_TEXT.split_at(3);
    let chunk = [MASKED_TEXT, part].concat();
    assert_eq!(scene.pass(Request, &chunk), [MASKED_TEXT, PING_TO_UPSTREAM, part].concat());
    assert_eq!(scene.pass(Request, rest), rest);
    let pong = [0x8a, 0];
    assert_eq!(scene.pass(Response, &pong), [&pong, CLOSE_TO_CLIENT].concat());
    assert_eq!(scene.pass(Request, CLOSE_TO_UPSTREAM), CLOSE_TO_UPSTREAM);
    let mut scene = Scene::websocket();
    scene.end();
    scene.pass(Response, TEXT);
    assert_eq!(scene.pass(Request, MASKED_TEXT), MASKED_TEXT, "the client has its close frame");
}

#[wasm_bindgen_test(unsupported = test)]
fn never_writes_inside_of_a_frame() {
    let mut scene = Scene::websocket();
    let mut frame = vec![0x82, 126, 0xff, 0xff];
    frame.resize(4 + 0xffff, 0x88);
    assert_eq!(scene.pass(Response, &frame[..100]), &frame[..100]);
    scene.end();
    assert_eq!(scene.pass(Response, &frame[100..50_000]), &frame[100..50_000]);
    let rest = [&frame[50_000..], CLOSE_TO_CLIENT].concat();
    assert_eq!(scene.pass(Response, &frame[50_000..]), rest);
    assert!(scene.host.body_reads.get() < 20_000, "payloads are skipped unread");
}

#[wasm_bindgen_test(unsupported = test)]
fn waits_for_the_end_of_a_message_but_not_for_ever() {
    let (first, more) = ([0x01, 1, b'a'], [0x00, 1, b'b']);
    let (first_masked, more_masked) = ([0x01, 0x80, 0, 0, 0, 0], [0x00, 0x80, 0, 0, 0, 0]);
    let mut scene = Scene::websocket();
    scene.pass(Response, &first);
    scene.pass(Request, &first_masked);
    scene.end();
    assert_eq!(scene.pass(Response, &more), more, "between fragments");
    scene.host.clock.update(|clock| clock + 999);
    assert_eq!(scene.pass(Response, &more), more);
    assert_eq!(scene.pass(Request, &more_masked), more_masked);
    scene.host.clock.update(|clock| clock + 1);
    let with_ping = [&more_masked[..], PING_TO_UPSTREAM].concat();
    assert_eq!(scene.pass(Request, &more_masked), with_ping);
    assert_eq!(scene.pass(Response, &more), [&more[..], CLOSE_TO_CLIENT].concat());
}

#[wasm_bindgen_test(unsupported = test)]
fn leaves_a_closing_handshake_alone() {
    let close = [0x88, 2, 0x03, 0xe8];
    let mut scene = Scene::websocket();
    scene.pass(Response, &close);
    scene.end();
    assert_eq!(scene.pass(Response, b""), b"");
    assert_eq!(scene.pass(Request, MASKED_TEXT), MASKED_TEXT, "the app has begun it");
    let mut scene = Scene::websocket();
    scene.pass(Request, CLOSE_TO_UPSTREAM);
    scene.end();
    assert_eq!(scene.pass(Response, TEXT), TEXT, "the client has begun it");
    let mut scene = Scene::websocket();
    scene.end();
    let last = [TEXT, &close].concat();
    assert_eq!(scene.pass(Response, &last), last, "it begins in the same chunk");
}

#[wasm_bindgen_test(unsupported = test)]
fn the_apps_answer_to_the_filters_close_frame_passes() {
    let mut scene = Scene::websocket();
    scene.end();
    scene.stream.on_body(&scene.host, Request, 0, true);
    assert_eq!(*scene.host.chunk.borrow(), CLOSE_TO_UPSTREAM);
    assert_eq!(scene.pass(Response, CLOSE_TO_CLIENT), CLOSE_TO_CLIENT, "once, not twice");
    assert_eq!(scene.pass(Response, b"x"), b"x");
}

#[wasm_bindgen_test(unsupported = test)]
fn closes_at_the_end_of_the_upstream() {
    let mut scene = Scene::websocket();
    scene.pass(Response, TEXT);
    scene.end();
    assert_eq!(scene.pass(Response, b""), b"", "an empty chunk in between");
    scene.stream.on_body(&scene.host, Response, 0, true);
    assert_eq!(*scene.host.chunk.borrow(), CLOSE_TO_CLIENT);
}

#[wasm_bindgen_test(unsupported = test)]
fn garbage_is_reported_once_and_left_alone() {
    let mut scene = Scene::websocket();
    scene.end();
    for _ in 0..2 {
        let garbage = [TEXT, b"HTTP/1.1"].concat();
        assert_eq!(scene.pass(Response, &garbage), garbage);
        assert_eq!(scene.pass(Response, TEXT), TEXT);
        assert_eq!(scene.pass(Request, MASKED_TEXT), MASKED_TEXT);
        scene.stream = scene.root.create_stream(3);
        scene.stream.on_request_headers(&scene.host);
    }
    let lines = scene.host.lines.borrow();
    let warnings = lines.iter().filter(|line| line.contains("not made of WebSocket frames"));
    assert_eq!(warnings.count(), 1, "{lines:?}");
}

#[wasm_bindgen_test(unsupported = test)]
fn no_bytes_follow_the_filters_close_frame_even_if_the_client_sends_garbage() {
    let mut scene = Scene::websocket();
    scene.end();
    scene.pass(Response, &[TEXT, &TEXT[..2]].concat());
    assert_eq!(scene.pass(Request, b"\xff\xff"), b"\xff\xff", "garbage passes");
    assert_eq!(scene.pass(Response, &TEXT[2..]), b"", "half a frame");
    assert_eq!(scene.pass(Response, TEXT), b"");
    assert_eq!(scene.pass(Request, MASKED_TEXT), MASKED_TEXT, "nothing is written into garbage");
}

#[wasm_bindgen_test(unsupported = test)]
fn the_property_is_read_only_while_streams_are_ended() {
    let mut scene = Scene::websocket();
    scene.host.set_property(CLOSE, b"1");
    assert_eq!(scene.pass(Response, TEXT), TEXT, "no gate has announced ends");
    scene.end();
    scene.host.clock.update(|clock| clock + 5_000);
    assert_eq!(scene.pass(Response, TEXT), TEXT, "the time has run out");
    let clock_reads = scene.host.clock_reads.get();
    scene.pass(Response, TEXT);
    assert_eq!(scene.host.clock_reads.get(), clock_reads);
    scene.end();
    assert_eq!(scene.pass(Response, TEXT), [TEXT, CLOSE_TO_CLIENT].concat());
}

/// Messages to a VM that has died are announced to the VM after it.
#[wasm_bindgen_test(unsupported = test)]
fn only_the_own_queue_is_read() {
    let scene = Scene::websocket();
    let dead = register_frame_filter(&scene.host).expect("a queue");
    notify_frame_filters(&scene.host, Moment(99_000));
    for queue in [dead.0, QUEUE] {
        scene.root.on_queue_ready(&scene.host, queue);
    }
    assert!(scene.host.dequeue(dead.0).is_some(), "it stays unread, and so it counts as dead");
    assert!(scene.host.dequeue(QUEUE).is_none());
}

#[wasm_bindgen_test(unsupported = test)]
fn follows_only_websockets_that_were_accepted() {
    for (headers, code) in [
        (&[(":method", "GET")][..], "\u{65}\0\0\0\0\0\0\0"),
        (&[("upgrade", "h2c")], "\u{65}\0\0\0\0\0\0\0"),
        (&[("upgrade", "websocket")], "\u{13}\u{1}\0\0\0\0\0\0"),
        (&[("upgrade", "websocket")], "nonsense and more"),
    ] {
        let mut scene = Scene::answered(headers, code);
        scene.end();
        assert_eq!(scene.pass(Request, MASKED_TEXT), MASKED_TEXT, "{headers:?} {code:?}");
        assert_eq!(scene.pass(Response, TEXT), TEXT, "{headers:?} {code:?}");
        assert_eq!(scene.pass(Request, MASKED_TEXT), MASKED_TEXT, "{headers:?} {code:?}");
    }
    let mut scene = Scene::answered(&[("upgrade", "websocket")], "\0\0\0\0\0\0\0\0");
    scene.end();
    assert_eq!(scene.pass(Request, MASKED_TEXT), MASKED_TEXT, "no response yet");
    scene.host.properties.borrow_mut().insert("response/code", "\u{65}\0\0\0\0\0\0\0");
    assert_eq!(scene.pass(Request, MASKED_TEXT), [MASKED_TEXT, PING_TO_UPSTREAM].concat());
}

#[wasm_bindgen_test(unsupported = test)]
fn a_root_context_stops_ticking_when_it_ends() {
    let (host, mut root) = (Fake::default(), Root::new(1));
    assert!(root.on_configure(&host, CONFIGURATION));
    assert!(host.period.get() > 0);
    root.on_delete(&host);
    assert_eq!(host.period.get(), 0);
}

#[wasm_bindgen_test(unsupported = test)]
fn other_roles_are_refused() {
    assert!(crate::config::parse(CONFIGURATION).is_ok());
    for text in [
        "",
        "{}",
        "[",
        "{\"role\": \"websocket\", \"role\": \"websocket\"}",
        r#"{"role": "gate"}"#,
        r#"{"role": "websocket", "scope": "inbound"}"#,
    ] {
        let host = Fake::default();
        let mut root = Root::new(1);
        assert!(!root.on_configure(&host, text.as_bytes()), "{text}");
        let mut stream = root.create_stream(2);
        stream.on_request_headers(&host);
        assert_eq!(host.reads.get(), 0, "{text}");
        assert!(host.lines.borrow()[0].contains("configuration refused"), "{text}");
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn the_other_module_refuses_this_role() {
    let host = Fake::default();
    let mut root = crate::lifecycle::Root::new(1);
    assert!(!root.on_configure(&host, CONFIGURATION));
    assert!(host.lines.borrow()[0].contains("laststream_frames.wasm"), "{:?}", host.lines);
}
