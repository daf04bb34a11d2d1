//! The part of a status about a drain of Envoy's configuration. Pure.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::config_drain::Draining;

pub(super) const SINCE_UNKNOWN: &str = "config drain: since before the gate watched, so that no \
    stream is known to be older";
pub(super) const NOT_EXPORTED: &str = "config drain: unknown, because Envoy does not export \
    `listener_manager.total_filter_chains_draining` and `total_listeners_draining`";

/// A drain of Envoy's configuration: a listener or a filter chain was replaced, and Envoy closes
/// the streams on it after its drain time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ConfigDrainStatus {
    /// All of it, in words.
    pub reason: String,
    /// Streams in flight that began before the change; not if that moment is unknown. Those among
    /// them that are on another listener stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub older: Option<u64>,
    /// How long until Envoy closes streams; milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_ms: Option<u64>,
}

impl ConfigDrainStatus {
    /// `older`: the number of streams older than the change. None if nothing drains.
    pub(super) fn new(draining: Draining, older: u64) -> Option<Self> {
        let unknown =
            |reason: &str| Some(Self { reason: reason.into(), older: None, left_ms: None });
        match draining {
            Draining::Nothing => None,
            Draining::NotExported => unknown(NOT_EXPORTED),
            Draining::SinceUnknown => unknown(SINCE_UNKNOWN),
            Draining::Since { left, .. } => {
                let streams = if older == 1 { "1 stream" } else { &format!("{older} streams") };
                let seconds = left.div_ceil(1_000);
                let reason =
                    format!("config drain: {streams} older than the change, {seconds} s left");
                Some(Self { reason, older: Some(older), left_ms: Some(left) })
            }
        }
    }
}
