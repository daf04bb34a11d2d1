//! N11: N1 for gates that need no stop hook and count in other ways, or whose module is configured
//! anew; beside the longest wait that Istio's agent has by itself. It runs alone: N1 has pods
//! enough for one machine.

use super::lane::{Lane, Meanwhile, long_grace, side_by_side, task};
use super::workload::{
    AGENT, Proxy, TCP, Workload, by_envoy, routes, sidecars, tcp_route, with_tcp,
};
use super::world::World;
use crate::seen::row;
use kit::prelude::*;

const NAMESPACE: &str = "hookless";
const REQUEST: Duration = Duration::from_secs(10);
/// The time that an agent waits by itself, and the grace period of its pod.
const DRAIN: Duration = Duration::from_secs(30);
const GRACE: u32 = 60;

pub(crate) async fn case() -> Outcome {
    let (world, _turn) = World::alone().await?;
    world.cluster.injected_namespace(NAMESPACE).await?;
    let front = Workload { drain: None, ..Workload::gateway(NAMESPACE, "front") };
    let mut objects = vec![sidecars(NAMESPACE)];
    objects.extend(routes(NAMESPACE, "front", &[("app.test", "app.hookless")]));
    for gateway in ["long", "envoy", "reload"] {
        objects.extend(routes(NAMESPACE, gateway, &[("kept.test", "backend.default")]));
    }
    objects.extend(tcp_route(NAMESPACE, "tcp", "backend.default"));
    world.cluster.apply_all(&objects).await?;
    front.create(world).await?;
    let front = front.pod(world).await?.listener();
    let lanes = lanes(front).into_iter().map(|lane| task(world, lane));
    let seen = side_by_side(lanes.collect()).await?;
    seen.iter().for_each(|seen| row("N11", seen.what, seen.words()));
    let [long, kept @ ..] = seen.as_slice() else { bail!("no lanes") };
    long.expect(!long.is_lost(), "the agent waits for longer than the request")?;
    long.expect(long.gone >= DRAIN, "and for all of that time")?;
    for kept in kept {
        kept.expect_kept()?;
        kept.expect(kept.exit == Some(0), "the agent ends after Envoy")?;
    }
    Ok(())
}

fn lanes(front: SocketAddr) -> [Lane; 5] {
    let lane = |what, name| {
        let drain = Some(long_grace());
        let workload = Workload { drain, starts: AGENT, ..Workload::gateway(NAMESPACE, name) };
        Lane { what, workload, request: REQUEST, idle_connection: true, ..Lane::default() }
    };
    let mut long = lane("a gateway with terminationDrainDuration: 30s, no gate", "long");
    (long.workload.drain, long.workload.grace) = (None, GRACE);
    long.workload.annotations =
        json!({ "proxy.istio.io/config": r#"{ "terminationDrainDuration": "30s" }"# });
    let mut envoy = lane("a gateway, counted by Envoy", "envoy");
    envoy.workload.more = by_envoy();
    let mut classic = lane("a classic sidecar, counted by Envoy", "app");
    (classic.workload.proxy, classic.workload.more) = (Proxy::Classic, by_envoy());
    (classic.idle_connection, classic.through) = (false, Some((front, "app.test")));
    let mut tcp = lane("a TCP connection through a gateway", "tcp");
    tcp.workload.more = with_tcp();
    (tcp.idle_connection, tcp.port) = (false, Some(TCP));
    let mut reload = lane("a gateway whose module is configured anew in the drain", "reload");
    reload.meanwhile = Meanwhile::Reload;
    [long, envoy, classic, tcp, reload]
}
