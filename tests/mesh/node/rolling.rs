//! N2: rolling restarts under constant load, with laststream and without it.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::inside::PATIENT_APP;
use super::service::Service;
use super::workload::{AGENT, HOOK, Pod, Proxy, Workload, by_envoy, routes, sidecars};
use super::world::World;
use crate::load::{HOST, Load, MIXED, Mix};
use crate::seen::row;
use kit::prelude::*;

pub(super) const ROUNDS: usize = 3;
const ENOUGH: usize = 10_000;

/// The result of a run.
pub(super) struct Run {
    pub(super) lost: usize,
    pub(super) first_lost: String,
    /// The observation for the table.
    pub(super) seen: String,
}

pub(crate) async fn case() -> Outcome {
    let (world, _turn) = World::alone().await?;
    for (namespace, what, starts, more) in [
        ("rolling", "with laststream", HOOK, json!({})),
        ("rolling-agent", "with laststream, no hook", AGENT, json!({})),
        ("rolling-envoy", "with laststream, no hook, counted by Envoy", AGENT, by_envoy()),
    ] {
        let drain = Some(json!({ "longest_request": "30s" }));
        let like = Workload { drain, starts, more, ..Workload::default() };
        let with = run(world, namespace, what, &like).await?;
        ensure_eq!(with.lost, 0, "lost {what}, the first:\n{}\n", with.first_lost);
    }
    let without = run(world, "rolling-bare", "without", &Workload::default()).await?;
    ensure!(without.lost > 0, "nothing was lost without laststream, so this shows nothing");
    Ok(())
}

/// Waits until every pod of a gateway reaches the app, which takes a moment after both are ready.
pub(super) async fn know_the_way(gateway: &Workload<'_>, world: &World) -> Outcome<Vec<Pod>> {
    let pods = gateway.ready(world).await?;
    for to in pods.iter().map(Pod::listener) {
        let look = async || once(to, &Request::get("/").host(HOST)).await?.expect(200).map(drop);
        wait_for(PATIENCE, "the way to the app", look).await?;
    }
    Ok(pods)
}

/// Creates a gateway with these routes in a namespace of its own, and the app behind it, if it has
/// one there. Returns its pods, once each reaches the app.
pub(super) async fn create_behind(
    gateway: &Workload<'_>,
    routes: &[Value],
    app: Option<&Workload<'_>>,
    world: &World,
) -> Outcome<Vec<Pod>> {
    world.cluster.injected_namespace(gateway.namespace).await?;
    world.cluster.apply_all(routes).await?;
    if let Some(app) = app {
        app.create(world).await?;
    }
    gateway.create(world).await?;
    if let Some(app) = app {
        app.ready(world).await?;
    }
    know_the_way(gateway, world).await
}

/// The app behind the gateway, which takes requests until gateways and sidecars know that its pod
/// leaves.
pub(super) fn app(namespace: &'static str, drain: Option<Value>) -> Workload<'static> {
    let app = Workload::app(namespace, "app");
    Workload { proxy: Proxy::Classic, replicas: 3, role: PATIENT_APP, drain, ..app }
}

/// The run with the policy of another workload.
async fn run(
    world: &'static World,
    namespace: &'static str,
    what: &str,
    like: &Workload<'static>,
) -> Outcome<Run> {
    let (drain, more) = (|| like.drain.clone(), || like.more.clone());
    let app = Workload { starts: like.starts, more: more(), ..app(namespace, drain()) };
    let gateway = Workload::gateway(namespace, "gateway");
    let starts = like.starts;
    let gateway = Workload { replicas: 2, drain: drain(), starts, more: more(), ..gateway };
    let mut objects = routes(namespace, "gateway", &[(HOST, &format!("app.{namespace}"))]);
    objects.push(sidecars(namespace));
    create_behind(&gateway, &objects, Some(&app), world).await?;
    let service = Service { world, namespace, name: "gateway" };
    let run = under_load(service, &["app", "gateway"], &MIXED).await?;
    row("N2", format!("{ROUNDS} rolling restarts of app and gateway, {what}"), &run.seen);
    world.cluster.run(&["delete", "namespace", namespace, "--wait=false"]).await?;
    Ok(run)
}

/// Rolling restarts of these Deployments under load on a gateway.
pub(super) async fn under_load(
    gateway: Service,
    deployments: &[&str],
    mix: &'static Mix,
) -> Outcome<Run> {
    let Service { world, namespace, .. } = gateway;
    let begun = Instant::now();
    let load = Load::start(gateway, mix);
    for _ in 0..ROUNDS {
        for deployment in deployments {
            world.restart(namespace, deployment).await?;
        }
        for deployment in deployments {
            world.rolled(namespace, deployment).await?;
        }
    }
    load.enough(ENOUGH).await?;
    let tally = load.finish().await?;
    let seen = format!(
        "{} requests, {} of them {}, in {:.0} s: {} lost",
        tally.requests.load(Ordering::Relaxed),
        tally.long_lived.load(Ordering::Relaxed),
        mix.long_lived(),
        begun.elapsed().as_secs_f64(),
        tally.failures()
    );
    let run = Run { lost: tally.failures(), first_lost: tally.first_failures(20), seen };
    say(&run.first_lost);
    Ok(run)
}
