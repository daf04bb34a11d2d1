//! How often somebody asked for the end. Every wait looks at it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Shared by whoever hears of signals and whoever waits.
#[derive(Debug, Clone, Default)]
pub struct StopRequests(Arc<AtomicUsize>);

impl StopRequests {
    /// Asks once more.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Asked once: drain, and begin nothing new.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Asked again: wait for nothing any more.
    #[must_use]
    pub fn is_forced(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 1
    }
}
