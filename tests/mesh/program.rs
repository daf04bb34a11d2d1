//! Programs of the mesh: those that run beside the cases, with their logs, and those that are asked
//! something.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use kit::command::{CommandOutput, run_with_input_for};
use kit::prelude::*;
use kit::process::{Process, read_log, tail};
use kit::trial::Notes;

/// No program that is asked takes longer. It is shorter than what a case may take, so that a
/// failure names the program.
const ANSWER: Duration = Duration::from_secs(240);

/// One that runs. It ends when it is dropped; a failing case prints the end of its log.
pub(crate) struct Program {
    name: String,
    process: Process,
    log: PathBuf,
    notes: Arc<Notes>,
}

impl Program {
    /// Starts what [`guarded`](kit::process::guarded) made; its log goes into the
    /// folder.
    pub(crate) fn start(name: &str, mut command: Command, folder: &Path) -> Outcome<Self> {
        fs::create_dir_all(folder)?;
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| log.display().to_string())?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        Ok(Self {
            name: name.into(),
            process: Process::spawn_group(command)?,
            log,
            notes: Notes::current(),
        })
    }

    pub(crate) fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    pub(crate) fn log(&self) -> String {
        read_log(&self.log)
    }

    /// The end of its log.
    pub(crate) fn tail(&self) -> String {
        format!("{}, {}", self.name, tail(self.log().lines()))
    }

    /// Until it answers; that it has ended is told at once.
    pub(crate) async fn ready(
        &mut self,
        limit: Duration,
        look: impl AsyncFn() -> Outcome,
    ) -> Outcome {
        let mut ended = None;
        let what = format!("{} to be ready", self.name);
        let looked = wait_for(limit, &what, async || {
            ended = self.process.exited()?;
            if ended.is_some() { Ok(()) } else { look().await }
        });
        looked.await.with_context(|| self.tail())?;
        match ended {
            None => Ok(()),
            Some(status) => bail!("{} ended at its start, {status}\n{}", self.name, self.tail()),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.notes.add(self.tail());
    }
}

/// Runs one to its end, beside the other tasks.
pub(crate) async fn ask(mut command: Command, input: impl Into<String>) -> Outcome<CommandOutput> {
    let input = input.into();
    let ask = move || {
        let asked = run_with_input_for(&mut command, &input, ANSWER);
        asked.with_context(|| format!("{command:?}"))
    };
    tokio::task::spawn_blocking(ask).await.context("a thread for a program")?
}
