//! Exit codes, and the error that ends a command.

use std::fmt::Display;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Fine,
    /// The answer is no: a finding, a time-out, streams that were cut.
    Negative,
    /// The work could not be done.
    Failed,
    /// Wrong arguments; sysexits' EX_USAGE.
    Usage,
    /// The exit code of the command that `exec` ran, or of a program that SIGPIPE ends.
    Child(u8),
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Negative => 1,
            Self::Failed => 2,
            Self::Usage => 64,
            Self::Child(code) => code,
        }
    }
}

/// How a command ends.
pub type Ended = Result<Exit, Failure>;

/// Why a command ends early. `commands::run` prints it.
pub struct Failure {
    pub exit: Exit,
    /// `None` if it has been printed already.
    pub text: Option<String>,
}

/// The work could not be done.
impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { exit: Exit::Failed, text: Some(error.to_string()) }
    }
}

/// Arguments that do not go together, or mean nothing.
pub fn misused(why: impl Display) -> Failure {
    Failure { exit: Exit::Usage, ..why.into() }
}

/// An error that has been printed.
pub fn printed(exit: Exit) -> Failure {
    Failure { exit, text: None }
}
