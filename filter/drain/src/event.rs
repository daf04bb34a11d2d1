//! What happens to one worker's gate.

use crate::effects::Call;
use crate::step::CallEnd;

/// The wait of a request that is held until the gate opens.
pub const UNTIL_OPEN: u64 = u64::MAX;

/// One callback of Envoy. Replies of counters that have arrived are among the facts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// The tick period has passed.
    Tick,
    /// A serving gate evaluates for its metrics.
    PeriodicEvaluation,
    /// Nothing but replies, or the gate has called itself.
    Message,
    /// A request to the gate.
    Request {
        /// Its stream.
        stream: u32,
        /// What it asks for.
        command: Command,
        /// Whether the client has access; only a status is for others.
        has_access: bool,
    },
    /// A call has ended, or could not be made.
    CallEnded(Call, Ended),
    /// A request was answered, or its client has gone.
    StreamGone(u32),
    /// The worker has this configuration now.
    Configured,
    /// Envoy replaces or removes the configuration, and drops the answers to all calls.
    Deleted {
        /// Whether a signal to end is among them.
        ends_envoy: bool,
    },
}

/// The end of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ended {
    /// How it ended.
    pub end: CallEnd,
    /// Whether the answer has the header of a response from upstream.
    pub is_from_upstream: bool,
    /// The body of the answer.
    pub body: String,
}

impl Ended {
    /// The end of a call that has no answer.
    #[must_use]
    pub fn without_answer(end: CallEnd) -> Self {
        Self { end, is_from_upstream: false, body: String::new() }
    }
}

/// A valid request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Command {
    /// The state and the counts.
    Status,
    /// The oldest streams that hold the drain, with a limit.
    Streams(usize),
    /// Whether the gate is open.
    Ready,
    /// Begin a drain, and hold the request for at most this number of milliseconds.
    PreStop(u64),
    /// Begin a drain.
    Drain,
    /// Cancel the drain.
    Cancel,
    /// Open the gate, for this reason.
    Force(String),
    /// Pass a signal to Envoy's admin interface: at zero only, unless it is graceful.
    Signal {
        /// The path with its query.
        path: String,
        /// Whether Envoy lets the streams in flight end.
        is_graceful: bool,
    },
}
