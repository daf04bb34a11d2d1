//! The requests that the gate holds, and the condition that each waits for.

use super::signal::Signal;
use crate::counts::{Census, EnvoySamples};
use crate::state::{Moment, StreamNumber};

/// The condition that a held request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum WaitsFor {
    /// Fresh counts, for a status.
    Counts,
    /// Fresh counts, to answer whether the gate is open at this moment.
    Ready,
    /// The gate to open.
    Opening,
    /// A fresh listing of at most this number of streams.
    Listing(usize),
}

/// The first answers that are new enough, by their numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Needs {
    /// The round of the census.
    pub(crate) round: u64,
    /// The query to Envoy, if one is needed.
    pub(crate) query: Option<u64>,
}

impl Needs {
    /// The next answers of the counters and of Envoy.
    pub(crate) fn next(census: &Census, samples: &EnvoySamples) -> Self {
        Self { round: census.round + 1, query: Some(samples.next_query()) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Waiter {
    pub(crate) stream: StreamNumber,
    pub(crate) waits_for: WaitsFor,
    /// The latest time at which it is answered.
    pub(crate) until: Moment,
    pub(crate) needs: Needs,
    /// Its arrival, if only newer answers are good enough.
    pub(crate) asked_at: Option<Moment>,
}

/// An operator's signal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct HeldSignal {
    pub(crate) stream: StreamNumber,
    pub(crate) signal: Signal,
    /// The latest time at which it is refused.
    pub(crate) until: Moment,
    pub(crate) needs: Needs,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Waiting {
    pub(crate) requests: Vec<Waiter>,
    pub(crate) signals: Vec<HeldSignal>,
    /// The metrics wait for fresh counts, at most until then.
    pub(crate) metrics: Option<(Needs, Moment)>,
}

impl Waiting {
    /// Forgets the request of a client that has gone, or that was answered.
    pub(crate) fn forget(&mut self, stream: StreamNumber) {
        self.requests.retain(|waiter| waiter.stream != stream);
        self.signals.retain(|held| held.stream != stream);
    }

    /// Whether a request waits, for whatever it is.
    pub(crate) fn any(&self) -> bool {
        !self.requests.is_empty() || self.needs_fresh_counts()
    }

    /// Whether a hook waits for the gate to open.
    pub(crate) fn any_hook(&self) -> bool {
        self.requests.iter().any(|waiter| waiter.waits_for == WaitsFor::Opening)
    }

    /// The arrival of the last request that has the answers it needs, which are newer than it.
    pub(crate) fn proven_until(&self, has_answers: impl Fn(Needs) -> bool) -> Option<Moment> {
        let proven = self.requests.iter().filter(|waiter| has_answers(waiter.needs));
        proven.filter_map(|waiter| waiter.asked_at).max()
    }

    /// Whether a signal waits that was not tried yet, and that needs no newer answer of Envoy for
    /// it.
    pub(crate) fn has_untried_signal(&self) -> bool {
        self.signals.iter().any(|held| held.needs.query.is_none())
    }

    /// The latest query to Envoy that a request wants at once. A signal that is tried again wants
    /// one at intervals: otherwise each answer, and each reply, would begin the next query.
    pub(crate) fn wanted_query(&self) -> Option<u64> {
        let requests = self.requests.iter();
        requests
            .filter(|waiter| waiter.waits_for != WaitsFor::Opening)
            .map(|waiter| waiter.needs)
            .chain(self.metrics.map(|(needs, _)| needs))
            .filter_map(|needs| needs.query)
            .max()
    }

    /// Whether something waits for fresh counts, and not for the end of the drain.
    pub(crate) fn needs_fresh_counts(&self) -> bool {
        !self.signals.is_empty()
            || self.metrics.is_some()
            || self.requests.iter().any(|waiter| waiter.waits_for != WaitsFor::Opening)
    }

    /// The number of streams that the counters must list in this round. One listing is enough for a
    /// request.
    pub(crate) fn list_limit(&self, round: u64) -> usize {
        let length = |waiter: &Waiter| match waiter.waits_for {
            WaitsFor::Listing(length) if waiter.needs.round == round => length,
            _ => 0,
        };
        self.requests.iter().map(length).max().unwrap_or_default()
    }

    pub(crate) fn needs_listing(&self) -> bool {
        self.requests.iter().any(|waiter| matches!(waiter.waits_for, WaitsFor::Listing(_)))
    }

    /// Removes the requests and signals that are ready, the oldest first, at most `limit`.
    pub(crate) fn take_ready(
        &mut self,
        limit: usize,
        answers: impl Fn(&Waiter) -> bool,
        decides: impl Fn(&HeldSignal) -> bool,
    ) -> (Vec<Waiter>, Vec<HeldSignal>) {
        let waiters = self.requests.extract_if(.., |waiter| answers(waiter));
        let requests: Vec<Waiter> = waiters.take(limit).collect();
        let signals = self.signals.extract_if(.., |held| decides(held));
        let signals = signals.take(limit.saturating_sub(requests.len())).collect();
        (requests, signals)
    }

    /// Forgets that the metrics wait, if they have what they need or their time is over.
    pub(crate) fn refresh_metrics(&mut self, now: Moment, has_answers: impl Fn(Needs) -> bool) {
        self.metrics = self.metrics.filter(|(needs, until)| now < *until && !has_answers(*needs));
    }
}
