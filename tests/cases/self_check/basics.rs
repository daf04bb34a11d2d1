//! Processes that start, fail to start or hang. No process is left afterwards.

use std::process::Command;

use crate::cases::stage::SOON;
use crate::lab::Lab;
use kit::command::run_for;
use kit::prelude::*;
use kit::process::{Process, guarded};
use kit::trial::block_on;

pub(super) async fn fails_a_trial_that_hangs(lab: &Lab) -> Outcome {
    let envoy = lab.envoy.clone();
    let hanging = async move || {
        let _envoy = Envoy::start(&envoy, Bootstrap::new().build(), Options::default()).await?;
        std::future::pending::<Outcome>().await
    };
    // A runtime cannot be started on a thread of another one.
    let trial = move || block_on(Duration::from_secs(3), hanging());
    match tokio::task::spawn_blocking(trial).await? {
        Ok(()) => bail!("a trial that hangs succeeded"),
        Err(failure) => {
            let text = failure.to_string();
            ensure!(text.contains("did not end within"), "{text}");
            ensure!(text.contains("the end of its log"), "no note of Envoy: {text}");
        }
    }
    Ok(())
}

/// The child of a killed process ends, too. The test process starts its own children in this way.
pub(super) async fn ends_processes_with_their_parent(_: &Lab) -> Outcome {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("pid");
    let mut parent = guarded("sh");
    parent
        .arg("-c")
        .arg("setpriv --pdeathsig KILL -- sleep 600 & echo $! > \"$0\"; wait")
        .arg(&file);
    let mut parent = Process::spawn(parent)?;
    let pid = wait_for(SOON, "the child's pid", async || {
        Ok(std::fs::read_to_string(&file)?.trim().parse::<u32>()?)
    })
    .await?;
    let command = || std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
    wait_for(SOON, "the child to sleep", async || {
        command()?.starts_with("sleep").then_some(()).context("not yet")
    })
    .await?;
    parent.kill()?;
    wait_for(SOON, "the child to be gone", async || {
        let left = command().unwrap_or_default();
        ensure!(left.is_empty(), "{left}");
        Ok(())
    })
    .await
}

pub(super) async fn ends_a_command_that_goes_on(_: &Lab) -> Outcome {
    let run = || {
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; exec sleep 600"]);
        run_for(&mut command, Duration::from_secs(5))
    };
    match tokio::task::spawn_blocking(run).await? {
        Ok(output) => bail!("a command that goes on has ended: {output:?}"),
        Err(failure) => {
            let text = failure.to_string();
            ensure!(text.contains("sh did not end within 5s"), "{text}");
            ensure!(text.contains("begun"), "what it has written is not in {text}");
            Ok(())
        }
    }
}
