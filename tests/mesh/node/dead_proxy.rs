//! N9: the proxy of a native sidecar ends in a drain. This kubelet does not start it again; one
//! with KEP-4438 (alpha in Kubernetes 1.37) does, and docs/operate.md says what holds then.

use super::lane::{BEFORE, ask};
use super::workload::{self, Proxy, SIDECAR, Workload, sidecars};
use super::world::World;
use crate::seen::row;
use kit::prelude::*;

const NAMESPACE: &str = "dead";
const REQUEST: Duration = Duration::from_secs(12);
/// The time from the deletion to the end of the proxy: the drain has begun by then.
const LATER: Duration = Duration::from_secs(2);
const GRACE: Duration = Duration::from_secs(30);

pub(crate) async fn case() -> Outcome {
    let (world, _turn) = World::shared().await?;
    world.cluster.injected_namespace(NAMESPACE).await?;
    world.cluster.apply_all(&[sidecars(NAMESPACE)]).await?;
    let drain = Some(json!({}));
    let native = Workload::app(NAMESPACE, "native");
    let workload = Workload { proxy: Proxy::Native, drain, ..native };
    workload.create(world).await?;
    let pod = workload.pod(world).await?;
    let request = ask(SocketAddr::new(pod.address, SIDECAR), "native.dead", REQUEST);
    tokio::time::sleep(BEFORE).await;
    let deleted = workload::delete(world, NAMESPACE, &pod.name, &[]).await?;
    tokio::time::sleep(LATER).await;
    let quit = ["pilot-agent", "request", "POST", "quitquitquit"];
    // The connection may break off, because the agent ends with its Envoy.
    world.exec(NAMESPACE, &pod.name, &quit).await?;
    let (answer, _) = request.await?;
    ensure!(answer.is_err(), "the request survives its proxy: {answer:?}");
    let (gone, last) = world.pods.gone(NAMESPACE, &pod.name, Duration::from_secs(90)).await?;
    let gone = gone - deleted;
    let statuses = last["status"]["initContainerStatuses"].as_array().context("statuses")?;
    let proxy = statuses.iter().find(|status| status["name"] == "istio-proxy");
    let restarts = proxy.context("the proxy's status")?["restartCount"].as_u64();
    ensure_eq!(restarts, Some(0), "kubelet starts it again: {last}");
    ensure!(gone < GRACE, "the dead proxy's hook holds the pod for {gone:?}");
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
