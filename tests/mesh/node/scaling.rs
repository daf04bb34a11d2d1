//! P2: a scale-down deletes the pods with the fewest streams.

use super::workload::{GATEWAY, Pod, Proxy, Workload, routes};
use super::world::{World, cluster_role};
use crate::seen::row;
use kit::prelude::*;

const HOST: &str = "kept.test";
/// The number of streams in flight of each pod.
const STREAMS: [usize; 4] = [0, 3, 50, 200];
/// The user with the rights of the project's ClusterRoles and no others.
const OPERATOR: &str = "scaler";
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Creates gateways in a separate namespace, and waits until each reaches the app.
async fn gateways(
    world: &World,
    namespace: &'static str,
    replicas: u8,
    drain: Value,
) -> Outcome<(Workload<'static>, Vec<Pod>)> {
    let gateway = Workload {
        namespace,
        name: "edge",
        proxy: Proxy::Gateway,
        replicas,
        drain: Some(drain),
        ..Workload::default()
    };
    world.cluster.injected_namespace(namespace).await?;
    world.cluster.apply_all(&routes(namespace, "edge", &[(HOST, "backend.default")])).await?;
    gateway.create(world).await?;
    let pods = gateway.ready(world).await?;
    for pod in &pods {
        let way = async || once(address(pod), &takes(0)).await?.expect(200).map(drop);
        wait_for(PATIENCE, "the way to the app", way).await?;
    }
    Ok((gateway, pods))
}

fn address(pod: &Pod) -> SocketAddr {
    SocketAddr::new(pod.address, GATEWAY)
}

fn takes(millis: u64) -> Request {
    Request::get(&format!("/takes/{millis}")).host(HOST)
}

pub(crate) async fn deletion_cost() -> Outcome {
    let world = World::get().await?;
    let _turn = world.turns.read().await;
    let (gateway, pods) = gateways(world, "scaled", 4, json!({})).await?;
    let mut held = Vec::new();
    for (pod, streams) in pods.iter().zip(STREAMS) {
        for _ in 0..streams {
            let mut client = Client::connect(address(pod)).await?;
            client.send(&takes(120_000).bytes()).await?;
            held.push(client);
        }
    }
    grant(world).await?;
    let verb = ["deletion-cost", "-n", "scaled", "-l", "app=edge", "--as", OPERATOR, "--once"];
    let written = async || {
        world.laststream(&verb).await?.expect(0)?;
        let expected = [None, Some("2"), Some("6"), Some("8")].map(|cost| cost.map(String::from));
        ensure_eq!(costs(world, &pods).await?, expected, "the costs");
        Ok(())
    };
    wait_for(PATIENCE, "the costs of 0, 3, 50 and 200 streams", written).await?;
    world.laststream(&verb).await?.expect(0)?.stderr_contains("nothing to write")?;
    world.kubectl(&["scale", "-n", "scaled", "deployment/edge", "--replicas=2"]).await?;
    let mut busy: Vec<&str> = pods[2..].iter().map(|pod| pod.name.as_str()).collect();
    busy.sort_unstable();
    let stay = async || {
        let mut left: Vec<String> = gateway.pods(world).into_iter().map(|pod| pod.name).collect();
        left.sort_unstable();
        ensure_eq!(left, busy, "the pods that stay");
        Ok(())
    };
    wait_for(PATIENCE, "two pods to stay", stay).await?;
    row("P2", "four pods with 0, 3, 50 and 200 streams, scaled to 2", "50 and 200 stay");
    drop(held);
    world.kubectl(&["delete", "namespace", "scaled", "--wait=false"]).await.map(drop)
}

/// The costs in the annotations of these pods.
async fn costs(world: &World, pods: &[Pod]) -> Outcome<Vec<Option<String>>> {
    let list = ["get", "pods", "-n", "scaled", "-l", "app=edge", "-o", "json"];
    let list: Value = serde_json::from_str(&world.kubectl(&list).await?)?;
    let cost = |pod: &Pod| {
        let items = list["items"].as_array().into_iter().flatten();
        let mut items = items.filter(|item| item["metadata"]["name"] == pod.name.as_str());
        items.next().and_then(|item| Some(item["metadata"]["annotations"][COST].as_str()?.into()))
    };
    Ok(pods.iter().map(cost).collect())
}

/// Gives the operator the rights to read and to act.
async fn grant(world: &World) -> Outcome {
    let roles = ["reader.yaml", "actor.yaml"].map(cluster_role);
    let [reader, actor] = roles;
    world.grant("scaled", &[reader?, actor?], OPERATOR).await
}
