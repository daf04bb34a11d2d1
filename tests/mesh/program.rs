//! Programs of the mesh: those that run beside the cases, with their logs, and those that run to
//! their end and whose output a case reads.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use kit::command::{CommandOutput, run_with_input_for};
use kit::prelude::*;
use kit::process::{Process, read_log, tail};
use kit::trial::Notes;

/// The longest time that [`ask`] waits for a program: a limit for hangs.
const ANSWER: Duration = Duration::from_secs(900);

/// A running program. Dropping it ends the program; a failing case prints the end of its log.
pub(crate) struct Program {
    name: String,
    process: Process,
    log: PathBuf,
    notes: Arc<Notes>,
}

impl Program {
    /// Starts a command made by [`guarded`](kit::process::guarded). Its log goes into the folder.
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

    /// The name, and the end of the log.
    pub(crate) fn tail(&self) -> String {
        format!("{}, {}", self.name, tail(self.log().lines()))
    }

    /// Waits until the log contains this text.
    pub(crate) async fn wait_for_log(&self, text: &str) -> Outcome {
        wait_for(PATIENCE, &format!("{text:?} in the log of {}", self.name), async || {
            ensure!(self.log().contains(text), "{}", self.tail());
            Ok(())
        })
        .await
    }

    /// Waits until `look` succeeds. If the program ends before, the error comes at once.
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

/// Runs a program to its end, on a separate thread, so that other tasks go on.
pub(crate) async fn ask(mut command: Command, input: impl Into<String>) -> Outcome<CommandOutput> {
    let input = input.into();
    let ask = move || {
        let asked = run_with_input_for(&mut command, &input, ANSWER);
        asked.with_context(|| format!("{command:?}"))
    };
    tokio::task::spawn_blocking(ask).await.context("a thread for a program")?
}
