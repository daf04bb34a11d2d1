//! Everything that is known at one moment. The shell reads it in the order that [`Counts`]
//! describes; the protocol reads nothing else.

use crate::state::{Moment, Queue, Scope, Shared};

/// What one callback of one worker knows.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The moment.
    pub now: Moment,
    /// The value that all workers share.
    pub shared: Shared,
    /// The metrics that streams write.
    pub counts: Counts,
    /// The counters of all scopes.
    pub index: Vec<IndexEntry>,
    /// The scopes of which Envoy's stats matcher rejects a counter.
    pub rejected: Vec<Scope>,
    /// The gate's own queue, once it has one.
    pub queue: Option<Queue>,
    /// The latch.
    pub latch: Latch,
    /// The gate's own counters.
    pub tally: Tally,
}

/// Counters since Envoy started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often a leaked count was healed.
    pub heals: u64,
    /// Signals that were refused.
    pub refused: u64,
    /// Streams that were ended.
    pub evictions: u64,
}

/// A number for streams of the gate's scopes, and one for streams of other scopes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Sides {
    /// Of the gate's scopes.
    pub own: u64,
    /// Of other scopes.
    pub others: u64,
}

/// The gauges of one scope.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Gauges {
    /// Streams in flight.
    pub in_flight: u64,
    /// Long-lived streams in flight.
    pub long_lived: u64,
}

/// The metrics of one of the gate's scopes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScopeCounts {
    /// The scope.
    pub scope: Scope,
    /// Its gauges.
    pub gauges: Gauges,
    /// Streams ever counted, after the gauges were read.
    pub begun: u64,
}

/// The metrics that streams write. `in_flight` is read before `long_lived`, and `begun` before and
/// after both: if none is in flight and none has begun since, none existed in between. If `begun`
/// differs, the shell reads again, a few times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// The gate's scopes.
    pub scopes: Vec<ScopeCounts>,
    /// Streams ever counted in the gate's scopes, before the gauges were read.
    pub begun_before: u64,
    /// Streams ever begun, counted or excluded. Read last.
    pub ever_begun: Sides,
    /// The gauges of streams in flight of other scopes.
    pub others_in_flight: u64,
    /// The time after all of this was read: a worker may stand still in between.
    pub read_at: Moment,
}

/// Above this, a gauge is below zero.
const MOST: u64 = i64::MAX as u64;

/// Whether a gauge cannot be true.
pub(crate) fn is_below_zero(gauge: u64) -> bool {
    gauge > MOST
}

impl Counts {
    /// Streams ever counted in the gate's scopes, after the gauges were read.
    pub fn begun(&self) -> u64 {
        self.sum(|counts| counts.begun)
    }

    /// The gauges of each of the gate's scopes.
    pub(crate) fn gauges(&self) -> impl Iterator<Item = Gauges> {
        self.scopes.iter().map(|counts| counts.gauges)
    }

    /// Whether streams kept beginning while the gauges were read. `long_lived` may then be too
    /// high.
    fn is_torn(&self) -> bool {
        self.begun_before != self.begun()
    }

    fn sum(&self, number: impl Fn(&ScopeCounts) -> u64) -> u64 {
        self.scopes.iter().map(number).fold(0, u64::saturating_add)
    }

    fn totals(&self) -> Gauges {
        Gauges {
            in_flight: self.sum(|counts| counts.gauges.in_flight),
            long_lived: self.sum(|counts| counts.gauges.long_lived),
        }
    }

    pub(crate) fn are_impossible(&self, exempts_long_lived: bool) -> bool {
        let Gauges { in_flight, long_lived } = self.totals();
        self.gauges().any(Gauges::is_impossible)
            || exempts_long_lived && !self.is_torn() && long_lived > in_flight
    }

    /// Streams that hold the drain, if the gauges can be true.
    pub(crate) fn holding(&self, exempts_long_lived: bool) -> u64 {
        let Gauges { in_flight, long_lived } = self.totals();
        let is_exempt = exempts_long_lived && !self.is_torn();
        in_flight.saturating_sub(if is_exempt { long_lived } else { 0 })
    }

    /// Whether these streams could be taken from the gauges now. Nothing has begun since they were
    /// read; streams may have ended, and the gauges then show less.
    pub(crate) fn cover(&self, leaked: &[Gauges]) -> bool {
        let covers = |now: u64, leaked: u64| {
            if is_below_zero(leaked) { now == leaked } else { now >= leaked }
        };
        self.scopes.len() == leaked.len()
            && self.gauges().zip(leaked).all(|(now, leaked)| {
                covers(now.in_flight, leaked.in_flight) && covers(now.long_lived, leaked.long_lived)
            })
    }
}

impl Gauges {
    fn is_impossible(self) -> bool {
        is_below_zero(self.in_flight) || is_below_zero(self.long_lived)
    }
}

/// A counter in the index, which all workers share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexEntry {
    /// Its queue.
    pub queue: Queue,
    /// The scope of its streams.
    pub scope: Scope,
    /// The time since which it counts. A stream that began earlier may be uncounted, even if
    /// another counter existed then.
    pub since: Moment,
    /// The time since which no gate expects it to count anything, because it did not reply. A reply
    /// to any gate revives it.
    pub written_off: Option<Moment>,
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

impl Latch {
    /// Whether streams cannot begin behind this gate's signal.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_sealed || self.is_closed_by_own
    }
}
