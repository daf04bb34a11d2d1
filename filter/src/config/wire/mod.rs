//! The configuration as it is written: one type for each JSON object. Only the shape and the bounds
//! of numbers are checked here; [`super::check`] checks the values.
//!
//! The doc comments are the descriptions in the JSON schema and in docs/configuration.md.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantArray};

mod forwarded_proto;
mod gate;

pub use forwarded_proto::{
    Decision, Element, Fallback, Form, ForwardedProto, ORIGINAL_HEADER, PEER_KEY, Ports, Preset,
    Source, Strip, Trust,
};
pub use gate::{Admin, App, Begin, BeginCall, Finish, Gate, LongLivedPolicy, SHORTEST_SECRET};

/// Configuration of the laststream module. Every field is optional: `{}` counts streams and touches
/// no header.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Configuration {
    /// The role of this instance of the module.
    pub role: Role,
    /// The scope of the streams. It is part of every metric's name.
    pub scope: Scope,
    /// Which streams are counted, and which of them are long-lived.
    pub count: Option<Count>,
    /// What the gate waits for, and how it tells clients to leave; only with `"role": "gate"`.
    pub gate: Option<Gate>,
    /// How `x-forwarded-proto` is restored. Without this field no header is read or written for it.
    pub forwarded_proto: Option<ForwardedProto>,
}

/// The role of an instance of the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Runs in the path of the requests: counts streams, and restores the scheme.
    #[default]
    Stream,
    /// Answers on a listener of its own: holds stop hooks and refuses signals until the last stream
    /// has ended.
    Gate,
}

/// Which streams an instance counts.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Default,
    Deserialize,
    Serialize,
    Display,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Scope {
    /// Requests that enter the mesh.
    #[default]
    Gateway,
    /// Requests to the app beside the proxy.
    Inbound,
    /// Requests from the app beside the proxy.
    Outbound,
}

/// Which streams are counted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Count {
    /// Streams that match any of these rules are not counted. With at least one rule, the module
    /// reads the headers of every request.
    pub exclude: Exclude,
    /// Streams that match any of these rules are also counted as long-lived, so that a drain can
    /// treat them separately.
    pub long_lived: LongLived,
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

/// Rules for streams that are long-lived by their kind.
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
    /// One of the header's values is equal to this text.
    pub exact: Option<String>,
    /// One of the header's values begins with this text.
    pub prefix: Option<String>,
}
