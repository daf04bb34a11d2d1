//! The kinds of streams, by which a gate ends them.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::headers::Headers;

/// The kind of a stream.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum StreamKind {
    /// A request whose response has not begun.
    Waiting,
    /// A WebSocket.
    Websocket,
    /// gRPC.
    Grpc,
    /// A request that accepts `text/event-stream`. An event stream without that is `other`.
    EventStream,
    /// A response that has begun, another upgrade, or CONNECT.
    Other,
}

impl StreamKind {
    /// The kind at this response status, which is 0 until the response begins. Then a waiting
    /// request becomes [`Self::Other`].
    pub(crate) fn at_status(self, status: u64) -> Self {
        if self == Self::Waiting && status > 0 { Self::Other } else { self }
    }
}

/// The record that a counter keeps of a stream, so that a gate can end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptKind {
    /// [`StreamKind::Waiting`] until the counter has seen that the response has begun.
    pub(crate) kind: StreamKind,
    /// The request's method changes something, and the stream's kind does not make the method
    /// meaningless.
    pub(crate) changing: bool,
    /// Milliseconds of the monotonic clock.
    pub(crate) began: u64,
    /// When the counter last looked whether the response has begun; 0 for never.
    pub(crate) looked_at: u64,
    pub(crate) ending: Ending,
}

/// The progress of ending one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The stream is not being ended.
    No,
    /// The frame filter is closing it; the counter resets it at `until`.
    Closing { until: u64 },
    /// It was answered or reset.
    Ended,
}

impl KeptKind {
    /// The kind by the request headers.
    pub(crate) fn new(headers: Headers<'_>, now: u64) -> Self {
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
        Self { kind, changing, began: now, looked_at: 0, ending: Ending::No }
    }
}

/// A set of kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Kinds(u8);

impl Kinds {
    pub(crate) fn of(kinds: &[StreamKind]) -> Self {
        Self(kinds.iter().fold(0, |bits, kind| bits | 1 << *kind as u8))
    }

    pub(crate) fn contains(self, kind: StreamKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = StreamKind> {
        StreamKind::VARIANTS.iter().copied().filter(move |kind| self.contains(*kind))
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn to_number(self) -> u64 {
        self.0.into()
    }

    /// Bits of unknown kinds are ignored: a newer gate may know more of them.
    pub(crate) fn from_number(bits: u64) -> Self {
        Self((bits & ((1 << StreamKind::VARIANTS.len()) - 1)) as u8)
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantArray as _;
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{KeptKind, Kinds, StreamKind};
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
            let kept = KeptKind::new(Headers::new(&map), 7);
            assert_eq!((kept.kind, kept.changing, kept.began), (kind, changing, 7), "{headers:?}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_set_contains_exactly_its_kinds() {
        for kind in StreamKind::VARIANTS {
            let set = Kinds::of(&[*kind]);
            assert!(set.contains(*kind) && Kinds::from_number(set.to_number()) == set);
            assert_eq!(
                StreamKind::VARIANTS.iter().filter(|other| set.contains(**other)).count(),
                1
            );
        }
        assert_eq!(Kinds::from_number(u64::MAX), Kinds::of(StreamKind::VARIANTS));
        assert!(Kinds::default().is_empty());
    }
}
