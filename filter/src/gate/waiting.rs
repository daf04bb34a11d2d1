//! Requests that are held until there is something to say.

/// What a held request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum For {
    /// Fresh counts, for a status.
    Counts,
    /// Fresh counts, to tell whether the gate is open at this moment.
    Ready,
    /// The gate to open.
    Opening,
    /// A fresh listing of so many streams.
    Listing(usize),
    /// Everybody to mind the gate, so that a signal may pass.
    Signal,
}

/// Answers that were asked for after a moment, by their numbers: then they tell of a later one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Needs {
    /// The round of the census.
    pub(crate) round: u64,
    /// The question to Envoy; 0 for none.
    pub(crate) question: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Waiter {
    pub(crate) stream: u32,
    pub(crate) what: For,
    /// When it is answered at the latest.
    pub(crate) until: u64,
    pub(crate) needs: Needs,
    /// What to pass on.
    pub(crate) path: String,
}

/// More answers in one call of the VM nest deeper than its stack allows.
pub(crate) const AT_ONCE: usize = 64;

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Waiting(Vec<Waiter>);

impl Waiting {
    pub(crate) fn hold(&mut self, waiter: Waiter) {
        self.0.push(waiter);
    }

    /// The client has gone, or was answered.
    pub(crate) fn forget(&mut self, stream: u32) {
        if let Some(index) = self.0.iter().position(|waiter| waiter.stream == stream) {
            self.0.remove(index);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn any(&self, what: For) -> bool {
        self.0.iter().any(|waiter| waiter.what == what)
    }

    /// Whether a signal waits that needs no newer count to be tried.
    pub(crate) fn has_untried_signal(&self) -> bool {
        self.0.iter().any(|waiter| waiter.what == For::Signal && waiter.needs.question == 0)
    }

    /// The latest question to Envoy whose answer is waited for now.
    pub(crate) fn wanted_question(&self) -> Option<u64> {
        self.0
            .iter()
            .filter(|waiter| waiter.what != For::Opening)
            .map(|waiter| waiter.needs.question)
            .max()
    }

    /// Whether somebody waits for fresh answers, and not for the end.
    pub(crate) fn presses(&self) -> bool {
        self.0.iter().any(|waiter| waiter.what != For::Opening)
    }

    /// How many streams must be listed for whoever waits for that.
    pub(crate) fn longest_listing(&self) -> usize {
        let length =
            |waiter: &Waiter| if let For::Listing(length) = waiter.what { length } else { 0 };
        self.0.iter().map(length).max().unwrap_or_default()
    }

    /// Takes out those that are ready, the oldest first, as many as may be answered at once.
    pub(crate) fn ready(&mut self, mut ready: impl FnMut(&Waiter) -> bool) -> Vec<Waiter> {
        let mut taken = Vec::new();
        let mut index = 0;
        while let Some(waiter) = self.0.get(index).filter(|_| taken.len() < AT_ONCE) {
            if ready(waiter) {
                taken.push(self.0.remove(index));
            } else {
                index += 1;
            }
        }
        taken
    }
}
