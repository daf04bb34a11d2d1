//! Why a demo could not be set up.

use std::io;

/// What went wrong. What comes out of the lanes is no error.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// No place for the Envoys' files.
    #[error("cannot make a folder for the demo's files: {error}")]
    Folder {
        /// What the system said.
        error: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write `{file}`: {error}")]
    File {
        /// Its path.
        file: String,
        /// What the system said.
        error: io::Error,
    },
    /// The built-in app, or the model of the agent, has no port.
    #[error("cannot listen on 127.0.0.1: {error}")]
    Listen {
        /// What the system said.
        error: io::Error,
    },
    /// An Envoy did not start.
    #[error("the Envoy `{name}` did not start: {why}")]
    Start {
        /// The Envoy's name.
        name: String,
        /// What it said, or the system.
        why: String,
    },
    /// A connection that nothing was to disturb.
    #[error("{what} failed: {why}")]
    Connection {
        /// What the connection was for.
        what: &'static str,
        /// What happened.
        why: String,
    },
    /// What is rendered for the lane of laststream cannot be used.
    #[error("the bootstrap that `render envoy` gives cannot be used: {why}")]
    Rendered {
        /// What is wrong with it.
        why: String,
    },
    /// A part of the demo itself failed.
    #[error("a lane of the demo broke off: this is an error of laststream's")]
    Broken,
    /// Sockets have short names.
    #[error(
        "the folder for temporary files, `{folder}`, has too long a path for sockets: set TMPDIR \
            to a shorter one"
    )]
    TooLong {
        /// The folder.
        folder: String,
    },
    /// It was interrupted.
    #[error("interrupted; every Envoy has been ended")]
    Interrupted,
}
