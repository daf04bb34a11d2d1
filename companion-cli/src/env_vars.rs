//! The names of the environment variables of this program, and the only place that reads them.
//!
//! Everything else gets a [`Lookup`], so that tests give values of their own. What a tool that is
//! started here reads (pip's `PIP_INDEX_URL`, cargo's `CARGO_HOME`) is not listed; nor are
//! `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, which the HTTP clients read.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A path to an Envoy that must be used; nothing else is tried.
pub const LASTSTREAM_ENVOY: &str = "LASTSTREAM_ENVOY";
/// The folder for downloaded files, instead of `laststream` in the user's cache folder.
pub const LASTSTREAM_CACHE: &str = "LASTSTREAM_CACHE";
/// Where releases of Envoy are fetched from, instead of
/// `https://github.com/envoyproxy/envoy/releases/download`.
pub const LASTSTREAM_ENVOY_MIRROR: &str = "LASTSTREAM_ENVOY_MIRROR";
/// Anything but empty, `0` or `false`: nothing is fetched, only what is there already is used.
pub const LASTSTREAM_OFFLINE: &str = "LASTSTREAM_OFFLINE";
/// The user's cache folder, when [`LASTSTREAM_CACHE`] is not set.
pub const XDG_CACHE_HOME: &str = "XDG_CACHE_HOME";
/// The user's home, for the cache folder below it.
pub const HOME: &str = "HOME";
/// The user at a registry, instead of those that docker and podman know.
pub const LASTSTREAM_REGISTRY_USERNAME: &str = "LASTSTREAM_REGISTRY_USERNAME";
/// The password at a registry.
pub const LASTSTREAM_REGISTRY_PASSWORD: &str = "LASTSTREAM_REGISTRY_PASSWORD";
/// The folder of docker's `config.json`, instead of `.docker` in the user's home.
pub const DOCKER_CONFIG: &str = "DOCKER_CONFIG";
/// Podman's file of credentials.
pub const REGISTRY_AUTH_FILE: &str = "REGISTRY_AUTH_FILE";
/// The folder in which podman keeps it otherwise.
pub const XDG_RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";
/// The folder of settings, where podman looks next, instead of `.config` in the user's home.
pub const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
/// Where the gate is, instead of `http://127.0.0.1:15091`.
pub const LASTSTREAM_GATE: &str = "LASTSTREAM_GATE";
/// What the gate wants to see in `x-laststream-secret`.
pub const LASTSTREAM_SECRET: &str = "LASTSTREAM_SECRET";
/// Secrets of this program. The command of `exec`, Envoy, and all that runs for a moment (pip,
/// cargo, cosign, credential helpers) do not inherit them.
pub const SECRETS: [&str; 3] =
    [LASTSTREAM_SECRET, LASTSTREAM_REGISTRY_USERNAME, LASTSTREAM_REGISTRY_PASSWORD];
/// The files that name clusters and users, as kubectl reads it.
pub const KUBECONFIG: &str = "KUBECONFIG";
/// Where programs are searched.
pub const PATH: &str = "PATH";

/// Gives the value of a variable.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The variables of this process; an empty one counts as not set.
#[must_use]
pub fn of_process(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// A command that inherits the environment without our secrets. It keeps what it needs itself, such
/// as `DOCKER_CONFIG`.
#[must_use]
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    hide_secrets(&mut command);
    command
}

/// A command does not inherit our secrets.
pub(crate) fn hide_secrets(command: &mut Command) {
    for name in SECRETS {
        command.env_remove(name);
    }
    // A mirror's URL may hold a user and a password.
    if of_process(LASTSTREAM_ENVOY_MIRROR).is_some_and(|url| url.as_encoded_bytes().contains(&b'@'))
    {
        command.env_remove(LASTSTREAM_ENVOY_MIRROR);
    }
}

/// The folders in which programs are searched.
pub(crate) fn search_path(lookup: Lookup<'_>) -> Vec<PathBuf> {
    lookup(PATH).map(|value| std::env::split_paths(&value).collect()).unwrap_or_default()
}

/// Where a program of this name may be, in order. Folders that are not absolute would make it
/// matter in which folder one stands, so they do not count.
pub(crate) fn files_of(program: &Path, folders: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    folders.iter().filter(|folder| folder.is_absolute()).map(move |folder| folder.join(program))
}

/// Whether a variable is set to something other than `0` and `false`.
#[must_use]
pub fn is_on(name: &str, lookup: Lookup<'_>) -> bool {
    lookup(name).is_some_and(|value| {
        !value.is_empty() && value != "0" && !value.eq_ignore_ascii_case("false")
    })
}
