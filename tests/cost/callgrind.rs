//! An Envoy under callgrind, which counts every instruction that it executes, also those of
//! compiled Wasm. Counting is switched on when Envoy is up, because Envoy starts much faster
//! without it.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::bed::quietly;
use kit::prelude::*;
use kit::process::{Process, guarded};
use kit::programs::program;

/// The limit for commands that take a fraction of a second on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(120);
const DUMPS: &str = "callgrind";

pub(crate) struct Counted {
    pub(crate) envoy: Envoy,
    folder: TempDir,
}

/// Counted instructions.
pub(crate) struct Count {
    /// Instructions of the busiest thread. Under requests that is the worker; the other threads do
    /// work that depends on time and not on requests, such as flushing statistics.
    pub(crate) busiest: u64,
    pub(crate) took: Duration,
}

impl Counted {
    /// Starts Envoy with one worker. Counting is off.
    pub(crate) async fn start(binary: &Path, bootstrap: Bootstrap) -> Outcome<Self> {
        let valgrind = program("valgrind")?.display().to_string();
        let folder = tempfile::Builder::new()
            .prefix("callgrind-")
            .tempdir()
            .context("a folder for callgrind")?;
        let dumps = format!("--callgrind-out-file={}", folder.path().join(DUMPS).display());
        let under =
            [&valgrind, "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", &dumps];
        let options = Options { under: under.map(String::from).to_vec(), ..quietly(1) };
        Ok(Self { envoy: Envoy::start(binary, bootstrap.build(), options).await?, folder })
    }

    pub(crate) async fn switch_on(&self) -> Outcome {
        self.tell(&["instrumentation", "on"]).await
    }

    /// Counts the instructions that Envoy executes during `work`.
    pub(crate) async fn count(&self, work: impl Future<Output = Outcome>) -> Outcome<Count> {
        self.tell(&["zero"]).await?;
        let begun = Instant::now();
        work.await?;
        self.tell(&["dump"]).await?;
        let took = begun.elapsed();
        let mut threads = Vec::new();
        for entry in fs::read_dir(self.folder.path()).context("callgrind's folder")? {
            let dump = entry?.path();
            let text = fs::read(&dump).context("callgrind's dump")?;
            threads.extend(total_of(&String::from_utf8_lossy(&text)));
            fs::remove_file(&dump).context("removing callgrind's dump")?;
        }
        let busiest = threads.into_iter().max().context("callgrind has dumped no total")?;
        Ok(Count { busiest, took })
    }

    async fn tell(&self, words: &[&str]) -> Outcome {
        let mut command = guarded(program("vgdb")?);
        command.arg(format!("--pid={}", self.envoy.pid())).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = Process::spawn(command)?.wait(PATIENCE).await?;
        ensure!(status.success(), "vgdb {}: {status}", words.join(" "));
        Ok(())
    }
}

fn total_of(dump: &str) -> Option<u64> {
    dump.lines().find_map(|line| line.strip_prefix("totals: "))?.trim().parse().ok()
}
