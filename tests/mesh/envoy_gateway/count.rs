//! G1: the controller accepts everything that is rendered; its Envoy has the gate, and the count is
//! exact.

use super::controller::EDGE;
use super::pod::{GATE, PORT, Pod};
use super::world::World;
use crate::seen::row;
use kit::prelude::*;
use kit::wire::local;

const GATEWAY: &str = "g1";
/// Envoy's admin interface.
pub(super) const ADMIN: u16 = 19000;
const POLICY: &str = "drain: {longest_request: 20s}\nforwarded_proto: {presets: [gcp], trust: \
    {peers: [35.191.0.0/16]}}\n";

pub(super) async fn accepted_and_exact() -> Outcome {
    let world = World::get().await?;
    let upstream = Upstream::start().await?;
    world.gateway(GATEWAY, &upstream).await?;
    let own = world.deployment(GATEWAY, |_| true).await?;
    let own = &own["spec"]["template"]["spec"];
    let names: Vec<_> = containers(own).map(|container| container["name"].clone()).collect();
    ensure_eq!(names, [json!("envoy"), json!("shutdown-manager")], "its own containers");
    let folder = world.put(GATEWAY, POLICY).await?;
    let merged =
        world.deployment(GATEWAY, |pod| pod["volumes"].to_string().contains("image")).await?;
    is_merged(&merged["spec"]["template"]["spec"])?;
    for kind in ["envoyextensionpolicy", "envoypatchpolicy", "gateway"] {
        accepted(world, kind).await?;
    }
    row(
        "G1",
        "a Gateway of Envoy Gateway, `render all`, applied as its files say",
        "all objects accepted; its Deployment has the hook, 35 s of grace, the image volume and \
            the program; its shutdown manager is gone",
    );
    let pod = Pod::serving(world, &merged).await?;
    exact(world, &upstream).await?;
    with_a_policy_of_the_route(world, &upstream).await?;
    drop(pod);
    with_another_vm_id(world, &upstream, &merged).await?;
    without_the_file(world, &merged).await?;
    removed(world, &folder).await
}

/// Removal as docs/install/envoy-gateway.md says: the gate first, then the counter.
async fn removed(world: &World, folder: &str) -> Outcome {
    world.cluster.forget_overlay(EDGE, GATEWAY).await?;
    let has_manager = |pod: &Value| containers(pod).any(|each| each["name"] == "shutdown-manager");
    let former = world.deployment(GATEWAY, has_manager).await?;
    let pod = former["spec"]["template"]["spec"].to_string();
    ensure!(!pod.contains("laststream"), "{pod}");
    world.cluster.run(&["delete", "--kustomize", folder]).await?;
    Pod::serving(world, &former).await?;
    row(
        "G1",
        "removal as docs/install/envoy-gateway.md says",
        "the Deployment is Envoy Gateway's own again, and requests are answered",
    );
    Ok(())
}

/// Envoy Gateway uses the policy of the route instead of the Gateway's policy. Its counter has
/// another vm_id, so the gate does not know it. The former listener and its counters live on for
/// Envoy's drain time (50 s here): until then the gate may say `exact`, and later `unknown`. The
/// request holds the gate in both cases.
async fn with_a_policy_of_the_route(world: &World, upstream: &Upstream) -> Outcome {
    let mut policy = world.cluster.get(EDGE, &format!("envoyextensionpolicy/{GATEWAY}")).await?;
    let name = format!("{GATEWAY}-route");
    policy["metadata"] = json!({ "name": name, "namespace": EDGE });
    policy["status"] = Value::Null;
    policy["spec"]["targetRefs"][0]["kind"] = "HTTPRoute".into();
    world.cluster.apply_all(&[policy]).await?;
    let filter = format!("envoyextensionpolicy/{EDGE}/{name}/wasm/0");
    wait_for(PATIENCE, "the route's policy in Envoy", async || {
        let dump = once(local(ADMIN), &Request::get("/config_dump")).await?.expect(200)?.json()?;
        let listeners = dump["configs"].as_array().into_iter().flatten();
        let mut listeners =
            listeners.filter_map(|config| config["dynamic_listeners"].as_array()).flatten();
        let is_active = |each: &Value| {
            each["warming_state"].is_null() && each["active_state"].to_string().contains(&filter)
        };
        ensure!(listeners.any(is_active), "{}", world.controller.log());
        Ok(())
    })
    .await?;
    let client = held("/hold/c", upstream, "c").await?;
    let seen = wait_for(PATIENCE, "the gate's count", async || {
        let status = status().await?;
        let by_filter = status["scopes"][0]["in_flight"] == 1;
        ensure!(by_filter || status["envoy_active"] == 1, "{status}");
        Ok(if by_filter { "the filter" } else { "Envoy alone" })
    });
    let seen = seen.await?;
    answered(client, upstream, "c").await?;
    row(
        "G1",
        "an EnvoyExtensionPolicy of the route with a counter of its own, one request in flight",
        format!("the gate holds; the request is counted by {seen}"),
    );
    Ok(())
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    pod["containers"].as_array().into_iter().flatten()
}

