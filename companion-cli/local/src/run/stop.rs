//! Counts requests to stop. Every wait checks the count.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The count of requests to stop, which the signal handler and the waits share.
#[derive(Debug, Clone, Default)]
pub struct StopRequests(Arc<AtomicUsize>);

impl StopRequests {
    /// Adds a request to stop.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether there was at least one request: the run drains, and begins nothing new.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Whether there was more than one request: the run does not wait any longer.
    pub fn is_forced(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 1
    }
}
