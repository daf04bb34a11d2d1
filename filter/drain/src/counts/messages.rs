//! The messages between a gate and the counters: one request and one reply.

use crate::state::{Kinds, Millis, Moment, Queue};

/// How long each new stream must check whether the latch is closed. The check costs a read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LatchCheck {
    /// Not at all.
    #[default]
    Off,
    /// For a while.
    ForAWhile,
    /// Until the process ends: the latch is sealed.
    Always,
}

/// The gate's request to a counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Request {
    /// The queue for the reply.
    pub reply_to: Queue,
    /// The round of the gate's requests; the reply repeats it.
    pub round: u64,
    /// Whether new streams check the latch from now on.
    pub latch_check: LatchCheck,
    /// When it was sent.
    pub sent_at: Moment,
    /// Streams that began before this are long-lived from now on.
    pub long_lived_before: Option<Moment>,
    /// How many streams to list, the oldest first.
    pub list_limit: usize,
    /// Long-lived streams are neither listed nor ended.
    pub plain_only: bool,
    /// Streams to end, or to count as endable.
    pub order: Option<Order>,
}

/// The order to end the oldest streams that match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Order {
    /// How many to end now; 0 only asks how many could be ended.
    pub count: u64,
    /// The kinds that are ended.
    pub kinds: Kinds,
    /// Also requests whose method changes something.
    pub changing: bool,
    /// Only streams that began before this moment.
    pub began_before: Moment,
    /// The range of `Retry-After`, in seconds.
    pub retry_after: [u64; 2],
    /// How long a frame filter may take to close a WebSocket.
    pub grace: Millis,
    /// The counter looks again at waiting requests that it last looked at before this moment.
    pub look_since: Moment,
    /// The beginning of the drain. Nothing is ended for one that was cancelled.
    pub drain: Moment,
}

/// A counter's reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Reply {
    /// The counter's own queue.
    pub queue: Queue,
    /// Streams in flight.
    pub in_flight: u64,
    /// Those of them that are long-lived.
    pub long_lived: u64,
    /// Streams in flight that a rule excludes.
    pub excluded: u64,
    /// The round of the request.
    pub round: u64,
    /// When the request was sent.
    pub requested_at: Moment,
    /// The answer to an order.
    pub endable: Option<Endable>,
}

/// The streams of a counter that an order matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Endable {
    /// Streams that match and that it has not ended yet.
    pub streams: u64,
    /// Requests that no pass has looked at since [`Order::look_since`]. `streams` may be wrong by
    /// up to this number.
    pub unseen: u64,
}
