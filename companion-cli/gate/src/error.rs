//! Why a request to the gate failed.

use std::time::Duration;

/// A request to the gate got no answer, or not the expected one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// No program listens on this address.
    #[error("no program listens there")]
    ConnectionRefused,
    /// The host name cannot be resolved.
    #[error("there is no such host")]
    NoHost,
    /// There is no route to the address, for example in a pod without a loopback interface.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// No answer in time.
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The connection ended before the answer did.
    #[error("the connection broke off: {0}")]
    ConnectionClosed(String),
    /// The gate's VM is missing, so that Envoy's route behind the gate answered.
    #[error("its VM is not there at the moment: status 503 without a body of the gate's")]
    VmMissing,
    /// 403: the secret is missing or wrong, for example.
    #[error("it refuses: {0} (the secret comes from LASTSTREAM_SECRET or `--secret-file`)")]
    Forbidden(String),
    /// The gate rejects the request for another reason.
    #[error("it refuses: {0}")]
    Rejected(String),
    /// Another program answers at this address.
    #[error("status {0}, and a body that is not the gate's: is this a gate?")]
    NotAGate(u16),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl GateError {
    /// Whether the gate is gone, as far as one connection shows.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::ConnectionRefused | Self::NoHost | Self::Unreachable(_))
    }

    /// Whether the request may have arrived: a proxy that it ends may close the connection before
    /// it answers.
    #[must_use]
    pub fn may_have_arrived(&self) -> bool {
        matches!(self, Self::ConnectionClosed(_))
    }
}
