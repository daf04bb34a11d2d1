//! The requests that the gate holds, and the condition that each waits for.

/// The condition that a held request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum WaitsFor {
    /// Fresh counts, for a status.
    Counts,
    /// Fresh counts, for the metrics alone; there is no stream to answer.
    Metrics,
    /// Fresh counts, to answer whether the gate is open at this moment.
    Ready,
    /// The gate to open.
    Opening,
    /// A fresh listing of at most this number of streams.
    Listing(usize),
    /// Every counter to check the latch, so that a signal may pass.
    Signal,
}

/// The first answers that are new enough, by their numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Needs {
    /// The round of the census.
    pub(crate) round: u64,
    /// The query to Envoy; 0 for none.
    pub(crate) query: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Waiter {
    pub(crate) stream: u32,
    pub(crate) waits_for: WaitsFor,
    /// The latest time at which it is answered.
    pub(crate) until: u64,
    pub(crate) needs: Needs,
    /// The path of a signal.
    pub(crate) path: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Waiting(Vec<Waiter>);

impl Waiting {
    pub(crate) fn hold(&mut self, waiter: Waiter) {
        self.0.push(waiter);
    }

    /// Forgets the request of a client that has gone, or that was answered.
    pub(crate) fn forget(&mut self, stream: u32) {
        if let Some(index) = self.0.iter().position(|waiter| waiter.stream == stream) {
            self.0.remove(index);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn any(&self, waits_for: WaitsFor) -> bool {
        self.0.iter().any(|waiter| waiter.waits_for == waits_for)
    }

    /// Whether a signal waits that was not tried yet, and that needs no newer answer of Envoy for
    /// it.
    pub(crate) fn has_untried_signal(&self) -> bool {
        self.0.iter().any(|waiter| waiter.waits_for == WaitsFor::Signal && waiter.needs.query == 0)
    }

    /// The latest query to Envoy that a request wants at once. A signal that is tried again wants
    /// one at intervals: otherwise each answer, and each reply, would begin the next query.
    pub(crate) fn wanted_query(&self) -> Option<u64> {
        self.0
            .iter()
            .filter(|waiter| !matches!(waiter.waits_for, WaitsFor::Opening | WaitsFor::Signal))
            .map(|waiter| waiter.needs.query)
            .max()
    }

    /// Whether a request waits for fresh counts, and not for the end of the drain.
    pub(crate) fn needs_fresh_counts(&self) -> bool {
        self.0.iter().any(|waiter| waiter.waits_for != WaitsFor::Opening)
    }

    /// The number of streams that the counters must list in this round. One listing is enough for a
    /// request.
    pub(crate) fn list_limit(&self, round: u64) -> usize {
        let length = |waiter: &Waiter| match waiter.waits_for {
            WaitsFor::Listing(length) if waiter.needs.round == round => length,
            _ => 0,
        };
        self.0.iter().map(length).max().unwrap_or_default()
    }

    pub(crate) fn needs_listing(&self) -> bool {
        self.0.iter().any(|waiter| matches!(waiter.waits_for, WaitsFor::Listing(_)))
    }

    /// Removes the requests that are ready, the oldest first, at most `limit`.
    pub(crate) fn take_ready(
        &mut self,
        limit: usize,
        is_ready: impl Fn(&Waiter) -> bool,
    ) -> Vec<Waiter> {
        let mut taken = Vec::new();
        let mut index = 0;
        while let Some(waiter) = self.0.get(index).filter(|_| taken.len() < limit) {
            if is_ready(waiter) {
                taken.push(self.0.remove(index));
            } else {
                index += 1;
            }
        }
        taken
    }
}
