//! A line of `laststream rollout`, as text or as JSON.

use laststream_base::visible;
use serde::Serialize;

use crate::commands::{Output, Printer};

/// What is known about an object of the rollout: the workload, or one of its pods.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    /// Such as `pod/web-1`.
    pub(super) object: String,
    state: &'static str,
    /// Streams that hold the pod, or that were cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    streams: Option<u64>,
    message: String,
}

impl Line {
    pub(super) fn new(object: &str, state: &'static str, message: String) -> Self {
        Self { object: object.to_owned(), state, streams: None, message }
    }

    pub(super) fn with_streams(self, streams: Option<u64>) -> Self {
        Self { streams, ..self }
    }

    pub(super) fn print(&self, output: Output, printer: &Printer) {
        let json = serde_json::json!(self).to_string();
        printer.answer(output, &json, &visible::line(&self.message));
    }
}
