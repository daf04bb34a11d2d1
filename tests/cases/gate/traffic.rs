//! Drains under traffic: clients that leave when they are asked to, clients that never do, and
//! HTTP/3.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::bench::{Bench, SOON, same};
use super::states::kept;
use crate::cases::stage::hcm;
use crate::lab::{Lab, cases};
use kit::certificates::Authority;
use kit::h3;
use kit::prelude::*;
use kit::wait::join_all;

cases! {
    drains_when_http1_clients_leave,
    keeps_the_deadline_when_clients_stay,
    lingers_while_there_are_http3_connections,
}

/// Sends one request after the other on one connection, with pauses, until an answer has
/// `connection: close`.
pub(crate) async fn obeys(at: SocketAddr, pause: Duration) -> Outcome {
    let mut client = Client::connect(at).await?;
    loop {
        let answer = client.get("/delay/5").await?.expect(200)?;
        if answer.header("connection").as_deref() == Some("close") {
            return Ok(());
        }
        sleep(pause).await;
    }
}

/// Like [`obeys`], and connects again at once.
async fn stays(main: SocketAddr, over: Arc<AtomicBool>) -> Outcome {
    while !over.load(Ordering::Relaxed) {
        obeys(main, Duration::ZERO).await?;
    }
    Ok(())
}

async fn drains_when_http1_clients_leave(lab: &Lab) -> Outcome {
    for begin in ["drain_listeners", "fail_health_checks"] {
        let gate =
            format!(r#"{{"quiet_ms": 300, "deadline_ms": 90000, "begin": {{"call": "{begin}"}}}}"#);
        let bench = Bench::set(lab, &gate).await?;
        let mut clients = JoinSet::new();
        (0..16).for_each(|_| drop(clients.spawn(obeys(bench.main, Duration::ZERO))));
        wait_for(SOON, "busy clients", async || {
            let status = bench.status().await?;
            ensure!(status["scopes"][0]["begun"].as_u64() > Some(100), "{status}");
            Ok(())
        })
        .await?;
        let hook = bench.get("/prestop?wait").await?.expect(200)?;
        same(&hook.json()?, "state", "drained")?;
        join_all(clients).await?;
    }
    Ok(())
}

async fn keeps_the_deadline_when_clients_stay(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, r#"{"quiet_ms": 300, "deadline_ms": 3000}"#).await?;
    let over = Arc::<AtomicBool>::default();
    let mut clients = JoinSet::new();
    (0..8).for_each(|_| drop(clients.spawn(stays(bench.main, Arc::clone(&over)))));
    let hook = bench.get("/prestop?wait").await?.expect(200)?;
    same(&hook.json()?, "state", "expired")?;
    kept(&bench, 3_000).await?;
    over.store(true, Ordering::Relaxed);
    join_all(clients).await.map(drop)
}

/// An annotation that `laststream render` has written.
const ANNOTATED: &str = include_str!("../../../envoyfilter-manifests/nlb/proxy-config.yaml");

/// The bytes that wait in HTTP/3 are not known, so zero must last, with the statistics that a
/// rendered pod of Istio has. Once the connections have gone, zero bytes are believed.
async fn lingers_while_there_are_http3_connections(lab: &Lab) -> Outcome {
    const LINGER: u64 = 3_000;
    let suffixes = ANNOTATED
        .split_once("statsInclusionSuffixes: \"")
        .and_then(|(_, rest)| rest.split_once('"'))
        .context("the annotation")?
        .0;
    let suffixes = suffixes.split(',').map(|suffix| json!({ "suffix": suffix }));
    let istios = ["wasmcustom.", "listener_manager", "server", "cluster_manager"];
    let prefixes = istios.iter().map(|prefix| json!({ "prefix": prefix }));
    let patterns: Vec<Value> = suffixes.chain(prefixes).collect();
    let bootstrap =
        Bootstrap::new().stats_matcher(json!({ "inclusion_list": { "patterns": patterns } }));
    let authority = Authority::new()?;
    let listener = Listener::quic("main", hcm(lab, "{}"), &authority.server()?);
    let gate = format!(r#"{{"quiet_ms": 300, "linger_ms": {LINGER}, "deadline_ms": 60000}}"#);
    let bench = Bench::behind(listener, bootstrap, lab, &gate).await?;
    let mut client =
        h3::Client::connect(bench.main, &authority.client_config(&["h3"], None)?).await?;
    client.get("/echo").await?.expect(200)?;
    let lasted = async || {
        same(&bench.hook().await??.expect(200)?.json()?, "state", "drained")?;
        let status = bench.status().await?;
        bench.delete("/drain").await?.expect(200)?;
        status["draining_ms"].as_u64().context("the time of the drain")
    };
    let with_client = lasted().await?;
    ensure!(with_client >= LINGER, "{with_client} ms with an HTTP/3 connection");
    client.close().await?;
    bench.envoy.wait_for_stat("http.main.downstream_cx_http3_active", 0, SOON).await?;
    let without = lasted().await?;
    ensure!(without < with_client, "{without} ms without, {with_client} ms with a connection");
    Ok(())
}
