//! The names of the environment variables of this program, and the only place that reads them.
//!
//! Everything else gets a [`Lookup`], so that tests can pass their own values. Variables of tools
//! that this program starts (pip's `PIP_INDEX_URL`, cargo's `CARGO_HOME`) are not listed; nor are
//! `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, which the HTTP clients read.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The path of the Envoy to use; no other one is tried.
pub const LASTSTREAM_ENVOY: &str = "LASTSTREAM_ENVOY";
/// The folder for downloaded files, instead of `laststream` in the user's cache folder.
pub const LASTSTREAM_CACHE: &str = "LASTSTREAM_CACHE";
/// Unless it is empty, `0` or `false`, nothing is downloaded: only files on this machine are used.
pub const LASTSTREAM_OFFLINE: &str = "LASTSTREAM_OFFLINE";
/// The user's cache folder, when [`LASTSTREAM_CACHE`] is not set.
pub const XDG_CACHE_HOME: &str = "XDG_CACHE_HOME";
/// The user's home, for the cache folder below it.
pub const HOME: &str = "HOME";
/// The user name at a registry, instead of the credentials of docker and podman.
pub const LASTSTREAM_REGISTRY_USERNAME: &str = "LASTSTREAM_REGISTRY_USERNAME";
pub const LASTSTREAM_REGISTRY_PASSWORD: &str = "LASTSTREAM_REGISTRY_PASSWORD";
/// The folder of docker's `config.json`, instead of `.docker` in the user's home.
pub const DOCKER_CONFIG: &str = "DOCKER_CONFIG";
/// Podman's file of credentials.
pub const REGISTRY_AUTH_FILE: &str = "REGISTRY_AUTH_FILE";
/// The folder of podman's credentials, if [`REGISTRY_AUTH_FILE`] is not set.
pub const XDG_RUNTIME_DIR: &str = "XDG_RUNTIME_DIR";
/// The folder of settings, in which podman looks next, instead of `.config` in the user's home.
pub const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
/// The address of the gate, instead of `http://127.0.0.1:16091`.
pub const LASTSTREAM_GATE: &str = "LASTSTREAM_GATE";
/// The gate's secret, sent as `x-laststream-secret`.
pub const LASTSTREAM_SECRET: &str = "LASTSTREAM_SECRET";
/// Secrets of this program. The command of `exec`, Envoy, and short-lived children (pip, cargo,
/// cosign, credential helpers) do not inherit them.
pub const SECRETS: [&str; 3] =
    [LASTSTREAM_SECRET, LASTSTREAM_REGISTRY_USERNAME, LASTSTREAM_REGISTRY_PASSWORD];
/// The files that name clusters and users, as kubectl reads it.
pub const KUBECONFIG: &str = "KUBECONFIG";
/// The shell whose completion script asks for candidates.
pub const LASTSTREAM_COMPLETE: &str = "LASTSTREAM_COMPLETE";
/// The folders in which programs are searched.
pub const PATH: &str = "PATH";

/// Returns the value of a variable.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The variables of this process; an empty one counts as not set.
pub fn of_process(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// A command that inherits the environment without this program's secrets. Variables that the
/// command needs itself, such as `DOCKER_CONFIG`, stay.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    hide_secrets(&mut command);
    command
}

/// Removes this program's secrets from a command's environment.
pub fn hide_secrets(command: &mut Command) {
    for name in SECRETS {
        command.env_remove(name);
    }
}

pub fn search_path(lookup: Lookup<'_>) -> Vec<PathBuf> {
    lookup(PATH).map(|value| std::env::split_paths(&value).collect()).unwrap_or_default()
}

/// The possible paths of a program, in order. Relative folders are skipped, because the result
/// would depend on the current folder.
pub fn files_of(program: &Path, folders: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    folders.iter().filter(|folder| folder.is_absolute()).map(move |folder| folder.join(program))
}

/// Whether a variable is set to something other than `0` and `false`.
pub fn is_on(name: &str, lookup: Lookup<'_>) -> bool {
    lookup(name).is_some_and(|value| {
        !value.is_empty() && value != "0" && !value.eq_ignore_ascii_case("false")
    })
}
