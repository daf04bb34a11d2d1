//! The configuration as it is written: one type for each JSON object. Only the shape and the bounds
//! of numbers are checked here; [`super::check`] checks the values.
//!
//! The doc comments are the descriptions in the JSON schema and in docs/configuration.md.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod count;
mod end;
mod forwarded_proto;
mod gate;

pub use count::{Count, Exclude, HeaderMatch, LongLived, TextMatch};
pub use end::{End, EndKind, RetryAfter};
pub use forwarded_proto::{
    Decision, Element, Fallback, Form, ForwardedProto, ORIGINAL_HEADER, PEER_KEY, Ports, Preset,
    Source, Strip, Trust,
};
pub use gate::{
    Admin, App, Begin, BeginCall, Finish, Gate, GateCount, ISTIOS_AGENT, LongLivedPolicy, Notify,
    SHORTEST_AGE, SHORTEST_SECRET, Starts,
};
pub use laststream_drain::state::Scope;

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
    /// Answers on a separate listener: holds stop hooks and refuses signals until the last stream
    /// has ended.
    Gate,
    /// Follows the frames of WebSockets, so that they end with a close frame. Only in the module
    /// laststream_frames.wasm.
    Websocket,
}
