//! E3: changes of Istio's objects, three of which replace listeners, and the streams of a gateway
//! that they cut.

use super::rolling::know_the_way;
use super::workload::{self, Workload, gateway_label};
use super::world::World;
use crate::cut_streams::{DRAIN, Gateway};
use crate::load::HOST;
use crate::objects::{Given, changes};
use kit::prelude::*;

const NAMESPACE: &str = "changes";
const GATEWAY: &str = "gateway";
/// A host that the Gateway has only after its change.
const OTHER: &str = "other.test";

pub(crate) async fn case() -> Outcome {
    let (world, _turn) = World::shared().await?;
    world.cluster.injected_namespace(NAMESPACE).await?;
    let given: &[Given<'_>] = &[
        ("namespace", &NAMESPACE),
        ("gateway", &GATEWAY),
        ("label", &gateway_label(NAMESPACE, GATEWAY)),
        ("port", &workload::GATEWAY),
        ("host", &HOST),
        ("other", &OTHER),
    ];
    let changes = changes(include_str!("objects/changes.yaml"), given)?;
    // The gateway starts with the old objects, so none of them replaces a listener.
    let old: Vec<Value> = changes.iter().map(|change| change.old.clone()).collect();
    world.cluster.apply_all(&old).await?;
    let config = format!("drainDuration: {}s", DRAIN.as_secs());
    let annotations = json!({ "proxy.istio.io/config": config });
    let workload = Workload { annotations, ..Workload::gateway(NAMESPACE, GATEWAY) };
    workload.create(world).await?;
    let pods = know_the_way(&workload, world).await?;
    let gateway = Gateway {
        case: "E3",
        cluster: &world.cluster,
        user: &world.user,
        namespace: NAMESPACE,
        address: pods.first().context("a pod")?.listener(),
        takes: |time| format!("/takes/{}", time.as_millis()),
    };
    for change in &changes {
        gateway.compare(change).await?;
    }
    world.cluster.run(&["delete", "namespace", NAMESPACE, "--wait=false"]).await.map(drop)
}
