//! The part of a status about the streams that the gate ends. Pure.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;

use super::ends::{Job, JobKind};
use crate::census::{EndSurvey, StreamKind};

/// Streams that the gate ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct EndStatus {
    /// Whether an operator asked for it, and not the drain.
    pub on_command: bool,
    /// Whether a change of Envoy's configuration is the reason.
    pub on_config_change: bool,
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
    pub(super) fn new(job: &Job, survey: EndSurvey, now: u64) -> Self {
        Self {
            on_command: job.kind == JobKind::Command,
            on_config_change: job.kind == JobKind::ConfigChange,
            kinds: job.which.kinds.iter().collect(),
            left: (survey.replied > 0).then(|| survey.endable.min(job.left)),
            begins_in_ms: job.window.from.checked_sub(now).filter(|wait| *wait > 0),
            ends_in_ms: job.window.to.saturating_sub(now),
        }
    }
}
