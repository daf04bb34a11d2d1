//! Changes of Envoy's configuration while streams are in flight: the gate's view of them, and the
//! end of the streams.

use tokio::time::sleep;

use super::bench::{Bench, SOON, bootstrap, gate_listener, same};
use crate::cases::stage::hcm;
use crate::lab::{Lab, cases};
use kit::bootstrap::only_stats_with_prefixes;
use kit::prelude::*;
use kit::wire::free_port;
use kit::xds::Xds;

cases! {
    streams_older_than_a_change_are_counted,
    a_second_change_during_a_drain_is_counted,
    a_gate_that_starts_while_chains_drain_knows_no_older_stream,
    a_gate_without_the_statistics_reports_unknown,
    a_gate_that_watches_queries_envoy_once_a_second,
}

const STREAMS: &str = "wasmcustom.laststream_gate_config_drain_streams";
const SECONDS: &str = "wasmcustom.laststream_gate_config_drain_seconds_left";
/// Requests through the admin cluster, which only the gate uses.
const QUERIES: &str = "cluster.prometheus_stats.upstream_rq_total";

/// The listener `main`, which a change of `version` replaces.
fn main(lab: &Lab, port: u16, version: usize) -> Listener {
    let hcm = hcm(lab, "{}");
    let via = json!(format!("envoy-{version}"));
    Listener::new("main", hcm.with("/via", via)).port(port)
}

struct Changing {
    bench: Bench,
    xds: Xds,
    port: u16,
    version: usize,
}

impl Changing {
    async fn set(lab: &Lab, gate: &str, drain: u32) -> Outcome<Self> {
        let (xds, port) = (Xds::new()?, free_port()?);
        xds.write_listeners(&[main(lab, port, 0)])?;
        let upstream = Upstream::start().await?;
        let bootstrap =
            bootstrap(&upstream).listener(gate_listener(lab, gate)).listeners_from(&xds);
        let options = Options { drain_time_s: Some(drain), ..Options::default() };
        let bench = Bench::start(lab, upstream, bootstrap, options).await?;
        Ok(Self { bench, xds, port, version: 0 })
    }

    async fn change(&mut self, lab: &Lab) -> Outcome {
        self.version += 1;
        let listeners = [main(lab, self.port, self.version)];
        self.xds.replace_listeners(&self.bench.envoy, &listeners).await?.accepted()
    }

    /// Waits until the gate has queried Envoy after this moment.
    async fn watched(&self) -> Outcome {
        let before = self.bench.envoy.stat(QUERIES).await?.unwrap_or_default();
        self.bench
            .envoy
            .wait_for_stat_where(QUERIES, |now| now.is_some_and(|now| now >= before + 2), SOON)
            .await
    }

    async fn older(&self, expected: u64) -> Outcome<Value> {
        wait_for(SOON, &format!("{expected} older streams"), async || {
            let status = self.bench.status().await?;
            let older = &status["config_drain"]["older"];
            if *older == expected { Ok(status) } else { bail!("{status}") }
        })
        .await
    }
}

