//! Requests to stop: Ctrl-C, SIGTERM, or a terminal that was closed.

use std::io;
use std::time::{Duration, Instant};

use laststream_base::children;
use laststream_local::run::StopRequests;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Ctrl-C reaches every process of the terminal, and a parent such as `cargo run` forwards it: two
/// signals within this time are one request.
const ECHO: Duration = Duration::from_millis(300);

/// Makes signals requests to stop, instead of ending the process. A SIGHUP that is ignored, as
/// under `nohup`, stays ignored. An ignored SIGINT is handled, because shells without job control
/// ignore it for background jobs.
pub(super) fn stop_at_signals(stop: StopRequests) -> io::Result<()> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM].into_iter().chain(children::not_ignored(&[SIGHUP])))?;
    children::leave_signals();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        let mut last: Option<Instant> = None;
        for _ in signals.forever() {
            if last.is_none_or(|last| last.elapsed() > ECHO) {
                stop.add();
            }
            last = Some(Instant::now());
        }
    })?;
    Ok(())
}
