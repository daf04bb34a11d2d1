//! Errors of making a release.

use std::io;
use std::path::PathBuf;

/// The reason why there is no release.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// A file or an archive could not be read or written.
    #[error("{what}: {error}")]
    Io {
        /// The failed operation or its object.
        what: String,
        /// The underlying error.
        error: io::Error,
    },
    /// The JSON of another program cannot be used.
    #[error("{what} is not the expected JSON: {problem}")]
    Json {
        /// The object that should be JSON.
        what: String,
        /// The problem with it.
        problem: String,
    },
    /// A command of the released program failed.
    #[error("`{command}` failed: {problem}")]
    Command {
        /// The command.
        command: String,
        /// Its exit status and standard error.
        problem: String,
    },
    /// The folder for the files is not empty.
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
        /// The digest of the released program's module.
        program: String,
        /// The digest of this program's module.
        this: String,
    },
    /// No released program can run here, but the manual pages and completions come from one.
    #[error("none of the released programs runs on this machine ({0})")]
    NoProgramForThisMachine(&'static str),
}

/// Adds the failed operation or its object to an error.
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