fn gate(drain_ms: u64) -> String {
    format!(r#"{{"quiet_ms": 300, "config_change": {{"drain_ms": {drain_ms}}}}}"#)
}

async fn streams_older_than_a_change_are_counted(lab: &Lab) -> Outcome {
    let mut set = Changing::set(lab, &gate(8_000), 8).await?;
    let mut old = Vec::new();
    for key in ["a", "b", "c"] {
        old.push(set.bench.held(key).await?);
    }
    set.watched().await?;
    ensure!(set.bench.status().await?["config_drain"].is_null(), "nothing drains");
    set.change(lab).await?;
    let mut new = set.bench.held("new").await?;
    let status = set.older(3).await?;
    let left = status["config_drain"]["left_ms"].as_u64().context("the time left")?;
    ensure!((1..=8_000).contains(&left), "{status}");
    let reason = status["config_drain"]["reason"].as_str().unwrap_or_default();
    ensure!(
        reason.starts_with("config drain: 3 streams older than the change, ")
            && reason.ends_with(" s left"),
        "{reason}"
    );
    same(&status, "state", "serving")?;
    let envoy = &set.bench.envoy;
    envoy.wait_for_stat(STREAMS, 3, SOON).await?;
    let seconds = envoy.stat(SECONDS).await?;
    ensure!(seconds.is_some_and(|seconds| (1..=8).contains(&seconds)), "{seconds:?}");
    set.bench.upstream.release("a");
    old.remove(0).response("GET").await?.expect(200)?;
    set.older(2).await?;
    for client in &mut old {
        client.ended().await?;
    }
    wait_for(SOON, "the end of the config drain", async || {
        let status = set.bench.status().await?;
        if status["config_drain"].is_null() { Ok(()) } else { bail!("{status}") }
    })
    .await?;
    envoy.wait_for_stat(STREAMS, 0, SOON).await?;
    envoy.wait_for_stat(SECONDS, 0, SOON).await?;
    set.bench.release("new", &mut new).await?;
    let log = envoy.log();
    for line in ["config drain: a change has replaced", "config drain: over"] {
        ensure_eq!(log.matches(line).count(), 1, "lines with `{line}`");
    }
    Ok(())
}

/// The second change comes while the first drains, and while the gate drains.
async fn a_second_change_during_a_drain_is_counted(lab: &Lab) -> Outcome {
    let mut set = Changing::set(lab, &gate(12_000), 12).await?;
    let _one = set.bench.held("one").await?;
    set.watched().await?;
    set.change(lab).await?;
    set.older(1).await?;
    let mut two = set.bench.held("two").await?;
    set.bench.post("/drain").await?.expect(202)?;
    sleep(Duration::from_millis(2_500)).await;
    let status = set.older(1).await?;
    same(&status, "state", "draining")?;
    set.watched().await?;
    set.change(lab).await?;
    let mut three = set.bench.held("three").await?;
    // The first change cuts `one`; then the second counts, for which `two` is older.
    set.bench.envoy.wait_for_stat("listener_manager.total_filter_chains_draining", 2, SOON).await?;
    // The counters may not have replied since `one` was cut.
    wait_for(SOON, "the end of the first change", async || {
        let status = set.bench.status().await?;
        ensure_eq!(status["holding"], 2, "{status}");
        same(&status["config_drain"], "older", 1)
    })
    .await?;
    set.bench.release("two", &mut two).await?;
    set.bench.release("three", &mut three).await?;
    set.bench.until("state", "drained").await?;
    Ok(())
}

async fn a_gate_that_starts_while_chains_drain_knows_no_older_stream(lab: &Lab) -> Outcome {
    let (xds, port, gate_port) = (Xds::new()?, free_port()?, free_port()?);
    xds.write_listeners(&[main(lab, port, 0)])?;
    let upstream = Upstream::start().await?;
    let bootstrap = bootstrap(&upstream).listeners_from(&xds);
    let options = Options { drain_time_s: Some(20), ..Options::default() };
    let envoy = Envoy::start(&lab.envoy, bootstrap.build(), options).await?;
    let main_address = envoy.address("main").await?;
    let _held = upstream.hold(main_address, "a").await?;
    xds.replace_listeners(&envoy, &[main(lab, port, 1)]).await?.accepted()?;
    let gate = gate_listener(lab, &gate(20_000)).port(gate_port);
    xds.replace_listeners(&envoy, &[main(lab, port, 1), gate]).await?.accepted()?;
    let gate = envoy.address("gate").await?;
    let bench = Bench { upstream, envoy, main: main_address, gate };
    let status = wait_for(SOON, "a config drain", async || {
        let status = bench.status().await?;
        if status["config_drain"].is_null() { bail!("{status}") } else { Ok(status) }
    })
    .await?;
    let reason = status["config_drain"]["reason"].as_str().unwrap_or_default();
    ensure!(reason.starts_with("config drain: since before the gate watched"), "{reason}");
    ensure!(status["config_drain"]["older"].is_null(), "{status}");
    ensure_eq!(bench.envoy.stat(STREAMS).await?, Some(0), "the metric");
    Ok(())
}

async fn a_gate_without_the_statistics_reports_unknown(lab: &Lab) -> Outcome {
    let kept = only_stats_with_prefixes(&[
        "wasmcustom.",
        "http.",
        "listener_manager.lds",
        "listener.",
        "cluster.",
    ]);
    let hcm = hcm(lab, "{}");
    let bench = Bench::upon(Bootstrap::new().stats_matcher(kept), lab, &gate(8_000), hcm).await?;
    wait_for(SOON, "the reason", async || {
        let status = bench.status().await?;
        let reason = status["config_drain"]["reason"].as_str().unwrap_or_default();
        if reason.starts_with("config drain: unknown") { Ok(()) } else { bail!("{status}") }
    })
    .await
}

/// Two workers and the main thread tick, but only one of them queries Envoy. A gate without
/// `config_change` makes no queries.
async fn a_gate_that_watches_queries_envoy_once_a_second(lab: &Lab) -> Outcome {
    for (gate, expected) in [(gate(8_000), 3..=6_u64), ("{}".into(), 0..=0)] {
        let set = Changing::set(lab, &gate, 8).await?;
        let before = set.bench.envoy.stat(QUERIES).await?.unwrap_or_default();
        sleep(Duration::from_secs(5)).await;
        let queries = set.bench.envoy.stat(QUERIES).await?.unwrap_or_default() - before;
        ensure!(expected.contains(&queries), "{queries} queries in 5 s with {gate}");
    }
    Ok(())
}
