//! Starting, failing to start, hanging, and what is left afterwards: nothing.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use crate::support::bootstrap::{Bootstrap, Hcm, Listener, Route, cluster};
use crate::support::envoy::{Envoy, Options};
use crate::support::failure::{Context, Outcome, ensure, ensure_eq, fail};
use crate::support::h1::{Request, once};
use crate::support::process::{Process, guarded};
use crate::support::trial::{block_on, wait_for};
use crate::support::upstream::Upstream;

const SOON: Duration = Duration::from_secs(20);

pub(super) async fn starts_stops_and_reads_stats(binary: &Path) -> Outcome {
    let upstream = Upstream::start().await?;
    let hcm = Hcm::new("main").route(Route::prefix("/").cluster("app"));
    let config = Bootstrap::new()
        .cluster(cluster::h1("app", upstream.h1()))
        .listener(Listener::new("main", hcm))
        .build();
    let mut envoy = Envoy::start(binary, config, Options::default()).await?;
    let echoed =
        once(envoy.address("main").await?, &Request::get("/echo?a=1").header("x-test", "yes"))
            .await?
            .expect(200)?;
    ensure_eq!(echoed.json()?["path"], "/echo?a=1", "path at the upstream");
    ensure_eq!(upstream.last()?.header("x-test"), Some("yes".into()), "header at the upstream");
    envoy.wait_for_stat("http.main.downstream_rq_active", |value| value == Some(0), SOON).await?;
    ensure_eq!(envoy.stats().await?.get("http.main.downstream_rq_total"), Some(&1), "requests");
    ensure!(envoy.prometheus().await?.contains("envoy_http_downstream_rq_total"));
    ensure_eq!(envoy.stat("http.main.unheard_of").await?, None, "an unknown name");
    envoy.wait_for_log("starting main dispatch loop", SOON).await?;
    envoy.terminate()?;
    envoy.exited(SOON).await?;
    ensure!(!envoy.is_alive());
    Ok(())
}

pub(super) async fn says_why_envoy_does_not_start(binary: &Path) -> Outcome {
    let config = Bootstrap::new().with("/no_such_field", json!(1)).build();
    let verdict = Envoy::validate(binary, config.clone()).await?;
    ensure!(!verdict.status.success());
    ensure!(verdict.output.contains("no_such_field"), "{}", verdict.output);
    match Envoy::start(binary, config, Options::default()).await {
        Ok(_) => fail!("Envoy started with an unknown field"),
        Err(failure) => ensure!(failure.to_string().contains("no_such_field"), "{failure}"),
    }
    ensure!(Envoy::validate(binary, Bootstrap::new().build()).await?.status.success());
    Ok(())
}

pub(super) fn fails_a_trial_that_hangs(binary: &Path) -> Outcome {
    let hanging = async {
        let _envoy = Envoy::start(binary, Bootstrap::new().build(), Options::default()).await?;
        std::future::pending::<Outcome>().await
    };
    match block_on(Duration::from_secs(3), hanging) {
        Ok(()) => fail!("a trial that hangs succeeded"),
        Err(failure) => ensure!(failure.to_string().contains("did not end within"), "{failure}"),
    }
    Ok(())
}

/// As the test process' own children do when it is killed.
pub(super) async fn ends_processes_with_their_parent() -> Outcome {
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
