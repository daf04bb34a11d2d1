//! Which streams the gate ends, when, and how.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::config::read::whole;

/// The longest time: thirty days, in milliseconds.
const LONGEST: u64 = 2_592_000_000;

/// Which streams the gate ends before the deadline of a drain. By default it ends none.
#[derive(Debug, Clone, PartialEq, Eq, SmartDefault, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct End {
    /// Requests that wait for their response: the client gets 503 with `Retry-After`.
    pub waiting: EndKind,
    /// WebSockets: close code 1001 where the frame filter is on the route, else a reset.
    pub websocket: EndKind,
    /// gRPC: status 14 (UNAVAILABLE) while the client waits, else a reset. Clients report that as
    /// status 13 (INTERNAL), and no retry policy repeats it. Every gRPC request is a POST, so `end`
    /// also ends calls that change something.
    pub grpc: EndKind,
    /// Requests that accept `text/event-stream`: 503 before the response begins, else a reset. An
    /// event stream whose request does not say so is `other`, because Envoy does not show the
    /// headers of a response later.
    pub event_stream: EndKind,
    /// Responses that have begun (downloads), other upgrades and CONNECT: a reset.
    pub other: EndKind,
    /// The window: the ends are spread over this time; milliseconds.
    #[serde(deserialize_with = "whole::<1_000, LONGEST, _>")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1_000, max = LONGEST)))]
    #[default(20_000)]
    pub over_ms: u64,
    /// How long before the deadline the window begins, by default as long as the window;
    /// milliseconds. The last end comes early enough for the quiet period.
    pub before_deadline_ms: Option<u64>,
    /// Instead of `before_deadline_ms`: streams of this age are ended from the beginning of the
    /// drain on; milliseconds.
    pub at_age_ms: Option<u64>,
    /// Whether requests are ended whose method changes something: any but GET, HEAD, OPTIONS and
    /// TRACE. It does not matter for gRPC, nor for WebSockets that begin with GET or CONNECT.
    pub changing: bool,
    /// The range of `Retry-After`. Each response draws its own.
    pub retry_after_s: RetryAfter,
    /// How long a WebSocket whose route has the frame filter may take to close; milliseconds. Then
    /// it is reset.
    #[serde(deserialize_with = "whole::<100, 60_000, _>")]
    #[cfg_attr(feature = "schema", schemars(range(min = 100, max = 60_000)))]
    #[default(5_000)]
    pub websocket_grace_ms: u64,
}

/// What happens to streams of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EndKind {
    /// The gate waits for them until the deadline.
    #[default]
    Wait,
    /// The gate ends them.
    End,
}

/// A range of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, SmartDefault, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct RetryAfter {
    /// The shortest.
    #[serde(deserialize_with = "whole::<0, 86_400, _>")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 86_400)))]
    #[default(1)]
    pub from: u64,
    /// The longest.
    #[serde(deserialize_with = "whole::<0, 86_400, _>")]
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 86_400)))]
    #[default(10)]
    pub to: u64,
}
