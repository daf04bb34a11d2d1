//! Why a request to the gate failed.

use std::time::Duration;

/// A request to the gate got no answer, or not the expected one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    #[error("no program listens there")]
    ConnectionRefused,
    #[error("there is no such host")]
    NoHost,
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error("the connection broke off: {0}")]
    ConnectionClosed(String),
    #[error("its VM is not there at the moment: status 503 without a body of the gate's")]
    VmMissing,
    #[error("it refuses: {0} (the secret comes from LASTSTREAM_SECRET or `--secret-file`)")]
    Forbidden(String),
    #[error("it refuses: {0}")]
    Rejected(String),
    #[error("status {0}, and a body that is not the gate's: is this a gate?")]
    NotAGate(u16),
    #[error("{0}")]
    Other(String),
}

impl GateError {
    /// Whether the gate is gone, as far as one connection shows.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::ConnectionRefused | Self::NoHost | Self::Unreachable(_))
    }

    /// Whether the request may have arrived: a proxy that it ends may close the connection before
    /// it answers.
    pub fn may_have_arrived(&self) -> bool {
        matches!(self, Self::ConnectionClosed(_))
    }
}
