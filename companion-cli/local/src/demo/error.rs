//! Why a demo could not be set up.

use std::io;

/// Why a demo could not be set up. An unexpected result of a lane is not an error.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The folder for the Envoys' files cannot be made.
    #[error("cannot make a folder for the demo's files: {error}")]
    Folder {
        /// The system's error.
        error: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write `{file}`: {error}")]
    File {
        /// Its path.
        file: String,
        /// The system's error.
        error: io::Error,
    },
    /// The built-in app, or the model of the agent, has no port.
    #[error("cannot listen on 127.0.0.1: {error}")]
    Listen {
        /// The system's error.
        error: io::Error,
    },
    /// An Envoy did not start.
    #[error("the Envoy `{name}` did not start: {why}")]
    Start {
        /// The Envoy's name.
        name: String,
        /// The reason, with Envoy's complaints, or the system's error.
        why: String,
    },
    /// A connection failed that nothing should disturb.
    #[error("{what} failed: {why}")]
    Connection {
        /// The purpose of the connection.
        what: &'static str,
        /// The cause.
        why: String,
    },
    /// The bootstrap that is rendered for laststream cannot be used.
    #[error("the bootstrap that `render envoy` gives cannot be used: {why}")]
    Rendered {
        /// The cause.
        why: String,
    },
    /// A part of the demo itself failed.
    #[error("a lane of the demo broke off: this is an error of laststream's")]
    Broken,
    /// The path of the folder is too long for the sockets in it.
    #[error(
        "the folder for temporary files, `{folder}`, has too long a path for sockets: set TMPDIR \
            to a shorter one"
    )]
    TooLong {
        /// The folder.
        folder: String,
    },
    /// The demo was interrupted.
    #[error("interrupted; every Envoy has been ended")]
    Interrupted,
}
