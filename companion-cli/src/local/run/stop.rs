//! Counts requests to stop. Every wait checks it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Shared by the signal handler and the waits.
#[derive(Debug, Clone, Default)]
pub struct StopRequests(Arc<AtomicUsize>);

impl StopRequests {
    /// Adds a request to stop.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// At least one request: drain, and begin nothing new.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// More than one request: do not wait any longer.
    #[must_use]
    pub fn is_forced(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 1
    }
}
