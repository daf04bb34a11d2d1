//! The bodies of the gate's answers. Pure.

use laststream_drain::state::Phase;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

pub use laststream_drain::requests::{EndStatus, Outcome, Progress, ScopeStatus, Status};

use super::StreamKind;
use crate::config::wire::Scope;
use crate::host::Control;

/// The oldest streams that hold the drain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Streams {
    /// How far the drain is.
    pub state: Phase,
    /// Streams that hold the drain.
    pub holding: u64,
    /// Whether these are all of them, and every counter has answered.
    pub complete: bool,
    /// The oldest first.
    pub streams: Vec<StreamStatus>,
    /// Where Envoy alone counts, in place of streams: the clusters with the most requests first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub clusters: Vec<ClusterRequests>,
}

/// One stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct StreamStatus {
    /// The scope in which it is counted.
    pub scope: Scope,
    /// How long ago its request arrived; milliseconds.
    pub age_ms: u64,
    /// Whether it is long-lived.
    pub long_lived: bool,
    /// Method and path, if the filter state `laststream.request` has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Such as `HTTP/2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// The name of Envoy's route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The cluster to which it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The client's address, as Envoy takes it from `x-forwarded-for`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The address of the upstream, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// The status of the response, once it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u64>,
    /// Bytes of the response's body so far.
    pub bytes: u64,
    /// Its kind, if its counter keeps kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<StreamKind>,
    /// Whether its counter ends it: the client was answered, or a WebSocket closes.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub ending: bool,
}

/// The requests in flight to one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ClusterRequests {
    /// The cluster.
    pub cluster: String,
    /// Their number, retries included.
    pub requests: u64,
}

pub(super) fn respond(host: &impl Control, stream: u32, status: u16, body: &impl Serialize) {
    respond_json(host, stream, status, &json(body));
}

pub(super) fn json(body: &impl Serialize) -> String {
    // This can fail only for maps whose keys are not strings.
    serde_json::to_string(body).unwrap_or_default()
}

pub(super) fn respond_json(host: &impl Control, stream: u32, status: u16, body: &str) {
    let json = ("content-type", "application/json");
    match status {
        503 => host.send_http_response(stream, status, &[json, ("retry-after", "1")], body),
        _ => host.send_http_response(stream, status, &[json], body),
    }
}
