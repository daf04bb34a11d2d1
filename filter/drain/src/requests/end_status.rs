//! What a status shows of the ends of streams.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use crate::state::{Kinds, Moment, StreamKind, Window};

/// Streams that the gate ends before the deadline of the drain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct EndStatus {
    /// The kinds that are ended.
    pub kinds: Vec<StreamKind>,
    /// Streams of these kinds that are to be ended, as far as the counters have answered. Absent if
    /// none has, as before the ends begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<u64>,
    /// When the ends begin; milliseconds. Absent once they have begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begins_in_ms: Option<u64>,
    /// How long they are spread from now on; milliseconds.
    pub ends_in_ms: u64,
}

impl EndStatus {
    pub(crate) fn new(kinds: Kinds, left: Option<u64>, window: Window, now: Moment) -> Self {
        Self {
            kinds: kinds.iter().collect(),
            left,
            begins_in_ms: Some((window.from - now).0).filter(|wait| *wait > 0),
            ends_in_ms: (window.to - now).0,
        }
    }
}
