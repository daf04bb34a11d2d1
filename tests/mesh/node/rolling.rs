//! N2: rolling restarts under constant load, with laststream and without it.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::json;

use super::load::{HOST, Load};
use super::workload::{GATEWAY, Proxy, Workload, routes, sidecars};
use super::world::World;
use crate::seen::{row, say};
use kit::prelude::*;

const ROUNDS: usize = 3;
const ENOUGH: usize = 10_000;

/// What one of the two runs gave.
struct Run {
    requests: usize,
    lost: usize,
    first_lost: String,
}

pub(crate) async fn case() -> Outcome {
    let world = World::get().await?;
    tokio::time::sleep(Duration::from_millis(500)).await; // the others go first
    let _turn = world.turns.write().await;
    let with = run(world, "rolling", true).await?;
    let without = run(world, "rolling-bare", false).await?;
    ensure_eq!(
        with.lost,
        0,
        "requests lost with laststream, the first of them:\n{}\n",
        with.first_lost
    );
    ensure!(without.lost > 0, "nothing was lost without laststream, so this shows nothing");
    Ok(())
}

/// Gateways learn where the app is a little after both are ready.
async fn know_the_way(gateway: &Workload<'_>, world: &World) -> Outcome {
    for pod in gateway.ready(world).await? {
        let to = SocketAddr::new(pod.address, GATEWAY);
        let look = async || once(to, &Request::get("/").host(HOST)).await?.expect(200).map(drop);
        wait_for(Duration::from_secs(60), "the way to the app", look).await?;
    }
    Ok(())
}

async fn run(world: &'static World, namespace: &'static str, kept: bool) -> Outcome<Run> {
    let drain = || kept.then(|| json!({ "longest_request": "8s" }));
    // While everybody learns that it goes, the app takes requests; both runs have that.
    let sleep = json!({ "preStop": { "sleep": { "seconds": 3 } } });
    let app = Workload {
        namespace,
        name: "app",
        proxy: Proxy::Classic,
        replicas: 3,
        app_hook: Some(sleep),
        drain: drain(),
        ..Workload::default()
    };
    let gateway = Workload {
        namespace,
        name: "gateway",
        proxy: Proxy::Gateway,
        replicas: 2,
        drain: drain(),
        ..Workload::default()
    };
    world.cluster.injected_namespace(namespace).await?;
    world.cluster.apply_all(&[sidecars(namespace)]).await?;
    world
        .cluster
        .apply_all(&routes(namespace, "gateway", &[(HOST, &format!("app.{namespace}"))]))
        .await?;
    app.create(world).await?;
    gateway.create(world).await?;
    app.ready(world).await?;
    know_the_way(&gateway, world).await?;
    let begun = Instant::now();
    let load = Load::start(world, namespace);
    for _ in 0..ROUNDS {
        let restart = [
            "rollout",
            "restart",
            "--namespace",
            namespace,
            "deployment/app",
            "deployment/gateway",
        ];
        world.kubectl(&restart).await?;
        for deployment in ["deployment/app", "deployment/gateway"] {
            world
                .kubectl(&[
                    "rollout",
                    "status",
                    "--namespace",
                    namespace,
                    deployment,
                    "--timeout=60s",
                ])
                .await?;
        }
    }
    let enough = async || {
        ensure!(load.requests() >= ENOUGH, "{} requests", load.requests());
        Ok(())
    };
    wait_for(Duration::from_secs(120), "enough requests", enough).await?;
    let tally = load.finish().await?;
    let run = Run {
        requests: tally.requests.load(Ordering::Relaxed),
        lost: tally.failures(),
        first_lost: tally.first_failures(20),
    };
    let websockets = tally.websockets.load(Ordering::Relaxed);
    let what = if kept { "with laststream" } else { "without" };
    let seen = format!(
        "{} requests, {websockets} of them WebSockets, in {:.0} s: {} lost",
        run.requests,
        begun.elapsed().as_secs_f64(),
        run.lost
    );
    row("N2", format!("{ROUNDS} rolling restarts of app and gateway, {what}"), seen);
    say(&run.first_lost);
    world.kubectl(&["delete", "namespace", namespace, "--wait=false"]).await?;
    Ok(run)
}
