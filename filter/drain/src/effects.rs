//! What a worker's gate does next. The shell does it, in this order, after it has stored the
//! record.

use crate::ends::EndProgress;
use crate::messages::Request;
use crate::record::Record;
use crate::scope::Scope;
use crate::step::Step;
use crate::view::View;

/// The result of one callback.
#[derive(Debug, Clone)]
pub struct Effects {
    /// The record, to be stored if it differs from the one that was read. If another worker has
    /// changed it meanwhile, none of the effects is valid.
    pub record: Record,
    /// What the worker knows now, for the answers.
    pub view: Option<View>,
    /// What to do.
    pub list: Vec<Effect>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Answer a request to the gate. At most 64 in one callback.
    Respond(u32, Answer),
    /// Make a call. Its end is an event, even if it could not be made.
    Call(Call),
    /// Send a request to a counter's queue.
    Ask(u32, Request),
    /// Tell the frame filters that WebSockets are ended until then.
    NotifyFrames(u64),
    /// Close the latch until then, if no other gate holds it.
    CloseLatch(u64),
    /// Open the latch, if this worker's gate holds it.
    OpenLatch,
    /// Close the latch until the process ends.
    SealLatch,
    /// Change the index of counters.
    ChangeIndex(IndexChange, Vec<u32>),
    /// Take these streams from the gauges of the gate's scopes, if no other gate has healed a count
    /// since the number of heals was read.
    Heal {
        /// In flight and long-lived, of each scope. Above `i64::MAX`: what a gauge is below zero.
        gauges: Vec<[u64; 2]>,
        /// The number of heals.
        heals: u64,
        /// The counters that are written off if this worker heals the count.
        write_off: Vec<u32>,
    },
    /// Share the total number of requests, and the time of the query that showed it.
    ShareTotal(u64, u64),
    /// Store the ends, if no other worker has changed them, and only then ask these counters.
    Order {
        /// The ends that were read.
        from: EndProgress,
        /// The ends to store.
        to: EndProgress,
        /// The orders, with the queues.
        orders: Vec<(u32, Request)>,
        /// A line for the log, if this is the first order of the drain.
        line: Option<String>,
    },
    /// Forbid further ends of the drain that began at this moment.
    StopEnds(u64),
    /// Store the progress of the call to the app in the drain that began then, if no other worker
    /// has changed it, and only then make the call if it is claimed.
    Notify {
        /// The beginning of the drain.
        began: u64,
        /// The progress that was read.
        from: Step,
        /// The progress to store.
        to: Step,
    },
    /// Set the tick period; 0 for none.
    Tick(u64),
    /// Call this worker again, because more requests can be answered.
    Wake,
    /// Write a line to the log.
    Log(Level, String),
    /// Set a gauge.
    Set(Gauge, u64),
    /// Increment a counter.
    Increment(Counter),
}

/// An answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The state and the counts.
    Status,
    /// The oldest streams.
    Streams {
        /// The listings of the counters.
        listings: Vec<(Scope, String)>,
        /// Every counter has listed all of its streams.
        is_complete: bool,
        /// How many to show.
        limit: usize,
    },
    /// The state, the number of streams that hold, and a reason.
    Outcome(u16, String),
    /// The answer of Envoy's admin interface.
    FromEnvoy(u16, String),
}

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
        stream: u32,
        /// There was a drain, and not only its begin call.
        was_draining: bool,
        /// A begin call was under way, so Envoy may get it after this one.
        may_begin_late: bool,
        /// The last call was sent, which the answer tells.
        is_finishing: bool,
    },
    /// Undoes a begin call that may have reached Envoy after the call that undid it.
    UndoAgain,
    /// An operator's signal.
    Signal {
        /// The stream that gets the answer.
        stream: u32,
        /// The path with its query.
        path: String,
        /// The latch is closed for it.
        is_latched: bool,
    },
    /// Asks Envoy for its statistics.
    Stats {
        /// Also for the total number of requests.
        with_totals: bool,
    },
    /// Asks the app whether it is there.
    App,
    /// Tells the app that the drain has begun.
    Notify {
        /// The beginning of the drain.
        began: u64,
    },
}

/// The path of the signal that ends Envoy.
pub const QUIT: &str = "/quitquitquit";

impl Call {
    /// Whether Envoy, or its agent, ends when it gets this call.
    #[must_use]
    pub fn ends_envoy(&self) -> bool {
        match self {
            Self::Finish => true,
            Self::Signal { path, .. } => path.starts_with(QUIT),
            _ => false,
        }
    }
}

/// A change of the index of counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexChange {
    /// They have replied again.
    Revive,
    /// They are forgotten.
    Remove,
}

/// The severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Information.
    Info,
    /// The operator should know.
    Warning,
    /// The operator has forced something.
    Critical,
}

/// The gate's gauges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gauge {
    /// The number of the phase.
    State,
    /// How long the drain has lasted, in seconds.
    Seconds,
    /// Streams that began after the drain.
    Late,
    /// Streams that hold.
    Holding,
    /// The state of the count, by its number.
    Count,
}

/// The gate's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// Signals that were refused.
    Refused,
    /// Drains that ran into their deadline.
    Expired,
    /// Gates that an operator opened.
    Forced,
}
