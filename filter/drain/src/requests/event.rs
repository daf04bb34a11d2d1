//! What happens to one worker's gate.

use super::effects::Call;
use super::signal::Signal;
use crate::state::{CallEnd, Millis, StreamNumber};

/// One callback of Envoy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// The tick period has passed.
    Tick,
    /// Every counter has replied that may be alive, or the gate has called itself.
    Message,
    /// A request to the gate.
    Request {
        /// Its stream.
        stream: StreamNumber,
        /// What it asks for.
        command: Command,
        /// Who asks.
        client: Client,
    },
    /// A call has ended, or could not be made.
    CallEnded(Call, Ended),
    /// A request was answered, or its client has gone.
    StreamGone(StreamNumber),
    /// The worker has this configuration now.
    Configured,
    /// Envoy replaces or removes the configuration, and drops the answers to all calls.
    Deleted {
        /// Whether a signal to end is among them.
        ends_envoy: bool,
    },
}

impl Event {
    /// Whether it needs no evaluation by a gate that serves and that nobody asks.
    pub(crate) fn is_watch(&self) -> bool {
        let is_call = |call: &Call| matches!(call, Call::Agent { .. } | Call::Routes { .. });
        match self {
            Self::Tick => true,
            Self::CallEnded(call, _) => is_call(call),
            _ => false,
        }
    }
}

/// The client of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Client {
    /// Whether it may send commands. Others get a status only.
    pub has_access: bool,
    /// The longest drain for which the pod leaves time, if that is known.
    pub longest_drain: Option<Millis>,
}

/// The end of a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ended {
    /// How it ended.
    pub end: CallEnd,
    /// The body of the answer.
    pub body: String,
}

impl Ended {
    /// The end of a call that was not sent.
    pub fn not_sent() -> Self {
        Self { end: CallEnd::NotSent, body: String::new() }
    }
}

/// How long a stop hook is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hold {
    /// Not at all: it asks again.
    No,
    /// At most this long.
    AtMost(Millis),
    /// Until the gate opens.
    UntilOpen,
}

/// A valid request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Command {
    /// The state and the counts; with the time for which the client waits for late ones.
    Status(Option<Millis>),
    /// The oldest streams that hold the drain.
    Streams {
        /// How many at most.
        limit: usize,
        /// The time for which the client waits for late counters.
        wait: Option<Millis>,
    },
    /// Whether the gate is open; with the time for which the client waits for late counts.
    Ready(Option<Millis>),
    /// Begin a drain, and hold the request.
    PreStop(Hold),
    /// Begin a drain.
    Drain,
    /// Cancel the drain.
    Cancel,
    /// Open the gate, for this reason.
    Force(String),
    /// Pass a signal to Envoy's admin interface, at zero only.
    Signal(Signal),
    /// Pass a signal that lets the streams in flight end.
    GracefulSignal(Signal),
}
