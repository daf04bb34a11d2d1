//! An Envoy under callgrind, which counts every instruction that it executes, those of compiled Wasm as well. Counting begins when Envoy
//! is up: until then it runs at a bearable pace.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::envoy::{Envoy, Options};
use crate::support::failure::{Context as _, Outcome, ensure};
use crate::support::process::{Process, guarded};

/// For what takes a fraction of a second on a quiet machine.
const PATIENCE: Duration = Duration::from_secs(60);
const DUMPS: &str = "callgrind";

pub(crate) struct Counted {
    pub(crate) envoy: Envoy,
    folder: TempDir,
}

impl Counted {
    pub(crate) async fn start(binary: &Path, bootstrap: Value) -> Outcome<Self> {
        let installed = std::process::Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success());
        ensure!(installed, "valgrind is missing; Debian has it in the package valgrind");
        let folder = tempfile::Builder::new().prefix("callgrind-").tempdir().context("a folder for callgrind")?;
        let dumps = format!("--callgrind-out-file={}", folder.path().join(DUMPS).display());
        let under = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", &dumps].map(String::from).to_vec();
        // Each line that Envoy logs would be counted.
        let options = Options {
            concurrency: 1,
            log_level: "warning".into(),
            component_log_level: "wasm:warning".into(),
            under,
            ..Options::default()
        };
        let counted = Self { envoy: Envoy::start(binary, bootstrap, options).await?, folder };
        counted.tell(&["instrumentation", "on"]).await?;
        Ok(counted)
    }

    /// How many instructions the worker executes while this is done: it is the busiest thread. What the others do besides, such as
    /// keeping statistics, takes as long as it takes.
    pub(crate) async fn count(&self, work: impl Future<Output = Outcome>) -> Outcome<u64> {
        self.tell(&["zero"]).await?;
        work.await?;
        self.tell(&["dump"]).await?;
        let mut busiest = None;
        for entry in fs::read_dir(self.folder.path()).context("callgrind's folder")? {
            let dump = entry?.path();
            let text = fs::read(&dump).context("callgrind's dump")?;
            busiest = busiest.max(total_of(&String::from_utf8_lossy(&text)));
            fs::remove_file(&dump).context("removing callgrind's dump")?;
        }
        busiest.context("callgrind has dumped no total")
    }

    async fn tell(&self, words: &[&str]) -> Outcome {
        let mut command = guarded("vgdb");
        command.arg(format!("--pid={}", self.envoy.pid())).args(words);
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        let status = Process::spawn(command)?.wait(PATIENCE).await?;
        ensure!(status.success(), "vgdb {}: {status}", words.join(" "));
        Ok(())
    }
}

fn total_of(dump: &str) -> Option<u64> {
    dump.lines().find_map(|line| line.strip_prefix("totals: "))?.trim().parse().ok()
}
