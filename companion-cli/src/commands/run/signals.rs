//! How often somebody asked for the end: Ctrl-C, SIGTERM, or the terminal was closed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Programs that start others pass on what the terminal has told them all; that is not asking twice.
const ECHO: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub(super) struct Asked(Arc<AtomicUsize>);

impl Asked {
    pub(super) fn listen() -> io::Result<Self> {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        let times = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&times);
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            let mut last: Option<Instant> = None;
            for _ in signals.forever() {
                if last.is_none_or(|last| last.elapsed() > ECHO) {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                last = Some(Instant::now());
            }
        })?;
        Ok(Self(times))
    }

    pub(super) fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
