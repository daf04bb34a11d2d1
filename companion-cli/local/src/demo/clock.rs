//! Waits that end early if the demo is interrupted or takes too long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time between two checks in a wait.
pub(super) const GRAIN: Duration = Duration::from_millis(10);

/// The demo's clock: the time since the requests were sent.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    began: Instant,
    limit: Duration,
    stop: Arc<AtomicBool>,
}

impl Clock {
    pub(super) fn start(limit: Duration, stop: Arc<AtomicBool>) -> Self {
        Self { began: Instant::now(), limit, stop }
    }

    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether all waits should end.
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.now() > self.limit
    }

    pub(super) fn pause(&self, duration: Duration) {
        let end = Instant::now() + duration;
        self.until(|| Instant::now() >= end);
    }

    /// Waits until the condition holds; `false` if the demo is over before.
    pub(super) fn until(&self, mut is_so: impl FnMut() -> bool) -> bool {
        loop {
            if is_so() {
                return true;
            }
            if self.is_over() {
                return false;
            }
            sleep(GRAIN);
        }
    }
}
