//! A job that ends streams, for a drain, a command or a change of Envoy's configuration.

use strum::VariantArray;

use super::pacing::{Progress, Window};
use crate::census::{EndFilter, EndManner};

/// The reason for the ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray)]
#[repr(u64)]
pub(crate) enum JobKind {
    /// The drain.
    Drain = 1,
    /// `POST /end`.
    Command = 2,
    /// No end: a command or a dry run asks how many streams match, before anything is ended.
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
    /// The most streams that may still be ended.
    pub(crate) left: u64,
}

impl Job {
    /// The number of the job, which the counters repeat. Each change has its own number, from its
    /// moment.
    pub(crate) fn number(&self) -> u64 {
        let moment = if self.kind == JobKind::ConfigChange { self.window.from } else { 0 };
        moment.saturating_add(self.kind as u64)
    }
}

/// The job of a `POST /end`, and its progress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct CommandJob {
    pub(crate) which: EndFilter,
    pub(crate) window: Window,
    /// The number of streams to end: the share of those that matched.
    pub(crate) total: u64,
    pub(crate) progress: Progress,
}

/// The time by which a command's last ends may be late; milliseconds.
const LATE: u64 = 1_000;

impl CommandJob {
    /// Whether streams are still to be ended. Streams that are left after the window and [`LATE`]
    /// are left alone.
    pub(crate) fn is_active(&self, now: u64) -> bool {
        now < self.window.to.saturating_add(LATE) && self.progress.ordered < self.total
    }

    pub(crate) fn is_of(&self, job: &Job) -> bool {
        (self.which, self.window) == (job.which, job.window)
    }
}
