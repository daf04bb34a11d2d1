//! The requests that begin, cancel and force the end of a drain. They are the same for a client at
//! the gate and for one that reaches it through the Kubernetes API.

use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::answer::{GateAnswer, read};
use super::bodies::Outcome;
use super::error::GateError;
use super::http::Response;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DrainCommand {
    Begin,
    /// Cancels the drain. The answer says what Envoy cannot undo.
    Cancel,
    /// Opens the gate, for this reason.
    Force(String),
}

impl DrainCommand {
    pub fn method(&self) -> Method {
        match self {
            Self::Begin | Self::Force(_) => Method::POST,
            Self::Cancel => Method::DELETE,
        }
    }

    pub fn path(&self) -> String {
        match self {
            Self::Begin | Self::Cancel => "/drain".to_owned(),
            Self::Force(reason) => {
                format!("/force?reason={}", utf8_percent_encode(reason, NON_ALPHANUMERIC))
            }
        }
    }

    /// Reads the gate's response.
    ///
    /// # Errors
    /// The gate refuses, or the response is not one of a gate.
    pub fn read(&self, response: Response) -> Result<GateAnswer<Outcome>, GateError> {
        let expected = if *self == Self::Begin { 202 } else { 200 };
        read(response, &[expected])
    }

    /// Whether no drain begins: an expired or forced gate begins none until it serves again, which
    /// it does after `open_ms`, or when the drain is cancelled.
    pub fn is_without_effect(&self, outcome: &Outcome) -> bool {
        *self == Self::Begin && matches!(outcome.state.as_str(), "expired" | "forced")
    }
}
