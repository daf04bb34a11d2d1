//! N2: rolling restarts under constant load, with laststream and without it.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::load::{HOST, Load, MIXED};
use super::workload::{GATEWAY, Proxy, Workload, routes, sidecars};
use super::world::World;
use crate::seen::row;
use kit::prelude::*;

const ROUNDS: usize = 3;
const ENOUGH: usize = 10_000;

/// The result of a run.
pub(super) struct Run {
    pub(super) lost: usize,
    pub(super) first_lost: String,
    /// The observation for the table.
    pub(super) seen: String,
}

pub(crate) async fn case() -> Outcome {
    let world = World::get().await?;
    tokio::time::sleep(Duration::from_millis(500)).await; // cases that run side by side begin first
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

/// Waits until every pod of a gateway reaches the app, which takes a moment after both are ready.
pub(super) async fn know_the_way(gateway: &Workload<'_>, world: &World) -> Outcome {
    for pod in gateway.ready(world).await? {
        let to = SocketAddr::new(pod.address, GATEWAY);
        let look = async || once(to, &Request::get("/").host(HOST)).await?.expect(200).map(drop);
        wait_for(Duration::from_secs(60), "the way to the app", look).await?;
    }
    Ok(())
}

/// The app behind the gateway. In all runs its hook lets it take requests for 3 s after the
/// deletion, until gateways and sidecars know that the pod leaves.
pub(super) fn app(namespace: &'static str, drain: Option<Value>) -> Workload<'static> {
    Workload {
        namespace,
        name: "app",
        proxy: Proxy::Classic,
        replicas: 3,
        app_hook: Some(json!({ "preStop": { "sleep": { "seconds": 3 } } })),
        drain,
        ..Workload::default()
    }
}

async fn run(world: &'static World, namespace: &'static str, kept: bool) -> Outcome<Run> {
    let drain = || kept.then(|| json!({ "longest_request": "8s" }));
    let app = app(namespace, drain());
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
    let run = under_load(world, namespace, "gateway").await?;
    let what = if kept { "with laststream" } else { "without" };
    row("N2", format!("{ROUNDS} rolling restarts of app and gateway, {what}"), &run.seen);
    world.kubectl(&["delete", "namespace", namespace, "--wait=false"]).await?;
    Ok(run)
}

/// Rolling restarts of the app and of a gateway, whose Service has the same name, under load.
pub(super) async fn under_load(
    world: &'static World,
    namespace: &'static str,
    gateway: &'static str,
) -> Outcome<Run> {
    let begun = Instant::now();
    let load = Load::start(world, namespace, gateway, &MIXED);
    for _ in 0..ROUNDS {
        for deployment in ["app", gateway] {
            world.restart(namespace, deployment).await?;
        }
        for deployment in ["app", gateway] {
            world.rolled(namespace, deployment).await?;
        }
    }
    let enough = async || {
        ensure!(load.requests() >= ENOUGH, "{} requests", load.requests());
        Ok(())
    };
    wait_for(Duration::from_secs(120), "enough requests", enough).await?;
    let tally = load.finish().await?;
    let seen = format!(
        "{} requests, {} of them WebSockets, in {:.0} s: {} lost",
        tally.requests.load(Ordering::Relaxed),
        tally.websockets.load(Ordering::Relaxed),
        begun.elapsed().as_secs_f64(),
        tally.failures()
    );
    let run = Run { lost: tally.failures(), first_lost: tally.first_failures(20), seen };
    say(&run.first_lost);
    Ok(run)
}
