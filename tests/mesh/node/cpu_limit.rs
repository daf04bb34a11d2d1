//! N10: without `--concurrency`, Envoy 1.40 starts as many workers as its container's CPU limit
//! allows, and older ones as many as the node has processors. Each worker has a counter.

use std::thread;

use super::plain::{self, GATE, SECRET, SECRET_HEADER};
use super::workload::Workload;
use super::world::World;
use crate::release::Release;
use crate::seen::row;
use kit::prelude::*;
use laststream_local::envoy::Version;

const NAMESPACE: &str = "limited";
/// The first Envoy that obeys the limit. 1.37 wants to, and does not open the files.
const OBEYS: Version = Version::new(1, 40, 0);

pub(crate) async fn case() -> Outcome {
    let (world, _turn) = World::shared().await?;
    world.cluster.namespace(NAMESPACE).await?;
    let off = json!([{ "name": "ENVOY_CGROUP_CPU_DETECTION", "value": "false" }]);
    // Without `requests` the pod would ask for the whole limit, which a node with other pods lacks.
    let resources = json!({ "requests": { "cpu": "10m" }, "limits": { "cpu": "1" } });
    let fields = [("resources", resources), ("env", off)];
    plain::create(world, NAMESPACE, "limited", &fields[..1]).await?;
    plain::create(world, NAMESPACE, "former", &fields).await?;
    let all = thread::available_parallelism()?.get();
    ensure!(all > 1, "a limit of one processor changes nothing here");
    let obeys = Release::chosen()?.envoy() >= OBEYS;
    let seen = if obeys { 1 } else { all };
    counted(world, "former", all).await?;
    counted(world, "limited", seen).await?;
    let what = "an Envoy whose container has a limit of 1 CPU, without detection and with it";
    row("N10", what, format!("{all} and {seen} workers, count exact; drained"));
    Ok(())
}

/// Waits until the counters of so many workers have answered the gate, and that of the main thread,
/// which has no streams. A worker that still starts has no counter yet, and no streams.
async fn counted(world: &World, name: &str, workers: usize) -> Outcome {
    let pod = Workload::app(NAMESPACE, name).pod(world).await?;
    let gate = SocketAddr::new(pod.address, GATE);
    let ask =
        |path: &str| Request::get(path).host(&gate.ip().to_string()).header(SECRET_HEADER, SECRET);
    wait_for(PATIENCE, &format!("an exact count of {workers} workers"), async || {
        let status = once(gate, &ask("/status")).await?.expect(200)?.json()?;
        ensure_eq!(status["count"], "exact", "{status}");
        ensure_eq!(status["counters"], workers + 1, "{status}");
        Ok(())
    })
    .await?;
    let drained = once(gate, &ask("/prestop?wait")).await?.expect(200)?.json()?;
    ensure_eq!(drained["state"], "drained", "{name}: {drained}");
    Ok(())
}
