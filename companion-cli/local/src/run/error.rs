//! Errors of a run, with what to do.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

/// Why a run has no running Envoy.
#[derive(Debug, Error)]
pub enum RunnerError {
    #[error("{what}: {at} is in use already; name another port, or 0 for any free one")]
    InUse { what: &'static str, at: SocketAddr },
    #[error("{what}: nothing can listen on {at}: {source}")]
    Listen { what: &'static str, at: SocketAddr, source: io::Error },
    #[error("`{}`: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("`{}` cannot be started: {source}", envoy.display())]
    Start { envoy: PathBuf, source: io::Error },
    #[error("Envoy ended at its start ({status}); the end of `{}`:\n{tail}", log.display())]
    Ended {
        status: String,
        log: PathBuf,
        /// The end of the log.
        tail: String,
    },
    #[error("Envoy refuses this: {reason}\nmore is in `{}`", log.display())]
    Refused { reason: String, log: PathBuf },
    #[error("interrupted before Envoy was ready")]
    Stopped,
    #[error("{what} is not there after {} s; the end of \
        `{}`:\n{tail}", after.as_secs(), log.display())]
    Late {
        /// The part that is not there.
        what: &'static str,
        after: Duration,
        log: PathBuf,
        /// The end of the log.
        tail: String,
    },
}

impl RunnerError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

/// Why an update was rejected. The previous configuration stays active.
#[derive(Debug, Error)]
pub enum ReplaceError {
    #[error("Envoy refuses it: {0}")]
    Envoy(String),
    #[error("Envoy cannot be asked about it: {0}")]
    Unknown(String),
    #[error("interrupted by a request to stop")]
    Stopped,
    #[error("Envoy has neither accepted nor rejected it within {} s", .0.as_secs())]
    Silence(Duration),
    #[error("{0}")]
    Files(RunnerError),
}
