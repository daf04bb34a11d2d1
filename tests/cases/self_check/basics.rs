//! Processes that start, fail to start or hang. No process is left afterwards.

use std::process::Command;

use crate::cases::stage::{ACTIVE, SOON, Stage};
use crate::lab::Lab;
use kit::command::run_for;
use kit::prelude::*;
use kit::process::{Process, guarded};
use kit::programs::fetching;
use kit::trial::block_on;

pub(super) async fn starts_stops_and_reads_stats(lab: &Lab) -> Outcome {
    let hcm = Hcm::new("main").route(Route::prefix("/").cluster("app"));
    let Stage { upstream, mut envoy, main } = Stage::with(lab, hcm).await?;
    let request = Request::get("/echo?a=1").header("x-test", "yes");
    let echoed = once(main, &request).await?.expect(200)?;
    ensure_eq!(echoed.json()?["path"], "/echo?a=1", "path at the upstream");
    ensure_eq!(upstream.last()?.header("x-test"), Some("yes".into()), "header at the upstream");
    envoy.wait_for_stat(ACTIVE, 0, SOON).await?;
    ensure_eq!(envoy.stats().await?.get("http.main.downstream_rq_total"), Some(&1), "requests");
    ensure!(envoy.prometheus().await?.contains("envoy_http_downstream_rq_total"));
    ensure_eq!(envoy.stat("http.main.unheard_of").await?, None, "an unknown name");
    envoy.wait_for_log("starting main dispatch loop", SOON).await?;
    envoy.terminate()?;
    envoy.exited(SOON).await?;
    ensure!(!envoy.is_alive());
    Ok(())
}

pub(super) async fn the_error_names_why_envoy_does_not_start(lab: &Lab) -> Outcome {
    let config = Bootstrap::new().with("/no_such_field", json!(1)).build();
    let verdict = Envoy::validate(&lab.envoy, config.clone()).await?;
    ensure!(!verdict.status.success());
    ensure!(verdict.output.contains("no_such_field"), "{}", verdict.output);
    match Envoy::start(&lab.envoy, config, Options::default()).await {
        Ok(_) => bail!("Envoy started with an unknown field"),
        Err(failure) => ensure!(format!("{failure:#}").contains("no_such_field"), "{failure:#}"),
    }
    ensure!(Envoy::validate(&lab.envoy, Bootstrap::new().build()).await?.status.success());
    Ok(())
}

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

/// Some programs are downloaded while cases run. That time does not count towards a trial's
/// deadline.
pub(super) async fn leaves_fetching_out_of_deadlines(_: &Lab) -> Outcome {
    let trial = async || {
        fetching(|| std::thread::sleep(Duration::from_secs(2)));
        tokio::time::sleep(Duration::from_millis(10)).await;
        Ok(())
    };
    tokio::task::spawn_blocking(move || block_on(Duration::from_secs(1), trial())).await?
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
