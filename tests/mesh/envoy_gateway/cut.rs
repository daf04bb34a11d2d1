//! G6: changes of Envoy Gateway's objects, two of which replace filter chains, and the streams of a
//! Gateway that they cut. KWOK forwards the gate's port, as kubelet does.

use super::controller::NAMESPACE;
use super::pod::{GATE, PORT, Pod};
use super::world::World;
use crate::cut_streams::{DRAIN, Gateway};
use crate::fleet::kwok;
use crate::objects::changes;
use kit::prelude::*;
use kit::wire::local;

const GATEWAY: &str = "g6";
const NODE: &str = "g6-node";

pub(super) async fn case() -> Outcome {
    let world = World::get().await?;
    let upstream = Upstream::start().await?;
    world.gateway(GATEWAY, &upstream).await?;
    let changes = changes(include_str!("objects/cut.yaml"), &[("gateway", &GATEWAY)])?;
    // Envoy starts with the old objects, so none of them replaces a listener.
    let old: Vec<Value> = changes.iter().map(|change| change.old.clone()).collect();
    world.cluster.apply_all(&old).await?;
    world.put(GATEWAY, "drain: {longest_request: 1s, delay: 0s}\n").await?;
    let drain = format!("\"--drain-time-s\",\"{}\"", DRAIN.as_secs());
    let is_so = |pod: &Value| pod.to_string().contains(&drain);
    let deployment = world.deployment(GATEWAY, is_so).await?;
    let _pod = Pod::serving(world, &deployment).await?;
    let _kwok = kwok::start(&world.cluster, GATE, local(GATE)).await?;
    object_of_pod(world, &deployment).await?;
    let gateway = Gateway {
        case: "G6",
        cluster: &world.cluster,
        user: &world.user,
        namespace: NAMESPACE,
        address: local(PORT),
        takes: |time| format!("/delay/{}", time.as_millis()),
    };
    for change in &changes {
        gateway.compare(change).await.with_context(|| world.controller.log())?;
    }
    Ok(())
}

/// The object of the pod whose containers are processes, on a node of KWOK.
async fn object_of_pod(world: &World, deployment: &Value) -> Outcome {
    world.cluster.apply_all(&[kwok::node(NODE, "10.244.251.0/24")]).await?;
    kwok::nodes_ready(&world.cluster).await?;
    let template = &deployment["spec"]["template"];
    let labels = &template["metadata"]["labels"];
    let metadata = json!({ "name": GATEWAY, "namespace": NAMESPACE, "labels": labels });
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata });
    pod["spec"] = template["spec"].clone();
    pod["spec"]["nodeName"] = NODE.into();
    world.cluster.apply_all(&[pod]).await?;
    world.cluster.hold("Ready", &["pod", GATEWAY, "--namespace", NAMESPACE]).await
}
