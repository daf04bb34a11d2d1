//! A separate home for each test, and scripts that answer as Envoy and pip would.

use kit::user::write_executable;
use laststream_base::progress::{Progress, Silent};
use laststream_local::envoy::{Limits, Origin, Places, Platform, Version, Wanted, find_or_get};
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const VERSION: Version = Version::new(1, 40, 0);

/// A folder with `bin` (the search path) and `cache`.
pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// A search for version 1.40.0 from this home, on a machine for which everything is published.
    pub(crate) fn wanted(&self, releases: &str) -> Wanted {
        // The times are generous, for machines that do much else; a test that waits for one of
        // these shortens it.
        let mut limits = Limits { size: 10 << 20, ..Limits::default() };
        limits.http.connect = Duration::from_secs(10);
        limits.http.silence = Duration::from_secs(10);
        limits.retries.pause = Duration::from_millis(10);
        let places = Places {
            cache: Some(self.path("cache")),
            search_path: vec![self.path("bin")],
            releases: releases.to_owned(),
            pip: vec![vec!["pip".into()]],
            platform: Platform { os: "linux".into(), arch: "x86_64".into() },
            proxy_from_env: false,
            limits,
        };
        Wanted::in_places(VERSION, places)
    }

    pub(crate) fn program(&self, name: &str, script: &str) -> PathBuf {
        let path = self.path(name);
        write_executable(&path, script).unwrap();
        path
    }

    /// Names of everything in the slot of 1.40.0, sorted.
    pub(crate) fn slot(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("cache/envoy/1.40.0")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// The origin of the Envoy that is found.
pub(crate) fn origin(wanted: &Wanted) -> Origin {
    find_or_get(wanted, &Silent).unwrap().origin
}

/// The error of a search that finds none.
pub(crate) fn fails(wanted: &Wanted) -> String {
    find_or_get(wanted, &Silent).unwrap_err()
}

/// A script that answers as Envoy does, with padding so that it does not fit into one packet.
pub(crate) fn envoy(version: &str) -> String {
    let padding = "# padding\n".repeat(50_000);
    format!(
        "#!/bin/sh\necho; echo \"$0  version: 0123abc/{version}/Clean/RELEASE/BoringSSL\"\n\
         exit 0\n{padding}"
    )
}

/// Keeps the messages of progress.
#[derive(Default)]
pub(crate) struct Heard(Mutex<Vec<String>>);

impl Heard {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Progress for Heard {
    fn started(&self, what: &str) {
        self.0.lock().unwrap().push(what.to_owned());
    }

    fn advanced(&self, done: u64, total: Option<u64>) {
        assert!(total.is_none_or(|total| done <= total));
    }

    fn finished(&self, what: &str) {
        self.0.lock().unwrap().push(what.to_owned());
    }
}

/// Asserts that a text contains all of these parts.
#[track_caller]
pub(crate) fn says(text: impl ToString, parts: &[&str]) {
    let text = text.to_string();
    for part in parts {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// The problem of the last place whose name begins so.
pub(crate) fn problem<'a>(error: &'a str, place: &str) -> &'a str {
    let mut tried = error.lines().filter_map(|line| line.strip_prefix("  "));
    tried.rfind(|tried| tried.starts_with(place)).unwrap_or_else(|| panic!("{place} in {error}"))
}
