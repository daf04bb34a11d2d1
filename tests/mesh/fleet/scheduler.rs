//! The part of a scheduler for pods of DaemonSets, whose controller has chosen the node already.

use std::convert::Infallible;
use std::time::Duration;

use laststream::fleet;
use serde_json::{Value, json};

use super::world::send;
use kit::prelude::*;

const PAUSE: Duration = Duration::from_millis(200);
/// Where the controller names the node.
const NODE: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
    /nodeSelectorTerms/0/matchFields/0/values/0";

/// Binds pods of a namespace to their nodes, until it fails.
pub(super) async fn bind_all(client: &fleet::Cluster, namespace: &str) -> Outcome<Infallible> {
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    loop {
        let waiting = format!("{pods}?fieldSelector=spec.nodeName%3D");
        let said: Value =
            serde_json::from_str(&send(client, "GET", &waiting, &Value::Null).await?)?;
        for pod in said["items"].as_array().context("pods")? {
            let name = pod["metadata"]["name"].as_str().context("a name")?;
            let node = pod.pointer(NODE).with_context(|| format!("no node for {name}"))?;
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": { "name": name },
                "target": { "apiVersion": "v1", "kind": "Node", "name": node },
            });
            send(client, "POST", &format!("{pods}/{name}/binding"), &binding).await?;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
