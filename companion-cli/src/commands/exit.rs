//! Exit codes.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
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
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Negative => 1,
            Self::Failed => 2,
            Self::Usage => 64,
            Self::Child(code) => code,
        }
    }
}
