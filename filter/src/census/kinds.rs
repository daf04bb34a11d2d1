//! The record that a counter keeps of a stream, so that a gate can end it.

use laststream_drain::state::Moment;
pub(crate) use laststream_drain::state::StreamKind;

use crate::headers::Headers;

/// The record that a counter keeps of a stream, so that a gate can end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptKind {
    /// [`StreamKind::Waiting`] until the counter has seen that the response has begun.
    pub(crate) kind: StreamKind,
    /// The request's method changes something, and the stream's kind does not make the method
    /// meaningless.
    pub(crate) changing: bool,
    pub(crate) began: Moment,
    /// When the counter last looked whether the response has begun.
    pub(crate) looked_at: Option<Moment>,
    pub(crate) ending: Ending,
}

/// The progress of ending one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The stream is not being ended.
    No,
    /// The frame filter is closing it; the counter resets it at `until`.
    Closing { until: Moment },
    /// It was answered or reset.
    Ended,
}

impl KeptKind {
    /// The kind by the request headers.
    pub(crate) fn new(headers: Headers<'_>, now: Moment) -> Self {
        let method = headers.first(":method").unwrap_or_default();
        let is_websocket = |name| {
            headers.all(name).any(|value| value.trim_ascii().eq_ignore_ascii_case(b"websocket"))
        };
        let kind = if is_websocket("upgrade") || is_websocket(":protocol") {
            StreamKind::Websocket
        } else if headers.first("upgrade").is_some() || method == b"CONNECT" {
            StreamKind::Other
        } else if headers.is_grpc() {
            StreamKind::Grpc
        } else if headers.accepts_event_stream() {
            StreamKind::EventStream
        } else {
            StreamKind::Waiting
        };
        let is_safe = [&b"GET"[..], b"HEAD", b"OPTIONS", b"TRACE"].contains(&method);
        // A request that changes something can also have the header of an upgrade.
        let says_nothing = match kind {
            StreamKind::Grpc => true,
            StreamKind::Websocket => method == b"CONNECT",
            _ => false,
        };
        let changing = !is_safe && !says_nothing;
        Self { kind, changing, began: now, looked_at: None, ending: Ending::No }
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{KeptKind, Moment, StreamKind};
    use crate::headers::{Headers, serialise};

    #[wasm_bindgen_test(unsupported = test)]
    fn the_kind_follows_from_the_request_headers() {
        use StreamKind::{EventStream, Grpc, Other, Waiting, Websocket};
        for (headers, kind, changing) in [
            (&[(":method", "GET")][..], Waiting, false),
            (&[(":method", "HEAD")], Waiting, false),
            (&[(":method", "POST")], Waiting, true),
            (&[(":method", "get")], Waiting, true),
            (&[], Waiting, true),
            (&[(":method", "GET"), ("upgrade", "WebSocket")], Websocket, false),
            (&[(":method", "CONNECT"), (":protocol", "websocket")], Websocket, false),
            (&[(":method", "POST"), ("upgrade", "websocket")], Websocket, true),
            (&[("upgrade", "websocket")], Websocket, true),
            (&[(":method", "GET"), ("upgrade", "h2c")], Other, false),
            (&[(":method", "CONNECT")], Other, true),
            (&[(":method", "CONNECT"), (":protocol", "connect-udp")], Other, true),
            (&[(":method", "POST"), ("content-type", "application/grpc+proto")], Grpc, false),
            (&[(":method", "GET"), ("accept", "a/b, text/event-stream")], EventStream, false),
            (&[(":method", "POST"), ("accept", "text/event-stream")], EventStream, true),
        ] {
            let map = serialise(headers);
            let kept = KeptKind::new(Headers::new(&map), Moment(7));
            assert_eq!((kept.kind, kept.changing), (kind, changing), "{headers:?}");
        }
    }
}
