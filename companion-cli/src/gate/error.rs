//! Why a request to the gate failed.

use std::time::Duration;

/// No answer, or none that the gate gives.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// Nothing has this address.
    #[error("no program listens there")]
    Refused,
    /// The address cannot be found.
    #[error("there is no such host")]
    NoHost,
    /// There is no way to it; in a pod without a loopback interface, for one.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// Silence.
    #[error("no answer within {} ms", .0.as_millis())]
    Silence(Duration),
    /// The connection ended before the answer did.
    #[error("the connection broke off: {0}")]
    Broken(String),
    /// The route behind the gate answered.
    #[error("its VM is not there at the moment: status 503 without a body of the gate's")]
    Away,
    /// The secret is missing or wrong.
    #[error("it refuses: {0} (the secret comes from LASTSTREAM_SECRET or `--secret-file`)")]
    Forbidden(String),
    /// The request makes no sense to it.
    #[error("it refuses: {0}")]
    Refusal(String),
    /// Another program answers there.
    #[error("status {0}, and a body that is not the gate's: is this a gate?")]
    Stranger(u16),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl GateError {
    /// Whether the gate is gone, as far as one connection shows.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Refused | Self::NoHost | Self::Unreachable(_))
    }

    /// Whether the request may have arrived: it ends a proxy that does not live to answer it.
    #[must_use]
    pub fn may_have_arrived(&self) -> bool {
        matches!(self, Self::Broken(_))
    }
}
