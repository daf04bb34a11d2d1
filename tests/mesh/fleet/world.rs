//! The world that the cases share: an API server, KWOK, addresses for pods, and the stand-ins that
//! answer there.

use std::time::Instant;

use http::Request;
use laststream_fleet::{self as fleet, Access};
use tokio::sync::Mutex;

use super::cost::{Requests, peak_kb};
use super::pods::{self, NAMESPACE};
use super::{gate, kwok, stand_in};
use crate::cluster::{Cluster, Settings};
use crate::isolation::run_tool;
use crate::program::Program;
use crate::seen::row;
use crate::started::Started;
use kit::fake_server::FakeServer;
use kit::prelude::*;

/// How many streams hold the gate of each draining pod.
pub(super) const HELD: u64 = 2;
/// The default port of a gate.
const GATE: u16 = 16091;

/// Everything in it ends with the process.
pub(super) struct World {
    pub(super) cluster: Cluster,
    _kwok: Program,
    kwok_pid: u32,
    _gate: FakeServer,
    written: Mutex<usize>,
}

impl World {
    pub(super) async fn get() -> Outcome<&'static Self> {
        static WORLD: Started<World> = Started::new();
        WORLD.get(Self::start).await
    }

    /// Adds pods until the world has `pods` of them.
    pub(super) async fn with(case: &'static str, pods: usize) -> Outcome<&'static Self> {
        let world = Self::get().await?;
        let mut written = world.written.lock().await;
        let client = world.client().await?;
        let (begun, before) = (Instant::now(), Requests::of(&world.cluster).await?);
        let addresses = pods::create(&world.cluster, &client, *written, pods).await?;
        let took = begun.elapsed().as_secs_f64();
        let patches = Requests::of(&world.cluster).await?.statuses - before.statuses;
        stand_in::serve_pods(addresses);
        let peak = peak_kb(world.kwok_pid).context("KWOK's memory")? as f64 / 1024.0;
        row(
            case,
            format!("{} more pods on KWOK's nodes, 100 on each", pods - *written),
            format!("as they are to be after {took:.0} s; KWOK: {patches} patches, {peak:.0} MB"),
        );
        *written = pods;
        Ok(world)
    }

    async fn start() -> Outcome<Self> {
        run_tool("ip", &["route", "replace", "local", "10.244.0.0/16", "dev", "lo"])?;
        stand_in::start()?;
        let cluster = Cluster::start(&Settings::default()).await?;
        cluster.namespace(NAMESPACE).await?;
        let gate = gate::start(HELD)?;
        let mut kwok = kwok::start(&cluster, GATE, gate.address).await?;
        Ok(Self {
            cluster,
            kwok_pid: kwok.process().pid(),
            _kwok: kwok,
            _gate: gate,
            written: Mutex::new(0),
        })
    }

    /// A client for this case alone, because a client ends with the case that made it.
    pub(super) async fn client(&self) -> Outcome<fleet::Cluster> {
        let access = Access { kubeconfig: Some(self.cluster.kubeconfig()), ..Access::default() };
        fleet::Cluster::connect(&access, &|_| None).await.map_err(Error::msg)
    }
}

/// Sends a request to the API server until it has succeeded. A null body is not sent. On a busy
/// machine an answer may get lost: what is there, or has gone, needs no second request.
pub(super) async fn send(
    client: &fleet::Cluster,
    method: &str,
    path: &str,
    body: &Value,
) -> Outcome {
    wait_for(PATIENCE, path, async || {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json");
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let failure = match client.client().request_text(request.body(body)?).await {
            Ok(_) => return Ok(()),
            Err(failure) => failure.to_string(),
        };
        let done = if method == "POST" { "already exists" } else { "not found" };
        ensure!(failure.contains(done), "{failure}");
        Ok(())
    })
    .await
}
