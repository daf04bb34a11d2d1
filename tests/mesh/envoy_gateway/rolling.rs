//! G3: rolling restarts of two replicas under load, with each of laststream's gates and with Envoy
//! Gateway's own manager alone. Each pod has a separate network; the list of addresses from which
//! the clients choose replaces kube-proxy.

use std::mem::take;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::network::Network;
use super::pod::{PORT, Pod};
use super::stops::{LANES, Lane, deployment};
use super::world::World;
use crate::load::{self, Load, Tally, WITH_GRPC};
use crate::seen::row;
use kit::locked;
use kit::prelude::*;

/// A Gateway for each lane.
const GATEWAYS: [&str; 3] = ["g3", "g3-program", "g3-own"];
const REPLICAS: u8 = 2;
const ROUNDS: usize = 2;
const ENOUGH: usize = 10_000;
/// How long new connections still come after the deletion.
const LAG: Duration = Duration::from_secs(1);

/// The pods that get new connections.
#[derive(Clone, Default)]
struct Endpoints(Arc<Mutex<Vec<SocketAddr>>>);

impl Endpoints {
    fn change(&self, change: impl FnOnce(&mut Vec<SocketAddr>)) {
        change(&mut locked(&self.0));
    }
}

impl load::Endpoints for Endpoints {
    fn any(&self) -> Option<SocketAddr> {
        fastrand::choice(locked(&self.0).iter()).copied()
    }

    fn has(&self, address: SocketAddr) -> bool {
        locked(&self.0).contains(&address)
    }

    fn pod_at(&self, address: SocketAddr) -> String {
        address.to_string()
    }
}

pub(super) async fn case() -> Outcome {
    let world = World::get().await?;
    let upstream = Upstream::start().await?;
    for ((lane, gateway), first) in LANES.iter().zip(GATEWAYS).zip([1, 11, 21]) {
        let lane = Lane { gateway, ..*lane };
        world.gateway(lane.gateway, &upstream).await?;
        let deployment = deployment(world, &lane).await?;
        let (tally, took) = restart(world, &deployment, first).await?;
        row(
            "G3",
            format!("{ROUNDS} rolling restarts of {REPLICAS} replicas: {}", lane.what),
            format!(
                "{} requests, {} of them WebSockets and gRPC calls: {} lost; the restarts took \
                 {:.0} s",
                tally.requests.load(Ordering::Relaxed),
                tally.long_lived.load(Ordering::Relaxed),
                tally.failures(),
                took.as_secs_f64()
            ),
        );
        say(&tally.first_failures(5));
        if lane.has_gate() {
            ensure_eq!(tally.failures(), 0, "{}:\n{}\n", lane.what, tally.first_failures(20));
        }
    }
    Ok(())
}

/// Replaces all replicas, some times: a new pod starts, and an old pod stops.
async fn restart(world: &World, deployment: &Value, first: u8) -> Outcome<(Tally, Duration)> {
    let endpoints = Endpoints::default();
    let mut numbers = first..;
    let mut pods = Vec::new();
    for number in numbers.by_ref().take(REPLICAS.into()) {
        pods.push(ready(world, deployment, number, &endpoints).await?);
    }
    let load = Load::start(endpoints.clone(), &WITH_GRPC);
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        for (mut pod, number) in take(&mut pods).into_iter().zip(numbers.by_ref()) {
            pods.push(ready(world, deployment, number, &endpoints).await?);
            let gone = pod.address(PORT);
            world.controller.forget("/tmp/shutdown-ready");
            let leaves = async {
                sleep(LAG).await;
                endpoints.change(|all| all.retain(|address| *address != gone));
            };
            tokio::join!(pod.stop(), leaves).0?;
        }
    }
    let took = begun.elapsed();
    load.enough(ENOUGH).await?;
    Ok((load.finish().await?, took))
}

async fn ready<'w>(
    world: &'w World,
    deployment: &Value,
    number: u8,
    endpoints: &Endpoints,
) -> Outcome<Pod<'w>> {
    let network = Network::new(number).await?;
    let mut pod = Pod::start_in(world, deployment, Some(network)).await?;
    pod.ready().await?;
    endpoints.change(|all| all.push(pod.address(PORT)));
    Ok(pod)
}
