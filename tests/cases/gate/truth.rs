//! The gate trusts a zero only if streams are known to be counted and none is older than the
//! counters. Cases: filters that are added, removed or missing, and an Envoy without statistics.

use crate::cases::stage::{allow_all, discovered, hcm, routes};
use crate::lab::{Lab, cases};
use kit::bootstrap::only_stats_with_prefixes;
use kit::prelude::*;
use kit::wire::free_port;
use kit::xds::Xds;

use super::bench::{
    Bench, SOON, bootstrap, gate_filter, gate_listener, gate_listener_with, options, same,
};
use super::states::kept;
use super::watch::{opens_only_at_zero, stays_closed};

const GATE: &str = r#"{"quiet_ms": 300, "deadline_ms": 90000}"#;
const SHORT: &str = r#"{"quiet_ms": 300, "deadline_ms": 2500, "admin": {"timeout_ms": 400}}"#;

cases! {
    a_listener_replaced_by_one_with_the_filter_is_not_empty,
    a_filter_that_comes_and_goes_by_discovery_leaves_nothing_out,
    without_a_counter_of_its_scope_envoy_is_believed,
    without_any_source_the_deadline_decides,
    a_rejected_counter_proves_no_quiet_period,
    a_drain_goes_on_through_other_configurations,
}

/// `main` comes from discovery: of listeners, or of the filter called `laststream`.
async fn bench(lab: &Lab, xds: &Xds, gate: Listener, main: Option<Hcm>) -> Outcome<Bench> {
    let upstream = Upstream::start().await?;
    let mut bootstrap = bootstrap(&upstream).listener(gate);
    bootstrap = match main {
        Some(hcm) => bootstrap.listener(Listener::new("main", hcm).direction("INBOUND")),
        None => bootstrap.listeners_from(xds),
    };
    Bench::start(lab, upstream, bootstrap, options()).await
}

fn without() -> Hcm {
    routes(Hcm::new("main"))
}

/// Releases a held request, which must end with 200.
async fn release(bench: &Bench, key: &str, mut client: Client) -> Outcome {
    bench.release(key, &mut client).await
}

async fn a_listener_replaced_by_one_with_the_filter_is_not_empty(lab: &Lab) -> Outcome {
    let xds = Xds::new()?;
    let port = free_port()?;
    xds.write_listeners(&[Listener::new("main", without()).port(port)])?;
    let bench = bench(lab, &xds, gate_listener(lab, GATE), None).await?;
    let old = bench.held("old").await?;
    xds.replace_listeners(&bench.envoy, &[Listener::new("main", hcm(lab, "{}")).port(port)])
        .await?
        .accepted()?;
    bench.until("count", "partial").await?;
    bench.post("/quitquitquit").await?.expect(503)?;
    bench.post("/drain").await?.expect(202)?;
    stays_closed(&bench, 15).await?;
    release(&bench, "old", old).await?;
    opens_only_at_zero(&bench).await
}

/// The filter is none, the module, none and the module, each time with a request in flight.
async fn a_filter_that_comes_and_goes_by_discovery_leaves_nothing_out(lab: &Lab) -> Outcome {
    let xds = Xds::new()?;
    xds.write_filter("laststream", &allow_all())?;
    let bench = bench(lab, &xds, gate_listener(lab, GATE), Some(discovered(&xds))).await?;
    let mut held = Vec::new();
    for (key, next) in [
        ("a", lab.stream("{}").typed_config()),
        ("b", allow_all()),
        ("c", lab.stream("{}").typed_config()),
    ] {
        held.push((key, bench.held(key).await?));
        xds.replace_filter(&bench.envoy, "laststream", &next).await?.accepted()?;
    }
    bench.post("/drain").await?.expect(202)?;
    // The counted request ends first, so the remaining ones are all uncounted.
    let (key, counted) = held.remove(1);
    release(&bench, key, counted).await?;
    for (key, client) in held {
        stays_closed(&bench, 8).await?;
        release(&bench, key, client).await?;
    }
    opens_only_at_zero(&bench).await
}

