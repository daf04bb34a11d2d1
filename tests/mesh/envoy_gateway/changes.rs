//! G5: the findings of `laststream lint --change` about objects of Envoy Gateway, compared with the
//! listeners that Envoy replaces when the controller has sent the change.

use tokio::time::sleep;

use super::count::ADMIN;
use super::pod::Pod;
use super::world::{EDGE, SOON, World};
use crate::seen::row;
use kit::prelude::*;
use kit::wire::local;

const GATEWAY: &str = "g4";
/// How long Envoy takes for everything that the controller pushes together.
const SETTLED: Duration = Duration::from_secs(3);

/// A change, with a word that only the changed Envoy configuration has, and the rule that must find
/// it.
struct Change {
    what: &'static str,
    old: Value,
    new: Value,
    mark: &'static str,
    rule: &'static str,
}

pub(super) async fn case() -> Outcome {
    let world = World::get().await?;
    let upstream = Upstream::start().await?;
    world.gateway(GATEWAY, upstream.h1()).await?;
    let deployment = world.deployment(GATEWAY, |_| true).await?;
    let mut pod = Pod::start(world, &deployment).await?;
    pod.ready().await.with_context(|| world.controller.log())?;
    for change in changes() {
        compare(world, &change).await.with_context(|| world.controller.log())?;
    }
    Ok(())
}

async fn compare(world: &World, change: &Change) -> Outcome {
    world.cluster.apply_all(std::slice::from_ref(&change.old)).await?;
    sleep(SETTLED).await;
    let before = replaced().await?;
    world.cluster.apply_all(std::slice::from_ref(&change.new)).await?;
    wait_for(SOON, change.what, async || {
        let dump = once(local(ADMIN), &Request::get("/config_dump")).await?.expect(200)?.text();
        ensure!(dump.contains(change.mark), "`{}` has not arrived", change.mark);
        Ok(())
    })
    .await?;
    sleep(SETTLED).await;
    let listeners = replaced().await? - before;
    ensure_eq!(listeners > 0, change.rule != "LS714", "listeners of {}", change.what);
    let old = world.user.argument("old.yaml", change.old.to_string())?;
    let new = world.user.argument("new.yaml", change.new.to_string())?;
    let found = world.laststream(&["lint", "--change", &old, &new])?.stdout;
    ensure!(found.contains(change.rule), "{}: {found}", change.what);
    row(
        "G5",
        format!("{}: listeners that Envoy replaces, and `lint --change`", change.what),
        format!("{listeners}; {}", change.rule),
    );
    Ok(())
}

/// Listeners that Envoy has replaced, whole or in place.
async fn replaced() -> Outcome<u64> {
    let request = Request::get("/stats?filter=listener_manager");
    let text = once(local(ADMIN), &request).await?.expect(200)?.text();
    let names = ["listener_modified", "listener_in_place_updated", "listener_added"];
    let counts = text.lines().filter_map(|line| {
        let (name, count) = line.strip_prefix("listener_manager.")?.split_once(": ")?;
        names.contains(&name).then(|| count.parse::<u64>().ok())?
    });
    Ok(counts.sum())
}

/// A policy of a Gateway's route, which has the Gateway's name.
pub(super) fn policy(gateway: &str, kind: &str, spec: Value) -> Value {
    policy_of(gateway, kind, "HTTPRoute", spec)
}

pub(super) fn policy_of(gateway: &str, kind: &str, target: &str, mut spec: Value) -> Value {
    spec["targetRefs"] = json!([{
        "group": "gateway.networking.k8s.io", "kind": target, "name": gateway,
    }]);
    json!({
        "apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": kind,
        "metadata": { "name": gateway, "namespace": EDGE }, "spec": spec,
    })
}

fn changes() -> Vec<Change> {
    let client = |time: &str| {
        let spec = json!({ "timeout": { "http": { "idleTimeout": time } } });
        policy_of(GATEWAY, "ClientTrafficPolicy", "Gateway", spec)
    };
    let backend = |time: &str| {
        let spec = json!({ "timeout": { "http": { "connectionIdleTimeout": time } } });
        policy(GATEWAY, "BackendTrafficPolicy", spec)
    };
    let cors = |origin: &str| {
        let spec = json!({ "cors": { "allowOrigins": [origin], "allowMethods": ["GET"] } });
        policy(GATEWAY, "SecurityPolicy", spec)
    };
    let authorization =
        policy(GATEWAY, "SecurityPolicy", json!({ "authorization": { "defaultAction": "Allow" } }));
    let external = |path: &str| {
        let service = json!([{ "name": GATEWAY, "port": 80 }]);
        let http = json!({ "backendRefs": service, "path": path });
        policy(GATEWAY, "SecurityPolicy", json!({ "extAuth": { "http": http } }))
    };
    let route = |header: &str| {
        let headers = json!({ "add": [{ "name": header, "value": "1" }] });
        let filter = json!({ "type": "RequestHeaderModifier", "requestHeaderModifier": headers });
        let rule = json!({
            "backendRefs": [{ "name": GATEWAY, "port": 80 }], "filters": [filter],
            "timeouts": { "request": "0s" },
        });
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": { "name": GATEWAY, "namespace": EDGE },
            "spec": { "parentRefs": [{ "name": GATEWAY }], "rules": [rule] },
        })
    };
    let of = |what, old, new, mark, rule| Change { what, old, new, mark, rule };
    vec![
        of("an idle time of clients", client("471s"), client("473s"), "473s", "LS717"),
        of("an idle time of backends", backend("475s"), backend("477s"), "477s", "LS714"),
        of("the first CORS", authorization, cors("https://one.test"), "one.test", "LS718"),
        of(
            "another origin",
            cors("https://one.test"),
            cors("https://two.test"),
            "two.test",
            "LS714",
        ),
        of("a path of extAuth", external("/g4-one"), external("/g4-two"), "/g4-two", "LS717"),
        of("a header of a route", route("x-g4-one"), route("x-g4-two"), "x-g4-two", "LS714"),
    ]
}
