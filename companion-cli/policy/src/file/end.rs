//! Which streams the gate ends.

use schemars::JsonSchema;
use serde::Deserialize;

use laststream_base::time_span::TimeSpan;

/// Streams that the gate ends before the deadline, or that do not hold the drain, by kind. With
/// this section, counters keep the kind of each stream.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct End {
    /// Requests that wait for their response: the client gets 503 with `Retry-After`. `exempt` is
    /// refused here.
    pub waiting: Option<EndKind>,
    /// WebSockets: close code 1001 where the frame filter is on the route, else a reset. `exempt`
    /// also exempts other upgrades and CONNECT.
    pub websocket: Option<EndKind>,
    /// gRPC: status 14 (UNAVAILABLE) while the client waits, else a reset. Clients report that as
    /// status 13 (INTERNAL), and no retry policy repeats it. Every gRPC request is a POST, so `end`
    /// also ends calls that change something.
    pub grpc: Option<EndKind>,
    /// Requests that accept `text/event-stream`: 503 before the response begins, else a reset. An
    /// event stream whose request does not say so is `other`, because Envoy does not show the
    /// headers of a response later.
    pub event_stream: Option<EndKind>,
    /// Responses that have begun (downloads), other upgrades and CONNECT: a reset. `exempt` is
    /// refused here.
    pub other: Option<EndKind>,
    /// The window: the ends are spread over this time, by default 20s.
    pub over: Option<TimeSpan>,
    /// How long before the deadline the window begins, by default as long as the window. The last
    /// end comes early enough for the quiet period.
    pub before_deadline: Option<TimeSpan>,
    /// Instead of `before_deadline`: streams of this age are ended from the beginning of the drain
    /// on.
    pub at_age: Option<TimeSpan>,
    /// Also ends requests whose method changes something: any but GET, HEAD, OPTIONS and TRACE. It
    /// does not matter for gRPC, nor for WebSockets that begin with GET or CONNECT.
    pub changing: bool,
    /// The range of `Retry-After`, by default from 1s to 10s. Each response draws its own.
    pub retry_after: Option<RetryAfter>,
    /// How long a WebSocket whose route has the frame filter may take to close, by default 5s. Then
    /// it is reset.
    pub websocket_grace: Option<TimeSpan>,
}

/// What happens to streams of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndKind {
    /// The gate waits for them until the deadline. The default.
    Wait,
    /// They do not hold the drain: `count.long_lived` and `drain.long_lived: exempt`.
    Exempt,
    /// The gate ends them.
    End,
}

/// A range of times in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryAfter {
    /// The shortest.
    pub from: TimeSpan,
    /// The longest.
    pub to: TimeSpan,
}
