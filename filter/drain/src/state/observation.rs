//! The observation of one worker at one moment, and the reason why it keeps the gate closed.

use strum::VariantArray;

use super::count_state::CountState;
use super::moments::Moment;
use super::phase::Phase;

/// Whether the app is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray)]
pub enum App {
    /// It has not answered in this drain yet.
    Awaited,
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
    /// Not known: Envoy has not answered yet, or not in time, or not with its statistics; or its
    /// answer is about requests that come and go, and the next one decides.
    Awaited,
    /// Envoy has answered and does not export it, or the operator says that there is no admin
    /// interface.
    Absent,
    /// The number of requests, or connections.
    Holds(u64),
}

/// Streams ever begun, read before the streams in flight and after them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Begun {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
}

/// The counts, and the state of the app, that one worker observes at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Observation {
    /// The state of the count: how far `holding` can be believed; see [`combine_counts`].
    pub count: CountState,
    /// Whether a counter that does not reply may still be alive: its worker may stand still, own
    /// streams, and let one begin while a signal passes.
    pub may_revive: bool,
    /// The time up to which all of this is known to be true: every source was alive and complete
    /// then.
    pub known_until: Moment,
    /// Streams that hold the drain, by the filter's count.
    pub holding: u64,
    /// Streams in flight of the VMs that answered.
    pub in_flight: u64,
    /// Streams in flight of scopes that the gate does not wait for. A signal to end would cut them.
    pub others_in_flight: u64,
    /// When the counts had been read. Zero is known from then on.
    pub read_at: Moment,
    /// Streams ever begun.
    pub begun: Begun,
    /// Envoy's own count.
    pub envoy: EnvoyCount,
    /// TCP connections; absent if they do not hold the drain.
    pub connections: EnvoyCount,
    /// Bytes that wait to be written to clients, if that is known and fresh.
    pub buffered: Option<u64>,
    /// Whether Envoy does not export `buffered`: zero must then last for longer.
    pub lingers: bool,
    /// Whether the app is still there, if that matters.
    pub app: App,
}

/// The state of the counters' count, given Envoy's own count: how far it can be believed. With
/// `may_have_uncounted`, streams may be older than the counters or on a filter chain without one;
/// only Envoy's count shows them.
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
        (CountState::Exact, EnvoyCount::Awaited) if holding == 0 => CountState::Asking,
        (counters, _) => counters,
    }
}

/// The reason why the gate is closed or open.
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
    /// TCP connections are open.
    Connections(u64),
    /// Bytes wait to be written.
    Bytes(u64),
    /// The app is still there, or that is not known.
    App(App),
    /// The call that tells clients to leave is still due or under way.
    Beginning,
    /// Nothing is in flight, but not for long enough.
    Quiet {
        /// The beginning of the quiet period.
        since: Moment,
    },
    /// Nothing is in flight; Istio's agent must answer its call before the hook may end.
    Finishing,
    /// The gate is open.
    Open(Phase),
}

impl Observation {
    /// The reason if something is in flight by either count, or if the counts cannot be believed.
    /// None if both are zero, or not known yet. While a silent counter may be alive, its streams
    /// hold: Envoy counts a stream no more before the filter has seen its end.
    pub fn in_flight_reason(&self) -> Option<Reason> {
        let is_believed = self.is_believed();
        match (self.count, self.envoy) {
            _ if (is_believed || self.may_revive) && self.holding > 0 => {
                Some(Reason::Streams(self.holding))
            }
            (count, EnvoyCount::Holds(active)) if active > 0 => {
                Some(Reason::Requests(count, active))
            }
            (CountState::Unknown, EnvoyCount::Absent) => Some(Reason::NoCounter),
            (count, EnvoyCount::Absent) if !is_believed => Some(Reason::Unsure(count)),
            _ => self.open_connections().map(Reason::Connections),
        }
    }

    /// Whether the filter's count can be believed, as far as is known.
    fn is_believed(&self) -> bool {
        matches!(self.count, CountState::Exact | CountState::Asking | CountState::Assumed)
    }

    /// Whether neither count is known: the filter's cannot be believed, and Envoy is being asked.
    pub fn is_unknown(&self) -> bool {
        !self.is_believed() && self.envoy == EnvoyCount::Awaited
    }

    /// The number of TCP connections that hold the drain, if it is known and above zero.
    pub(crate) fn open_connections(&self) -> Option<u64> {
        match self.connections {
            EnvoyCount::Holds(connections) => Some(connections).filter(|&open| open > 0),
            EnvoyCount::Awaited | EnvoyCount::Absent => None,
        }
    }

    /// The number of bytes that wait to be written to clients, if it is known and above zero.
    pub fn unwritten_bytes(&self) -> Option<u64> {
        self.buffered.filter(|&bytes| bytes > 0)
    }

    /// Whether both counts are known, so that none from [`Self::in_flight_reason`] means zero.
    pub fn is_complete(&self) -> bool {
        self.count != CountState::Asking
            && self.envoy != EnvoyCount::Awaited
            && self.connections != EnvoyCount::Awaited
    }
}
