//! The field `profile`.

use schemars::JsonSchema;
use serde::Deserialize;

/// The kind of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Streams that last for minutes: event streams, answers of language models, WebSockets.
    Streaming,
}
