//! N5 and N6: a Gateway of the Gateway API. Istio makes the Deployment, with the rendered overlay
//! merged over it, or with the Gateway's annotations; kubelet runs its pods. The gateways of N1 and
//! N2 are Deployments of the user.

use super::lane::{Lane, OUTLASTS_ALL, long_grace, side_by_side};
use super::rolling::{app, know_the_way, under_load};
use super::service::Service;
use super::workload::{GATEWAY, Workload, sidecars};
use super::world::World;
use crate::load::{HOST, MIXED};
use crate::objects::render_all;
use crate::seen::row;
use kit::prelude::*;

const GROUP: &str = "gateway.networking.k8s.io";
const API: &str = "gateway.networking.k8s.io/v1";
const NAMESPACE: &str = "api";
const ROLLING: &str = "api-rolling";

/// N5: a request of 10 s or longer, its pod deleted after 1 s; without laststream, with the
/// overlay, and with annotations alone.
pub(crate) async fn case() -> Outcome {
    let (world, _turn) = World::shared().await?;
    world.cluster.namespace(NAMESPACE).await?;
    Workload::app(NAMESPACE, "backend").create(world).await?;
    for gateway in ["bare", "kept", "agent"] {
        world.cluster.apply_all(&objects(NAMESPACE, gateway, "kept.test", "backend")).await?;
    }
    let mut drain = long_grace();
    drain["starts"] = json!("hook");
    overlay(world, NAMESPACE, "kept", &drain).await?;
    annotations(world, NAMESPACE, "agent").await?;
    let lanes = [
        lane("a Gateway of the Gateway API, nothing", "bare"),
        lane("a Gateway of the Gateway API, the rendered overlay with an image volume", "kept"),
        lane("a Gateway of the Gateway API, two annotations, no hook", "agent"),
    ];
    let tasks = lanes.into_iter().map(|lane| -> super::lane::Task<_> { Box::pin(lane.run(world)) });
    let seen = side_by_side(tasks.collect()).await?;
    seen.iter().for_each(|seen| row("N5", seen.what, seen.words()));
    let [bare, kept, agent] = seen.as_slice() else { bail!("{} lanes", seen.len()) };
    bare.expect_lost()?;
    kept.expect_kept()?;
    agent.expect_kept()?;
    agent.expect(agent.exit == Some(0), "the agent ends after Envoy")
}

/// N6: rolling restarts of a Gateway's pods and of the app under load.
pub(crate) async fn rolling() -> Outcome {
    let (world, _turn) = World::alone().await?;
    let drain = json!({ "longest_request": "30s", "starts": "agent" });
    world.cluster.injected_namespace(ROLLING).await?;
    world.cluster.apply_all(&[sidecars(ROLLING)]).await?;
    let app = app(ROLLING, Some(drain.clone()));
    app.create(world).await?;
    world.cluster.apply_all(&objects(ROLLING, "gateway", HOST, "app")).await?;
    overlay(world, ROLLING, "gateway", &drain).await?;
    let scale = ["scale", "--namespace", ROLLING, "deployment/gateway-istio", "--replicas=2"];
    world.cluster.run(&scale).await?;
    let gateway = pods("gateway", ROLLING, 2);
    app.ready(world).await?;
    know_the_way(&gateway, world).await?;
    let service = Service { world, namespace: ROLLING, name: "gateway-istio" };
    let run = under_load(service, &["app", "gateway-istio"], &MIXED).await?;
    row("N6", "3 rolling restarts of app and of a Gateway of the Gateway API", &run.seen);
    world.cluster.run(&["delete", "namespace", ROLLING, "--wait=false"]).await?;
    ensure_eq!(run.lost, 0, "requests lost, the first of them:\n{}\n", run.first_lost);
    Ok(())
}

/// The pods of Istio's Deployment for a Gateway.
fn pods(gateway: &'static str, namespace: &'static str, replicas: u8) -> Workload<'static> {
    let drain = (gateway != "bare").then(|| json!({}));
    Workload { replicas, drain, ..Workload::gateway(namespace, gateway) }
}

