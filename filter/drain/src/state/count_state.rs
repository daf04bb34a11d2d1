//! The state of a count: how far it can be believed.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use strum::{Display, VariantArray};

/// How far a count can be believed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Display, VariantArray)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CountState {
    /// Every counter has answered, and Envoy's own count agrees.
    Exact,
    /// The counters, or Envoy, have not all answered yet.
    Asking,
    /// Every counter has answered; Envoy does not export its own count.
    Assumed,
    /// No counter is known.
    #[default]
    Unknown,
    /// Requests are, or may be, in flight that no counter knows.
    Partial,
    /// Envoy's stats matcher rejects a counter that tells what began in between.
    Rejected,
    /// A counter no longer replies. If its VM has died, its streams are counted for ever, or
    /// run uncounted.
    Leaking,
    /// Envoy's own count is the only one, by configuration.
    Envoy,
    /// The gauges cannot be true: one is below zero, or more streams are long-lived than in flight.
    /// The gate repairs them when nothing is in flight.
    Miscounted,
}
