//! Exit codes.

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Fine,
    /// What was looked at is not as it should be.
    Found,
    /// The work could not be done.
    Failed,
    /// The arguments make no sense; sysexits' EX_USAGE.
    Usage,
    /// As a command did that was run.
    Of(u8),
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Fine => 0,
            Self::Found => 1,
            Self::Failed => 2,
            Self::Usage => 64,
            Self::Of(code) => code,
        }
    }
}
