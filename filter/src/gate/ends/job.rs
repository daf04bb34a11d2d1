//! A job that ends streams: that of a drain, of a command, or of a change of Envoy's configuration.

use strum::VariantArray;

use super::pacing::{Progress, Window};
use crate::census::{EndFilter, EndManner};

/// What asks for the ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray)]
#[repr(u64)]
pub(crate) enum JobKind {
    /// The drain.
    Drain = 1,
    /// `POST /end`.
    Command = 2,
    /// Nothing: a command that only asks how many there are.
    Query = 3,
    /// A change of Envoy's configuration.
    ConfigChange = 4,
}

/// A job at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) kind: JobKind,
    pub(crate) window: Window,
    pub(crate) which: EndFilter,
    pub(crate) how: EndManner,
    /// The most that may still be ended.
    pub(crate) left: u64,
}

impl Job {
    /// The counters repeat it. Each change has its own, by its moment.
    pub(crate) fn number(&self) -> u64 {
        let moment = if self.kind == JobKind::ConfigChange { self.window.from } else { 0 };
        moment.saturating_add(self.kind as u64)
    }
}

/// What an operator asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct CommandJob {
    pub(crate) which: EndFilter,
    pub(crate) window: Window,
    /// The share of the streams, as a number.
    pub(crate) total: u64,
    pub(crate) progress: Progress,
}

/// For how long a command's last ends may be late; milliseconds.
const LATE: u64 = 1_000;

impl CommandJob {
    /// Streams are still to be ended. What is left at the end of the window is left alone.
    pub(crate) fn is_active(&self, now: u64) -> bool {
        now < self.window.to.saturating_add(LATE) && self.progress.ordered < self.total
    }

    pub(crate) fn is_of(&self, job: &Job) -> bool {
        (self.which, self.window) == (job.which, job.window)
    }
}
