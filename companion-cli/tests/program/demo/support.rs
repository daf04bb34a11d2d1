//! Runs a demo in a separate folder, whose name identifies its processes.

use std::fs;
use std::path::Path;
use std::process::Command;

use laststream_base::progress::Silent;
use laststream_local::envoy::{NEWEST, Wanted, find_or_get};
use tempfile::TempDir;

/// A place for one demo.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        // Fetched before times are measured, and before HOME is another.
        find_or_get(&Wanted::version(NEWEST), &Silent).unwrap();
        Self(tempfile::Builder::new().prefix("demo-test-").tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// `laststream demo ARGUMENTS`, its folders in this place.
    pub(crate) fn demo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_laststream"));
        command.arg("demo").args(arguments).env("TMPDIR", self.path()).current_dir(self.path());
        command
    }

    /// How many Envoys work in this place.
    pub(crate) fn envoys(&self) -> usize {
        let here = format!("{}/laststream-demo-", self.path().display());
        let processes =
            fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("cmdline"));
        processes
            .filter(|file| {
                fs::read(file).is_ok_and(|line| String::from_utf8_lossy(&line).contains(&here))
            })
            .count()
    }

    /// How many folders demos have left.
    pub(crate) fn folders(&self) -> usize {
        fs::read_dir(self.path())
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("laststream-demo-"))
            .count()
    }
}
