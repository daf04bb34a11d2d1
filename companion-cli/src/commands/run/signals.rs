//! How often somebody asked for the end: Ctrl-C, SIGTERM, or the terminal was closed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

#[derive(Debug)]
pub(super) struct Asked(Arc<AtomicUsize>);

impl Asked {
    pub(super) fn listen() -> io::Result<Self> {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
        let times = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&times);
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for _ in signals.forever() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        })?;
        Ok(Self(times))
    }

    pub(super) fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
