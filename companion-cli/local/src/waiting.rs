//! Waits for a part of an Envoy that starts.

use std::process::ExitStatus;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::log::Log;

/// The longest wait for an Envoy to start, on however busy a machine.
pub(crate) const START: Duration = Duration::from_secs(60);
/// The time after which a part that Envoy has rejected does not come any more.
const SETTLED: Duration = Duration::from_secs(2);
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
            return Err(NotReady::Ended(status));
        }
        if is_stopped() {
            return Err(NotReady::Stopped);
        }
        if let Some(found) = look() {
            return Ok(found);
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

#[cfg(test)]
mod tests {
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
}
