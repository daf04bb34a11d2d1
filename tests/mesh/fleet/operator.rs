//! A user with ClusterRoles of the project and no others, and pods for its commands.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use super::kwok;
use super::pods::Kind;
use super::stand_in;
use super::world::World;
use kit::command::CommandOutput;
use kit::prelude::*;

const OPERATOR: &str = "operator";
/// The finalizer that keeps deleted pods.
pub(super) const KEPT: &str = "laststream.dev/test";

/// Runs `laststream` as the operator, in this namespace.
pub(super) async fn laststream(
    world: &World,
    namespace: &str,
    arguments: &[&str],
) -> Outcome<CommandOutput> {
    let whose = ["--namespace", namespace, "--as", OPERATOR];
    world.cluster.laststream(&[arguments, &whose].concat()).await
}

/// Runs `laststream` as the operator until it ends well, because on a busy machine a pod may be
/// late with its answer.
pub(super) async fn succeeds(world: &World, namespace: &str, arguments: &[&str]) -> Outcome {
    let run = async || laststream(world, namespace, arguments).await?.expect(0).map(drop);
    wait_for(PATIENCE, &arguments.join(" "), run).await
}

/// Creates a namespace, and a node whose pods get addresses of this range.
pub(super) async fn place(world: &World, namespace: &str, node: &str, range: &str) -> Outcome {
    world.cluster.namespace(namespace).await?;
    world.cluster.apply_all(&[kwok::node(node, range)]).await?;
    kwok::nodes_ready(&world.cluster).await
}

/// Gives the operator the ClusterRoles, for a namespace or for the whole cluster.
pub(super) async fn grant(world: &World, namespace: Option<&str>, roles: &[&str]) -> Outcome {
    world.cluster.apply_roles().await?;
    world.cluster.bind(namespace, roles, OPERATOR).await
}

/// A pod with a proxy on this node.
pub(super) fn pod(namespace: &str, node: &str, name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace, "annotations": annotations,
            "labels": { "app": "web", "kind": "running" },
        },
        "spec": { "nodeName": node, "containers": [{ "name": "istio-proxy", "image": "none" }] },
    })
}

/// Waits until KWOK runs all pods of the namespace, and serves statistics at their addresses:
/// without the module for those with the label `app` of `gone`.
pub(super) async fn serve(world: &World, namespace: &str) -> Outcome {
    world.cluster.hold("Ready", &["pods", "--all", "--namespace", namespace]).await?;
    let said = world.cluster.get(namespace, "pods").await?;
    let index = |wanted| (0..100).find(|index| Kind::of(*index) == wanted).context("a kind");
    let (serving, without) = (index(Kind::Serving)?, index(Kind::Without)?);
    let mut addresses: BTreeMap<Ipv4Addr, usize> = BTreeMap::new();
    for pod in said["items"].as_array().context("pods")? {
        let is_gone = pod["metadata"]["labels"]["app"] == "gone";
        let address = pod["status"]["podIP"].as_str().context("an address")?.parse()?;
        addresses.insert(address, if is_gone { without } else { serving });
    }
    stand_in::serve_pods(addresses);
    Ok(())
}
