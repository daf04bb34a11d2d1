//! Waits for a part of an Envoy that starts.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::log::Log;

/// The longest wait for an Envoy to start, on however busy a machine.
pub(crate) const START: Duration = Duration::from_secs(60);
/// The time after which a part that Envoy has rejected no longer comes.
const SETTLED: Duration = Duration::from_secs(2);
/// The time within which this program has a signal for its group, on however busy a machine.
const SIGNALLED: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);

/// Why a part of Envoy is not ready.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotReady {
    Ended(ExitStatus),
    /// The user has stopped the wait.
    Stopped,
    /// Envoy has rejected its configuration, for this reason.
    Refused(String),
    /// The time is over.
    Late,
}

/// Polls `look` until it returns a value.
pub(crate) fn until<T>(
    log: &Log,
    began: Instant,
    mut ended: impl FnMut() -> Option<ExitStatus>,
    is_stopped: impl Fn() -> bool,
    look: impl Fn() -> Option<T>,
) -> Result<T, NotReady> {
    loop {
        if let Some(status) = ended() {
            return Err(why_ended(status, is_stopped));
        }
        if is_stopped() {
            return Err(NotReady::Stopped);
        }
        if let Some(value) = look() {
            return Ok(value);
        }
        if let Some(reason) = log.refusal(0).filter(|_| began.elapsed() > SETTLED) {
            return Err(NotReady::Refused(reason));
        }
        if began.elapsed() > START {
            return Err(NotReady::Late);
        }
        sleep(PAUSE);
    }
}

/// A signal for this program's process group also ends an Envoy that has not left the group yet.
/// This program gets the signal, too, but on a busy machine a little later.
fn why_ended(status: ExitStatus, is_stopped: impl Fn() -> bool) -> NotReady {
    let start = Instant::now();
    while status.signal().is_some() && !is_stopped() && start.elapsed() < SIGNALLED {
        sleep(PAUSE);
    }
    if is_stopped() { NotReady::Stopped } else { NotReady::Ended(status) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_rejected_configuration_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::new(folder.path().join("log"));
        std::fs::write(log.path(), "[warning] listener rejected: no such filter\n").unwrap();
        let began = Instant::now();
        let looked = until(&log, began, || None, || false, || None::<()>);
        assert_eq!(looked, Err(NotReady::Refused("no such filter".to_owned())));
        assert!((SETTLED..START).contains(&began.elapsed()), "{:?}", began.elapsed());
        assert_eq!(until(&log, began, || None, || false, || Some(1)), Ok(1), "it came after all");
        assert_eq!(until(&log, began, || None, || true, || Some(1)), Err(NotReady::Stopped));
    }

    #[test]
    fn a_signal_that_also_ends_envoy_stops_the_wait() {
        let interrupted = ExitStatus::from_raw(2);
        let looks = Cell::new(0);
        let is_stopped = || looks.replace(looks.get() + 1) > 2;
        assert_eq!(why_ended(interrupted, is_stopped), NotReady::Stopped);
        assert_eq!(why_ended(interrupted, || false), NotReady::Ended(interrupted));
        let failed = ExitStatus::from_raw(1 << 8);
        assert_eq!(why_ended(failed, || false), NotReady::Ended(failed));
    }
}
