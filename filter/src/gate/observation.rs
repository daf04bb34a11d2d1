//! What one worker observes at one moment, and why that keeps the gate closed.

use super::phase::Phase;
use crate::census::CountState;

/// Whether the app is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum App {
    /// It was not asked yet.
    Asking,
    /// Its port is open, whatever it answers.
    There,
    /// Its port refuses connections.
    Gone,
    /// Envoy does not know its cluster, or no healthy endpoint in it. An app that has begun to stop
    /// may report that it is not healthy, so this does not mean that the app has gone.
    Unreachable,
}

/// Envoy's own count of the requests that hold the drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EnvoyCount {
    /// Not known yet, or not any more.
    Asking,
    /// Envoy does not export it.
    Absent,
    /// So many requests.
    Holds(u64),
}

/// What one worker observes at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Observation {
    /// How far `holding` can be believed; see [`combine_counts`].
    pub count: CountState,
    /// Up to when all of this is known to be true: every source was alive and complete then.
    pub known_until: u64,
    /// Streams that hold the drain, by the filter's count.
    pub holding: u64,
    /// Streams in flight of the VMs that answered.
    pub in_flight: u64,
    /// Streams ever begun.
    pub begun: u64,
    /// Envoy's own count.
    pub envoy: EnvoyCount,
    /// Bytes that wait to be written to clients, if that is known and fresh.
    pub buffered: Option<u64>,
    /// Whether `buffered` is never known, so that zero must last for longer.
    pub lingers: bool,
    /// Whether the app is still there, if that matters.
    pub app: App,
}

/// How far the counters can be believed, given Envoy's own count. With `may_have_uncounted`,
/// streams may be older than the counters or on a filter chain without one; only Envoy's count
/// shows them.
#[must_use]
pub fn combine_counts(
    counters: CountState,
    holding: u64,
    envoy: EnvoyCount,
    may_have_uncounted: bool,
) -> CountState {
    match (counters, envoy) {
        (CountState::Exact, EnvoyCount::Absent) if may_have_uncounted && holding == 0 => {
            CountState::Partial
        }
        (CountState::Exact, EnvoyCount::Absent) => CountState::Assumed,
        (CountState::Exact, EnvoyCount::Holds(active)) if active > 0 && holding == 0 => {
            CountState::Partial
        }
        (CountState::Exact, EnvoyCount::Asking) if holding == 0 => CountState::Asking,
        (counters, _) => counters,
    }
}

/// Why the gate is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No drain was asked for.
    NotDraining,
    /// Streams are in flight.
    Streams(u64),
    /// The counters, or Envoy, are being asked.
    Asking,
    /// No counter is known, and Envoy's own count is not known either.
    NoCounter,
    /// Requests by Envoy's own count, if the filter's is not enough.
    Requests(CountState, u64),
    /// The filter's count cannot be believed, and Envoy's own is not known.
    Unsure(CountState),
    /// Bytes wait to be written.
    Bytes(u64),
    /// The app is still there, or that is not known.
    App(App),
    /// Clients are not yet told to leave.
    Beginning,
    /// Zero, but not for long enough.
    Quiet {
        /// From when on.
        since: u64,
    },
    /// Zero; Istio's agent must be told before the hook may end.
    Finishing,
    /// It is open.
    Open(Phase),
}

impl Observation {
    /// What is in flight by either count. None if both are zero, or not known yet.
    #[must_use]
    pub fn in_flight_reason(&self) -> Option<Reason> {
        let is_believed =
            matches!(self.count, CountState::Exact | CountState::Asking | CountState::Assumed);
        match (self.count, self.envoy) {
            _ if is_believed && self.holding > 0 => Some(Reason::Streams(self.holding)),
            (count, EnvoyCount::Holds(active)) if active > 0 => {
                Some(Reason::Requests(count, active))
            }
            (CountState::Unknown, EnvoyCount::Absent) => Some(Reason::NoCounter),
            (count, EnvoyCount::Absent) if !is_believed => Some(Reason::Unsure(count)),
            _ => None,
        }
    }

    /// The bytes that wait to be written to clients, if there are any and they are known.
    pub(super) fn unwritten_bytes(&self) -> Option<u64> {
        self.buffered.filter(|&bytes| bytes > 0)
    }

    /// Whether both counts are known, so that none from [`Self::in_flight_reason`] means zero.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.count != CountState::Asking && self.envoy != EnvoyCount::Asking
    }
}