fn is_merged(pod: &Value) -> Outcome {
    let [envoy] = &containers(pod).collect::<Vec<_>>()[..] else { bail!("{pod:#}") };
    let hook = &envoy["lifecycle"]["preStop"];
    ensure_eq!(hook["exec"]["command"][1], "prestop", "the hook: {hook}");
    ensure_eq!(hook["httpGet"], Value::Null, "Envoy Gateway's own hook");
    ensure_eq!(pod["terminationGracePeriodSeconds"], 35, "the grace period");
    ensure_eq!(pod["initContainers"][0]["command"][1], "install", "the init container");
    let mounts = envoy["volumeMounts"].to_string();
    ensure!(
        mounts.contains("\"/opt/laststream\"") && mounts.contains("laststream-program"),
        "{mounts}"
    );
    let arguments = envoy["args"].to_string();
    ensure!(arguments.contains("--drain-time-s\",\"50\""), "{arguments}");
    Ok(())
}

/// Waits until every condition of the object and of its ancestors is true, except that a Gateway
/// without a load balancer has no address.
async fn accepted(world: &World, kind: &str) -> Outcome {
    wait_for(PATIENCE, &format!("{kind} to be accepted"), async || {
        let object = world.cluster.get(EDGE, &format!("{kind}/{GATEWAY}")).await?;
        let own = object["status"]["conditions"].as_array().into_iter().flatten();
        let ancestors = object["status"]["ancestors"].as_array().into_iter().flatten();
        let of_ancestors =
            ancestors.filter_map(|ancestor| ancestor["conditions"].as_array()).flatten();
        let conditions: Vec<&Value> = own
            .chain(of_ancestors)
            .filter(|condition| condition["reason"] != "AddressNotAssigned")
            .collect();
        ensure!(
            !conditions.is_empty()
                && conditions.iter().all(|condition| condition["status"] == "True"),
            "{:#}",
            object["status"]
        );
        Ok(())
    })
    .await
}

pub(super) async fn status() -> Outcome<Value> {
    once(local(GATE), &Request::get("/status").host("localhost")).await?.expect(200)?.json()
}

/// Waits until the gate's status has this count, with so many streams in flight by the filter and
/// by Envoy.
async fn counts(count: &str, in_flight: usize, envoy: usize) -> Outcome<Value> {
    wait_for(PATIENCE, "the gate's count", async || {
        let status = status().await?;
        ensure_eq!(status["count"], count, "{status}");
        ensure_eq!(status["scopes"][0]["in_flight"], in_flight, "{status}");
        ensure_eq!(status["envoy_active"], envoy, "{status}");
        Ok(status)
    })
    .await
}

async fn held(path: &str, upstream: &Upstream, key: &str) -> Outcome<Client> {
    let mut client = Client::connect(local(PORT)).await?;
    client.send(&Request::get(path).bytes()).await?;
    upstream.wait_held(key, 1, PATIENCE).await?;
    Ok(client)
}

async fn answered(mut client: Client, upstream: &Upstream, key: &str) -> Outcome {
    upstream.release(key);
    client.response("GET").await?.expect(200).map(drop)
}

async fn exact(world: &World, upstream: &Upstream) -> Outcome {
    counts("exact", 0, 0).await?;
    let [one, two] = [held("/hold/a", upstream, "a").await?, held("/hold/b", upstream, "b").await?];
    counts("exact", 2, 2).await?;
    let said =
        async || world.laststream(&["status"])?.expect(0)?.stdout_contains("exact, ").map(drop);
    wait_for(PATIENCE, "what `status` says", said).await?;
    answered(one, upstream, "a").await?;
    answered(two, upstream, "b").await?;
    counts("exact", 0, 0).await?;
    row(
        "G1",
        "its bootstrap and xDS in the real Envoy, two requests in flight",
        "the gate: `exact`, 2 in flight by the filter and by Envoy, 0 after them",
    );
    Ok(())
}

/// The Deployment with a text in its pods replaced.
fn changed(deployment: &Value, from: &str, to: &str) -> Outcome<Value> {
    let mut changed = deployment.clone();
    let text = changed["spec"]["template"]["spec"].to_string();
    ensure!(text.contains(from), "no `{from}` in {text}");
    changed["spec"]["template"]["spec"] = serde_json::from_str(&text.replace(from, to))?;
    Ok(changed)
}

/// The mistake that LS403 finds: the gate knows no counter, and relies on Envoy's own count.
async fn with_another_vm_id(world: &World, upstream: &Upstream, deployment: &Value) -> Outcome {
    let other = changed(deployment, "envoyextensionpolicy/edge/g1/wasm/0", "laststream")?;
    let _pod = Pod::serving(world, &other).await?;
    let client = held("/hold/d", upstream, "d").await?;
    let seen = wait_for(PATIENCE, "the gate's count", async || {
        let status = status().await?;
        ensure_eq!(status["count"], "unknown", "{status}");
        ensure_eq!(status["envoy_active"], 1, "{status}");
        Ok(status)
    });
    let status = seen.await?;
    answered(client, upstream, "d").await?;
    ensure_eq!(status["counters"], 0, "{status}");
    row(
        "G1",
        "the gate with another vm_id than the counter's",
        "`unknown`: it knows no counter, and Envoy's own count holds",
    );
    Ok(())
}

/// The same result as on an API server that knows no image volumes and silently drops the volume.
async fn without_the_file(world: &World, deployment: &Value) -> Outcome {
    let gone = changed(deployment, "/opt/laststream/plugin.wasm", "/opt/nowhere/plugin.wasm")?;
    let mut pod = Pod::start(world, &gone).await?;
    let status = pod.envoy()?.process().wait(PATIENCE).await?;
    ensure!(!status.success(), "{status}");
    let log = pod.envoy()?.log();
    ensure!(log.contains("/opt/nowhere/plugin.wasm"), "{log}");
    row(
        "G1",
        "the module's file is not there",
        "Envoy does not start, and names the file: a rollout stops at its first pod",
    );
    Ok(())
}
