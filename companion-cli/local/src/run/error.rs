//! Errors of a run, with what to do.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

/// Why a run has no running Envoy.
#[derive(Debug, Error)]
pub enum RunnerError {
    /// The port is taken.
    #[error("{what}: {at} is in use already; name another port, or 0 for any free one")]
    InUse {
        /// The purpose of the port.
        what: &'static str,
        /// The address.
        at: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("{what}: nothing can listen on {at}: {source}")]
    Listen {
        /// The purpose of the address.
        what: &'static str,
        /// The address.
        at: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// A file cannot be written or read.
    #[error("`{}`: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Envoy cannot be started.
    #[error("`{}` cannot be started: {source}", envoy.display())]
    Start {
        /// The program.
        envoy: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Envoy ended at its start.
    #[error("Envoy ended at its start ({status}); the end of `{}`:\n{tail}", log.display())]
    Ended {
        /// Its exit status.
        status: String,
        /// Envoy's log.
        log: PathBuf,
        /// The end of the log.
        tail: String,
    },
    /// Envoy rejected its configuration.
    #[error("Envoy refuses this: {reason}\nmore is in `{}`", log.display())]
    Refused {
        /// Envoy's reason.
        reason: String,
        /// Envoy's log.
        log: PathBuf,
    },
    /// The run was interrupted before Envoy was ready.
    #[error("interrupted before Envoy was ready")]
    Stopped,
    /// The start of Envoy takes too long.
    #[error("{what} is not there after {} s; the end of \
        `{}`:\n{tail}", after.as_secs(), log.display())]
    Late {
        /// The part that is not there.
        what: &'static str,
        /// The time limit.
        after: Duration,
        /// Envoy's log.
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
    /// Envoy rejected the update.
    #[error("Envoy refuses it: {0}")]
    Envoy(String),
    /// Envoy cannot be asked.
    #[error("Envoy cannot be asked about it: {0}")]
    Unknown(String),
    /// The update was interrupted.
    #[error("interrupted by a request to stop")]
    Stopped,
    /// Envoy did not react in time.
    #[error("Envoy has neither accepted nor rejected it within {} s", .0.as_secs())]
    Silence(Duration),
    /// The update could not be written for Envoy.
    #[error("{0}")]
    Files(RunnerError),
}
