//! Why there is no release.

use std::io;
use std::path::PathBuf;

/// Why there is no release.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// A file or an archive.
    #[error("{what}: {error}")]
    Io {
        /// What was read or written.
        what: String,
        /// What went wrong.
        error: io::Error,
    },
    /// JSON of another program.
    #[error("{what} is not the expected JSON: {problem}")]
    Json {
        /// Whose JSON.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A command of the released program.
    #[error("`{command}` failed: {problem}")]
    Command {
        /// The command.
        command: String,
        /// What it said.
        problem: String,
    },
    /// The folder for the files.
    #[error("`{}` is not empty: remove it, or name another folder", .0.display())]
    NotEmpty(PathBuf),
    /// This program was built without a module.
    #[error("this build of laststream-release has no module: {0}")]
    NoModule(&'static str),
    /// The released programs and this one were not built from the same sources.
    #[error(
        "the released program has the module image `{program}`, this one `{this}`: build both from \
            the same sources"
    )]
    OtherModule {
        /// Digest of the program's.
        program: String,
        /// Digest of ours.
        this: String,
    },
    /// The manual pages and completions come from the released program.
    #[error("none of the released programs runs on this machine ({0})")]
    NoProgramForThisMachine(&'static str),
}

/// Says what an [`io::Error`] is about.
pub(crate) trait In<T> {
    fn in_(self, what: impl Into<String>) -> Result<T, ReleaseError>;
}

impl<T> In<T> for io::Result<T> {
    fn in_(self, what: impl Into<String>) -> Result<T, ReleaseError> {
        self.map_err(|error| ReleaseError::Io { what: what.into(), error })
    }
}

impl<T> In<T> for serde_json::Result<T> {
    fn in_(self, what: impl Into<String>) -> Result<T, ReleaseError> {
        self.map_err(|error| ReleaseError::Json { what: what.into(), problem: error.to_string() })
    }
}