fn lane(what: &'static str, gateway: &'static str) -> Lane {
    Lane {
        what,
        workload: pods(gateway, NAMESPACE, 1),
        request: if gateway == "bare" { OUTLASTS_ALL } else { Duration::from_secs(10) },
        idle_connection: true,
        ..Lane::default()
    }
}

/// A Gateway, whose pods have the label of a [`Workload`], and its route.
pub(super) fn objects(namespace: &str, gateway: &str, host: &str, service: &str) -> [Value; 2] {
    let listener = json!({ "name": "http", "port": GATEWAY, "protocol": "HTTP" });
    let own = json!({
        "apiVersion": API, "kind": "Gateway",
        "metadata": { "name": gateway, "namespace": namespace },
        "spec": {
            "gatewayClassName": "istio", "listeners": [listener],
            "infrastructure": { "labels": { "app": gateway } },
        },
    });
    let route = json!({
        "apiVersion": API, "kind": "HTTPRoute",
        "metadata": { "name": gateway, "namespace": namespace },
        "spec": {
            "hostnames": [host],
            "parentRefs": [{ "group": GROUP, "kind": "Gateway", "name": gateway }],
            "rules": [{ "backendRefs": [{ "name": service, "port": 80 }] }],
        },
    });
    [own, route]
}

/// Applies the files of `render all` as they say, and waits until Istio's Deployment has the
/// overlay and its pods are replaced.
async fn overlay(world: &World, namespace: &str, gateway: &str, drain: &Value) -> Outcome {
    let policy = json!({
        "namespace": namespace, "module": world.module, "delivery": "image_volume",
        "placement": { "gateway_api": { "gateway": gateway } }, "drain": drain,
    });
    let name = format!("{namespace}-{gateway}");
    let folder = render_all(&world.user, &name, &policy.to_string(), &["--plain-http"])?;
    world.cluster.apply_rendered(&folder, namespace, gateway).await?;
    let deployment = format!("{gateway}-istio");
    let object = format!("deployment/{deployment}");
    let merged = async || {
        let made = world.cluster.get(namespace, &object).await?;
        let pod = &made["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let has_hook = container["lifecycle"]["preStop"]["exec"].is_object();
        ensure_eq!(has_hook, drain["starts"] == "hook", "the hook");
        ensure!(pod["volumes"].to_string().contains("laststream-module"), "{pod}");
        ensure!(container["volumeMounts"].to_string().contains("/opt/laststream"), "{pod}");
        Ok(())
    };
    wait_for(PATIENCE, "Istio's Deployment with the overlay", merged).await?;
    world.rolled(namespace, &deployment).await
}

/// Applies the files of `render all` for a gate that needs neither hook nor overlay, and waits
/// until Istio's Deployment has the annotations and its pods are replaced.
async fn annotations(world: &World, namespace: &str, gateway: &str) -> Outcome {
    let policy = json!({
        "name": gateway, "namespace": namespace, "module": world.module,
        "placement": { "gateway_api": { "gateway": gateway } }, "drain": { "starts": "agent" },
    });
    let name = format!("{namespace}-{gateway}");
    let folder = render_all(&world.user, &name, &policy.to_string(), &["--plain-http"])?;
    world.cluster.apply_rendered(&folder, namespace, gateway).await?;
    let deployment = format!("{gateway}-istio");
    let object = format!("deployment/{deployment}");
    wait_for(PATIENCE, "Istio's Deployment with the annotations", async || {
        let made = world.cluster.get(namespace, &object).await?;
        let annotations = &made["spec"]["template"]["metadata"]["annotations"];
        let config = annotations["proxy.istio.io/config"].as_str().unwrap_or_default();
        ensure!(config.contains("terminationDrainDuration: 28s"), "{annotations}");
        Ok(())
    })
    .await?;
    world.rolled(namespace, &deployment).await
}
