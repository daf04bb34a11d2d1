//! Why a policy and a bootstrap do not go together.

use laststream_policy::PolicyProblem;

/// Why a policy cannot be merged into a file.
#[derive(Debug, thiserror::Error)]
pub enum IntoError {
    #[error(transparent)]
    Policy(#[from] PolicyProblem),
    #[error(transparent)]
    File(#[from] MergeError),
}

/// Why a file cannot take laststream, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct MergeError {
    pub(super) line: Option<u32>,
    pub(super) message: String,
}

impl MergeError {
    pub(super) fn of(message: impl Into<String>) -> Self {
        Self { line: None, message: message.into() }
    }
}
