//! Everything that is known at one moment. The shell reads it in the order that [`Counts`]
//! describes; the protocol reads nothing else.

use crate::ends::EndProgress;
use crate::messages::Reply;
use crate::pacing::QueryPacing;
use crate::record::Record;
use crate::scope::Scope;
use crate::step::Step;

/// A number for streams of the gate's scopes, and one for streams of other scopes.
pub type Sides = [u64; 2];

/// What one callback of one worker knows.
#[derive(Debug, Clone)]
pub struct Facts<'f> {
    /// Milliseconds of the monotonic clock.
    pub now: u64,
    /// The record that all workers share.
    pub record: Record,
    /// The metrics that streams write.
    pub counts: Counts,
    /// The counters of all scopes.
    pub index: Vec<IndexEntry>,
    /// The scopes of which Envoy's stats matcher rejects a counter.
    pub rejected: Vec<Scope>,
    /// The counters' replies since the last callback, with their listings.
    pub replies: &'f [(Reply, Option<String>)],
    /// The gate's own queue, once it has one.
    pub queue: Option<u32>,
    /// The queries of all gates to Envoy.
    pub pacing: QueryPacing,
    /// The latch.
    pub latch: Latch,
    /// How often a leaked count was healed.
    pub heals: u64,
    /// The newest total number of requests by Envoy's own count; 0 as long as it is not needed.
    pub total: u64,
    /// The progress of the call to the app in this drain.
    pub notify: Step,
    /// The ends of all drains.
    pub ends: EndProgress,
}

/// The metrics that streams write. `in_flight` is read before `long_lived`, and `begun` before and
/// after both: if none is in flight and none has begun since, none existed in between. If `begun`
/// differs, the shell reads again, a few times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// The gauges of each of the gate's scopes: in flight, long-lived.
    pub gauges: Vec<[u64; 2]>,
    /// Streams ever counted in the gate's scopes, before and after the gauges were read.
    pub begun: [u64; 2],
    /// Streams ever begun, counted or excluded. Read last.
    pub ever_begun: Sides,
    /// The gauges of streams in flight of other scopes.
    pub others_in_flight: u64,
    /// The time after all of this was read: a worker may stand still in between.
    pub read_at: u64,
}

/// Above this, a gauge is below zero.
pub(crate) const MOST: u64 = i64::MAX as u64;

impl Counts {
    /// Whether streams kept beginning while the gauges were read. `long_lived` may then be too
    /// high.
    fn is_torn(&self) -> bool {
        self.begun[0] != self.begun[1]
    }

    fn sum(&self, gauge: usize) -> u64 {
        self.gauges.iter().map(|gauges| gauges[gauge]).fold(0, u64::saturating_add)
    }

    pub(crate) fn are_impossible(&self, exempts_long_lived: bool) -> bool {
        self.gauges.iter().flatten().any(|gauge| *gauge > MOST)
            || exempts_long_lived && !self.is_torn() && self.sum(1) > self.sum(0)
    }

    /// Streams that hold the drain, if the gauges can be true.
    pub(crate) fn holding(&self, exempts_long_lived: bool) -> u64 {
        let long_lived = if exempts_long_lived && !self.is_torn() { self.sum(1) } else { 0 };
        self.sum(0).saturating_sub(long_lived)
    }

    /// Whether these streams could be taken from the gauges now. Nothing has begun since they were
    /// read; streams may have ended, and the gauges then show less.
    pub(crate) fn cover(&self, leaked: &[[u64; 2]]) -> bool {
        let covers =
            |now: u64, leaked: u64| if leaked > MOST { now == leaked } else { now >= leaked };
        let mut pairs = self.gauges.iter().zip(leaked);
        self.gauges.len() == leaked.len()
            && pairs.all(|(now, leaked)| {
                now.iter().zip(leaked).all(|(now, leaked)| covers(*now, *leaked))
            })
    }
}

/// A counter in the index, which all workers share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexEntry {
    /// Its queue.
    pub queue: u32,
    /// The scope of its streams.
    pub scope: Scope,
    /// The time since which it counts. A stream that began earlier may be uncounted, even if
    /// another counter existed then.
    pub since: u64,
    /// The fingerprint of its configuration. A worker whose VM died returns with the same one.
    pub configuration: u32,
    /// The time since which no gate expects it to count anything, because it did not reply; 0 for
    /// never. A reply to any gate revives it.
    pub written_off: u64,
}

/// The latch: while it is closed, the filter refuses new streams. One gate holds it at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Latch {
    /// It stays closed until the process ends, because a signal to end was sent.
    pub is_sealed: bool,
    /// This worker's gate has closed it and not opened it since.
    pub is_held: bool,
    /// This worker's gate holds it, its time is not over, and the gauge that streams read says so.
    pub is_closed_by_own: bool,
    /// Another gate keeps it closed.
    pub is_taken: bool,
    /// Envoy's stats matcher rejects the gauge, so streams would not see that it is closed.
    pub is_rejected: bool,
}
