//! What a worker's gate does next. The shell does it, in this order, after it has stored the shared
//! value.

use super::signal::Signal;
use super::status::{Listings, Outcome, Status};
#[cfg(test)]
use super::view::View;
use crate::counts::{Gauges, Request};
use crate::state::{CountState, Millis, Moment, Queue, Shared, StreamNumber};

/// The result of one callback.
#[derive(Debug, Clone)]
pub struct Effects {
    /// The shared value, to be stored if it differs from the one that was read. If another worker
    /// has changed it meanwhile, none of the effects is valid.
    pub shared: Shared,
    /// What to do.
    pub list: Vec<Effect>,
    #[cfg(test)]
    pub(crate) view: Option<View>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Answer a request to the gate. At most 64 in one callback.
    Respond(StreamNumber, Answer),
    /// Make a call. Its end is an event, even if it could not be made. One that needs the latch is
    /// made only if that is still closed.
    Call(Call),
    /// Send a request to a counter's queue.
    Ask(Queue, Request),
    /// Tell the frame filters that WebSockets are ended until then.
    NotifyFrames(Moment),
    /// Close the latch, if no other gate holds it.
    CloseLatch,
    /// Keep the latch closed, if this worker's gate holds it.
    ExtendLatch,
    /// Open the latch, if this worker's gate holds it.
    OpenLatch,
    /// Close the latch until the process ends.
    SealLatch,
    /// These counters have replied again: they are no longer written off.
    Revive(Vec<Queue>),
    /// Remove these counters from the index.
    Forget(Vec<Queue>),
    /// Take these streams from the gauges of the gate's scopes, if no other gate has healed a count
    /// since the number of heals was read.
    Heal {
        /// Those of each scope. Below zero, as the gauges are: what they lack.
        gauges: Vec<Gauges>,
        /// The number of heals.
        heals: u64,
        /// The counters that are written off if this worker heals the count.
        write_off: Vec<Queue>,
    },
    /// Counters must end no more streams for the drain that began at this moment.
    StopEnds(Moment),
    /// Set the tick period.
    Tick(Option<Millis>),
    /// Call this worker again, because more requests can be answered.
    Wake,
    /// Write a line to the log.
    Log(Level, String),
    /// Set a gauge.
    Set(GateMetric, u64),
    /// Show the state of the count.
    ShowCount(CountState),
    /// Increment a counter.
    Increment(GateMetric),
}

/// An answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The state and the counts.
    Status(Box<Status>),
    /// The oldest streams.
    Streams(Listings),
    /// What became of a command, with this status.
    Outcome(u16, Outcome),
    /// The answer of Envoy's admin interface.
    FromEnvoy(u16, String),
}

/// The path of [`Call::Clusters`].
pub const CLUSTERS: &str =
    "/stats?type=Gauges&usedonly&filter=%5Ecluster%5C..*%5C.upstream_rq_active$";

/// A call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Call {
    /// Tells clients to leave.
    Begin,
    /// The last call.
    Finish,
    /// Undoes the begin call of a drain that was cancelled.
    Cancel {
        /// The stream that gets the answer.
        stream: StreamNumber,
        /// That drain.
        cancelled: Cancelled,
    },
    /// Undoes a begin call that may have reached Envoy after the call that undid it.
    UndoAgain,
    /// An operator's signal.
    Signal {
        /// The stream that gets the answer.
        stream: StreamNumber,
        /// The signal.
        signal: Signal,
        /// The latch is closed for it.
        is_latched: bool,
    },
    /// Asks Envoy for its statistics.
    Stats {
        /// The number of the query.
        query: u64,
        /// The path of the admin interface.
        path: String,
    },
    /// Asks Envoy for its requests by cluster.
    Clusters {
        /// The stream that gets the answer.
        stream: StreamNumber,
        /// How many clusters to show.
        limit: usize,
    },
    /// Asks the app whether it is there.
    App,
    /// Asks Istio's agent whether it is there.
    Agent {
        /// The moment.
        asked: Moment,
    },
    /// Tells Envoy's runtime whether routes refuse new requests.
    Routes {
        /// Whether they do.
        refuse: bool,
        /// The moment.
        told: Moment,
    },
    /// Tells the app that the drain has begun.
    Notify {
        /// The beginning of the drain.
        began: Moment,
    },
}

/// What Envoy was told in a drain that was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cancelled {
    /// Whether there was a drain; otherwise only its begin call remained.
    pub was_draining: bool,
    /// Whether a begin call was made and not undone.
    pub has_begun: bool,
    /// Whether a begin call was under way, so Envoy may get it after the call that undoes it.
    pub may_begin_late: bool,
    /// Whether the last call was sent. The latch may not be sealed yet, even if it was answered.
    pub is_finishing: bool,
}

impl Call {
    /// Whether Envoy, or its agent, ends when it gets this call.
    pub fn ends_envoy(&self) -> bool {
        match self {
            Self::Finish => true,
            Self::Signal { signal, .. } => signal.ends_envoy(),
            _ => false,
        }
    }

    /// Whether no stream may begin from the last look at the counts on.
    pub fn needs_latch(&self) -> bool {
        matches!(self, Self::Finish | Self::Signal { is_latched: true, .. })
    }
}

/// The severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Information.
    Info,
    /// The operator should know.
    Warning,
    /// Something does not work.
    Error,
    /// The operator has forced something, or the VM ends.
    Critical,
}

/// The gate's metrics, in the order in which the shell defines them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateMetric {
    /// Gauge: the number of the phase.
    State,
    /// Gauge: how long the drain has lasted, in seconds.
    Seconds,
    /// Gauge: streams that began after the drain.
    Late,
    /// Counter: signals that were refused.
    Refused,
    /// Counter: leaked counts that were healed.
    Heals,
    /// Counter: drains that ran into their deadline.
    Expired,
    /// Counter: gates that an operator opened.
    Forced,
    /// Counter: streams that were ended.
    Evictions,
    /// Gauge: the longest drain, in seconds.
    Deadline,
    /// Gauge: streams that hold.
    Holding,
    /// Gauge: TCP connections that hold.
    Connections,
}
