//! The rules for streams that are not counted, and for long-lived ones.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which streams are counted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Count {
    /// Streams that match any of these rules are not counted. Any rule costs a read of the headers
    /// of every request.
    pub exclude: Exclude,
    /// Streams that match any of these rules are counted as long-lived too, so that a drain can
    /// treat them apart.
    pub long_lived: LongLived,
    /// Whether the beginning of each stream is kept, so that a gate can take streams above an age
    /// for long-lived (`gate.long_lived_after_ms`). It costs a read of the clock for every request.
    pub ages: bool,
    /// Whether the kind of each stream is kept, so that a gate can end streams by their kind. It
    /// costs a read of the headers of every request. Without it no stream is ever ended. Ages are
    /// kept, too.
    pub kinds: bool,
}

/// Rules for streams that are not counted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Exclude {
    /// Paths, without the query string.
    pub paths: Vec<TextMatch>,
    /// Request headers.
    pub headers: Vec<HeaderMatch>,
    /// The user agents of well-known health checkers (kubelet, Envoy, the clouds' load balancers,
    /// Consul).
    pub health_checks: bool,
}

/// Rules for streams that live long by nature.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LongLived {
    /// Upgrades (WebSocket and others) and CONNECT.
    pub upgrades: bool,
    /// Requests whose content type is gRPC. Unary calls look the same as streaming ones.
    pub grpc: bool,
    /// Requests that accept `text/event-stream`.
    pub event_streams: bool,
    /// Paths, without the query string.
    pub paths: Vec<TextMatch>,
    /// Request headers.
    pub headers: Vec<HeaderMatch>,
    /// Names of Envoy's routes.
    pub routes: Vec<TextMatch>,
}

/// A text to compare with: either `exact` or `prefix`. Upper and lower case differ.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TextMatch {
    /// The whole text.
    pub exact: Option<String>,
    /// The beginning of the text.
    pub prefix: Option<String>,
}

/// A request header: present, or with a value to compare with (`exact` or `prefix`).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HeaderMatch {
    /// The header's name.
    pub name: String,
    /// One of the header's values is this.
    pub exact: Option<String>,
    /// One of the header's values begins with this.
    pub prefix: Option<String>,
}
