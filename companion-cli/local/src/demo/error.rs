//! Why a demo could not be set up.

use std::io;

/// Why a demo could not be set up. An unexpected result of a lane is not an error.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error("cannot make a folder for the demo's files: {error}")]
    Folder { error: io::Error },
    #[error("cannot write `{file}`: {error}")]
    File { file: String, error: io::Error },
    #[error("cannot listen on 127.0.0.1: {error}")]
    Listen { error: io::Error },
    #[error("the Envoy `{name}` did not start: {why}")]
    Start {
        name: String,
        /// The reason, with Envoy's complaints, or the system's error.
        why: String,
    },
    #[error("{what} failed: {why}")]
    Connection { what: &'static str, why: String },
    #[error("the bootstrap that `render envoy` gives cannot be used: {why}")]
    Rendered { why: String },
    #[error("a lane of the demo broke off: this is an error of laststream's")]
    Broken,
    #[error(
        "the folder for temporary files, `{folder}`, has too long a path for sockets: set TMPDIR \
            to a shorter one"
    )]
    TooLong { folder: String },
    #[error("interrupted; every Envoy has been ended")]
    Interrupted,
}
