//! N9: the proxy of a native sidecar ends in a drain. This kubelet does not start it again; one
//! with KEP-4438 (alpha in Kubernetes 1.37) does, and docs/operate.md says what holds then.

use super::lane::{begin, end};
use super::workload::{self, Proxy, SIDECAR, Workload, sidecars};
use super::world::World;
use crate::seen::row;
use kit::prelude::*;

const NAMESPACE: &str = "dead";
/// The hook of the app's container keeps it, so kubelet has the time to start the proxy again.
const APP: u8 = 12;
/// The time from the deletion to the end of the proxy: the drain has begun by then.
const LATER: Duration = Duration::from_secs(2);
/// Longer than all else takes, and the request lasts until then: what is gone before does not wait.
const DEADLINE: Duration = Duration::from_secs(90);

pub(crate) async fn case() -> Outcome {
    let (world, _turn) = World::shared().await?;
    world.cluster.injected_namespace(NAMESPACE).await?;
    world.cluster.apply_all(&[sidecars(NAMESPACE)]).await?;
    let workload = Workload {
        proxy: Proxy::Native,
        drain: Some(json!({ "deadline": format!("{}s", DEADLINE.as_secs()) })),
        app_hook: Some(json!({ "preStop": { "sleep": { "seconds": APP } } })),
        ..Workload::app(NAMESPACE, "native")
    };
    workload.create(world).await?;
    let pod = workload.pod(world).await?;
    let request = begin(SocketAddr::new(pod.address, SIDECAR), "native.dead").await?;
    let deleted = workload::delete(world, NAMESPACE, &pod.name, &[]).await?;
    let request = end(request, DEADLINE);
    tokio::time::sleep(LATER).await;
    let quit = ["pilot-agent", "request", "POST", "quitquitquit"];
    // The connection may break off, because the agent ends with its Envoy. A busy one may not
    // answer.
    while !request.is_finished() {
        world.exec(NAMESPACE, &pod.name, &quit).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let (answer, _) = request.await?;
    ensure!(answer.is_err(), "the request survives its proxy: {answer:?}");
    let (gone, last) = world.pods.gone(NAMESPACE, &pod.name).await?;
    let gone = gone - deleted;
    let statuses = last["status"]["initContainerStatuses"].as_array().context("statuses")?;
    let proxy = statuses.iter().find(|status| status["name"] == "istio-proxy");
    let restarts = proxy.context("the proxy's status")?["restartCount"].as_u64();
    ensure_eq!(restarts, Some(0), "kubelet starts it again: {last}");
    ensure!(gone < DEADLINE, "the dead proxy's hook holds the pod for {gone:?}");
    row(
        "N9",
        "the proxy of a native sidecar ends 2 s into its drain",
        format!(
            "not started again; its request is cut; the pod was gone after {:.1} s",
            gone.as_secs_f64()
        ),
    );
    Ok(())
}
