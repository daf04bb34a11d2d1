//! G3: a rolling restart of two replicas under load, with each of laststream's gates and with Envoy
//! Gateway's own manager alone. Each pod has a separate network; the list of addresses from which
//! the clients choose replaces kube-proxy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::network::Network;
use super::pod::{PORT, Pod};
use super::stops::{Fate, LANES, Lane, deployment};
use super::world::World;
use crate::seen::row;
use kit::locked;
use kit::prelude::*;

/// A Gateway for each lane.
const GATEWAYS: [&str; 3] = ["g3", "g3-program", "g3-own"];
const REPLICAS: u8 = 2;
/// The clients, by the time that each of their requests takes; most are short.
const CLIENTS: [Duration; 8] = {
    let [short, long] = [Duration::from_millis(300), Duration::from_secs(5)];
    [short, short, short, short, short, short, long, long]
};
/// How long new connections still come after the deletion.
const LAG: Duration = Duration::from_secs(1);
/// How long the load runs before the restart and after it.
const STEADY: Duration = Duration::from_secs(2);

/// The pods that get new connections.
#[derive(Clone, Default)]
struct Endpoints(Arc<Mutex<Vec<SocketAddr>>>);

impl Endpoints {
    fn change(&self, change: impl FnOnce(&mut Vec<SocketAddr>)) {
        change(&mut locked(&self.0));
    }

    fn has(&self, address: SocketAddr) -> bool {
        locked(&self.0).contains(&address)
    }

    fn any(&self) -> Option<SocketAddr> {
        fastrand::choice(locked(&self.0).iter()).copied()
    }
}

pub(super) async fn case() -> Outcome {
    let world = World::get().await?;
    let upstream = Upstream::start().await?;
    for ((lane, gateway), first) in LANES.iter().zip(GATEWAYS).zip([1, 11, 21]) {
        let lane = Lane { gateway, ..*lane };
        world.gateway(lane.gateway, upstream.h1()).await?;
        let deployment = deployment(world, &lane).await?;
        let (fate, took) = restart(world, &deployment, first).await?;
        row(
            "G3",
            format!("a rolling restart of {REPLICAS} replicas, 8 clients: {}", lane.what),
            format!("{}; it took {:.0} s", fate.words(), took.as_secs_f64()),
        );
        if lane.has_gate() {
            fate.expect_nothing_lost()?;
        }
        ensure!(fate.answered > 100, "hardly any load: {fate:?}");
    }
    Ok(())
}

/// Restarts both replicas: twice, a new pod starts and an old pod stops.
async fn restart(world: &World, deployment: &Value, first: u8) -> Outcome<(Fate, Duration)> {
    let endpoints = Endpoints::default();
    let mut old = Vec::new();
    for number in first..first + REPLICAS {
        old.push(ready(world, deployment, number, &endpoints).await?);
    }
    let over = Arc::new(AtomicBool::new(false));
    let mut clients: JoinSet<Fate> = JoinSet::new();
    for takes in CLIENTS {
        clients.spawn(client(endpoints.clone(), takes, Arc::clone(&over)));
    }
    sleep(STEADY).await;
    let begun = Instant::now();
    let mut new = Vec::new();
    for (number, mut pod) in (first + REPLICAS..).zip(old) {
        new.push(ready(world, deployment, number, &endpoints).await?);
        let gone = pod.address(PORT);
        world.controller.forget("/tmp/shutdown-ready");
        let leaves = async {
            sleep(LAG).await;
            endpoints.change(|all| all.retain(|address| *address != gone));
        };
        tokio::join!(pod.stop(), leaves).0?;
    }
    let took = begun.elapsed();
    sleep(STEADY).await;
    over.store(true, Ordering::Relaxed);
    let fates = clients.join_all().await;
    let sum = |one: fn(&Fate) -> u64| fates.iter().map(one).sum();
    let fate = Fate {
        answered: sum(|fate| fate.answered),
        cut: sum(|fate| fate.cut),
        refused: sum(|fate| fate.refused),
    };
    Ok((fate, took))
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

/// Sends one request after the other, each on a separate connection.
async fn client(endpoints: Endpoints, takes: Duration, over: Arc<AtomicBool>) -> Fate {
    let mut fate = Fate::default();
    while !over.load(Ordering::Relaxed) {
        let refused = fate.refused;
        match endpoints.any() {
            Some(address) => {
                fate.send(address, takes).await;
                if !endpoints.has(address) {
                    fate.refused = refused; // a client that was late, and tries another
                }
            }
            None => fate.refused += 1,
        }
        if fate.refused > refused {
            sleep(Duration::from_millis(100)).await;
        }
    }
    fate
}
