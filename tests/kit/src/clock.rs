//! A wall clock that a case can step: Envoy runs with a preloaded library that shifts
//! `CLOCK_REALTIME` and leaves `CLOCK_MONOTONIC` alone.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};

use tempfile::TempDir;

use crate::command::run;
use crate::{Context as _, Outcome};

const SHIM: &str = include_str!("clock/shim.c");

pub struct WallClock {
    folder: TempDir,
    /// Envoy has mapped the file, so it sees a step at once.
    offset: File,
    seconds: AtomicI64,
}

impl WallClock {
    pub fn new() -> Outcome<Self> {
        let folder = tempfile::Builder::new()
            .prefix("clock-")
            .tempdir()
            .context("a folder for the clock")?;
        fs::write(folder.path().join("shim.c"), SHIM).context("writing the shim")?;
        let mut compiler = Command::new("cc");
        compiler.current_dir(folder.path()).args(["-O2", "-Wall", "-Wextra", "-Werror"]);
        run(compiler.args(["-shared", "-fPIC", "-o", "shim.so", "shim.c"]))?.expect(0)?;
        let offset =
            File::create(folder.path().join("offset")).context("creating the clock's offset")?;
        let clock = Self { folder, offset, seconds: AtomicI64::new(0) };
        clock.step(0)?;
        Ok(clock)
    }

    /// Moves the wall clock by this number of seconds from its current time.
    pub fn step(&self, seconds: i64) -> Outcome {
        let total = self.seconds.fetch_add(seconds, Ordering::Relaxed) + seconds;
        self.offset
            .write_all_at(&(total * 1_000_000_000).to_ne_bytes(), 0)
            .context("stepping the clock")
    }

    /// The value of `Options::under` that runs Envoy with this clock.
    pub fn under(&self) -> Vec<String> {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        vec![
            "env".into(),
            format!("LD_PRELOAD={}", path("shim.so")),
            format!("LASTSTREAM_CLOCK_OFFSET={}", path("offset")),
        ]
    }
}
