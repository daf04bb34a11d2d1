//! P2: a scale-down deletes the pods with the fewest streams.

use super::rolling::create_behind;
use super::workload::{Pod, Workload, routes};
use super::world::World;
use crate::load::HOST;
use crate::seen::row;
use kit::prelude::*;

/// The number of streams in flight of each pod.
const STREAMS: [usize; 4] = [0, 3, 50, 200];
/// The user with the rights of the project's ClusterRoles and no others.
const OPERATOR: &str = "scaler";
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

pub(crate) async fn deletion_cost() -> Outcome {
    let (world, _turn) = World::shared().await?;
    let gateway = Workload { replicas: 4, ..Workload::gateway("scaled", "edge") };
    let routes = routes("scaled", "edge", &[(HOST, "backend.default")]);
    let pods = create_behind(&gateway, &routes, None, world).await?;
    let mut held = Vec::new();
    for (pod, streams) in pods.iter().zip(STREAMS) {
        for _ in 0..streams {
            let mut client = Client::connect(pod.listener()).await?;
            // The app waits for the body.
            client.send(&Request::post("/", b"done").host(HOST).head_bytes()).await?;
            held.push(client);
        }
    }
    world.cluster.apply_roles().await?;
    let roles = ["laststream-reader", "laststream-actor"];
    world.cluster.bind(Some("scaled"), &roles, OPERATOR).await?;
    let verb = ["deletion-cost", "-n", "scaled", "-l", "app=edge", "--as", OPERATOR, "--once"];
    let written = async || {
        world.cluster.laststream(&verb).await?.expect(0)?;
        let expected = [None, Some("2"), Some("6"), Some("8")].map(|cost| cost.map(String::from));
        ensure_eq!(costs(world, &pods).await?, expected, "the costs");
        Ok(())
    };
    wait_for(PATIENCE, "the costs of 0, 3, 50 and 200 streams", written).await?;
    let kept = async || {
        let said = world.cluster.laststream(&verb).await?.expect(0)?;
        said.stderr_contains("nothing to write").map(drop)
    };
    wait_for(PATIENCE, "costs that stay", kept).await?;
    world.cluster.run(&["scale", "-n", "scaled", "deployment/edge", "--replicas=2"]).await?;
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
    world.cluster.run(&["delete", "namespace", "scaled", "--wait=false"]).await.map(drop)
}

/// The costs in the annotations of these pods.
async fn costs(world: &World, pods: &[Pod]) -> Outcome<Vec<Option<String>>> {
    let list = world.cluster.get("scaled", "pods").await?;
    let cost = |pod: &Pod| {
        let items = list["items"].as_array().into_iter().flatten();
        let mut items = items.filter(|item| item["metadata"]["name"] == pod.name.as_str());
        items.next().and_then(|item| Some(item["metadata"]["annotations"][COST].as_str()?.into()))
    };
    Ok(pods.iter().map(cost).collect())
}