/// The filter is missing, or counts another scope than the gate's.
async fn without_a_counter_of_its_scope_envoy_is_believed(lab: &Lab) -> Outcome {
    for main in [without(), hcm(lab, r#"{"scope": "inbound"}"#)] {
        let bench = Bench::with(lab, GATE, main).await?;
        let held = bench.held("a").await?;
        bench.until("count", "unknown").await?;
        bench.post("/quitquitquit").await?.expect(503)?;
        bench.post("/drain").await?.expect(202)?;
        stays_closed(&bench, 10).await?;
        release(&bench, "a", held).await?;
        opens_only_at_zero(&bench).await?;
    }
    Ok(())
}

/// Nothing is in flight, but no counter proves it, and this Envoy does not keep the statistics.
async fn without_any_source_the_deadline_decides(lab: &Lab) -> Outcome {
    let shown = ["wasmcustom.laststream_", "listener", "server", "cluster"];
    let bootstrap = Bootstrap::new().stats_matcher(only_stats_with_prefixes(&shown));
    let bench = Bench::upon(bootstrap, lab, SHORT, without()).await?;
    bench.post("/drain").await?.expect(202)?;
    let waiter = bench.get("/prestop?wait").await?.expect(200)?;
    same(&waiter.json()?, "state", "expired")?;
    same(&bench.status().await?, "count", "unknown")?;
    kept(&bench, 2_500).await
}

/// The gauges work, but the counter that shows whether a stream came in between does not. The
/// requests are shorter than the time between the gate's evaluations.
async fn a_rejected_counter_proves_no_quiet_period(lab: &Lab) -> Outcome {
    const COUNTER: &str = "wasmcustom.laststream_streams_begun_gateway_total";
    let rejected = json!({ "exclusion_list": { "patterns": [{ "exact": COUNTER }] } });
    let gate = r#"{"quiet_ms": 1500, "deadline_ms": 90000}"#;
    let bench =
        Bench::upon(Bootstrap::new().stats_matcher(rejected), lab, gate, hcm(lab, "{}")).await?;
    bench.post("/drain").await?.expect(202)?;
    for number in 0..15 {
        once(bench.main, &Request::get("/echo")).await?.expect(200)?;
        tokio::time::sleep(Duration::from_millis(300)).await;
        ensure_eq!(bench.get("/ready").await?.status, 503, "after request {number}");
    }
    same(&bench.status().await?, "count", "rejected")?;
    let line = bench.envoy.wait_for_log(&format!("rejects `{COUNTER}`"), SOON).await?;
    ensure!(line.contains("statsInclusionPrefixes"), "the way out: {line}");
    let held = bench.held("a").await?;
    stays_closed(&bench, 10).await?;
    release(&bench, "a", held).await?;
    opens_only_at_zero(&bench).await
}

/// Both roles get another configuration while the drain goes on, and a client waits.
async fn a_drain_goes_on_through_other_configurations(lab: &Lab) -> Outcome {
    let xds = Xds::new()?;
    let gate = |gate: &str| gate_filter(lab, gate)["typed_config"].take();
    xds.write_filter("laststream", &lab.stream("{}").typed_config())?;
    xds.write_filter("gate", &gate(GATE))?;
    let listener = gate_listener_with("gate", filters::discovered("gate", &xds));
    let bench = bench(lab, &xds, listener, Some(discovered(&xds))).await?;
    let held = bench.held("a").await?;
    let waiter = bench.hook();
    let left = bench.until("state", "draining").await?["deadline_in_ms"].as_u64();
    let left = left.context("the time until the deadline")?;
    let excluding = r#"{"count": {"exclude": {"paths": [{"prefix": "/nowhere"}]}}}"#;
    xds.replace_filter(&bench.envoy, "laststream", &lab.stream(excluding).typed_config())
        .await?
        .accepted()?;
    stays_closed(&bench, 3).await?;
    xds.replace_filter(&bench.envoy, "gate", &gate(r#"{"quiet_ms": 300, "deadline_ms": 900000}"#))
        .await?
        .accepted()?;
    stays_closed(&bench, 3).await?;
    let status = bench.status().await?;
    let left_now = status["deadline_in_ms"].as_u64().context("the time until the deadline")?;
    ensure!(left_now < left, "a longer deadline moves nothing away: {status}");
    xds.replace_filter(&bench.envoy, "gate", &gate(r#"{"quiet_ms": 300, "deadline_ms": 60000}"#))
        .await?
        .accepted()?;
    stays_closed(&bench, 3).await?;
    let status = bench.status().await?;
    let is_shorter = status["deadline_in_ms"].as_u64().is_some_and(|left| left < 60_000);
    ensure!(is_shorter, "a shorter deadline counts: {status}");
    release(&bench, "a", held).await?;
    let answer = waiter.await??.expect(200)?;
    ensure_eq!(answer.json()?["state"], "drained", "{}", answer.text());
    opens_only_at_zero(&bench).await
}
