//! The gate trusts a zero only if streams are known to be counted and none is older than the
//! counters. Cases: an Envoy without statistics, and other configurations.

use crate::cases::stage::{hcm, routes};
use crate::lab::{Lab, cases};
use kit::bootstrap::only_stats_with_prefixes;
use kit::prelude::*;
use kit::xds::Xds;

use super::bench::{Bench, SOON, gate_filter, same};
use super::states::kept;
use super::watch::{opens_only_at_zero, stays_closed};

const GATE: &str = r#"{"quiet_ms": 300, "deadline_ms": 90000}"#;
const SHORT: &str = r#"{"quiet_ms": 300, "deadline_ms": 2500, "admin": {"timeout_ms": 400}}"#;

cases! {
    without_any_source_the_deadline_decides,
    a_rejected_counter_proves_no_quiet_period,
    a_drain_goes_on_through_other_configurations,
}

/// Nothing is in flight, but no counter proves it, and this Envoy does not keep the statistics.
async fn without_any_source_the_deadline_decides(lab: &Lab) -> Outcome {
    let shown = ["wasmcustom.laststream_", "listener", "server", "cluster"];
    let bootstrap = Bootstrap::new().stats_matcher(only_stats_with_prefixes(&shown));
    let bench = Bench::upon(bootstrap, lab, SHORT, routes(Hcm::new("main"))).await?;
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
    let mut held = bench.held("a").await?;
    stays_closed(&bench, 10).await?;
    bench.release("a", &mut held).await?;
    opens_only_at_zero(&bench).await
}

/// Both roles get another configuration while the drain goes on, and a client waits.
async fn a_drain_goes_on_through_other_configurations(lab: &Lab) -> Outcome {
    let xds = Xds::new()?;
    let gate = |gate: &str| gate_filter(lab, gate)["typed_config"].take();
    xds.write_filter("laststream", &lab.stream("{}").typed_config())?;
    xds.write_filter("gate", &gate(GATE))?;
    let bench = Bench::discovered(lab, &xds).await?;
    let mut held = bench.held("a").await?;
    let waiter = bench.hook();
    let left = bench.until("state", "draining").await?["deadline_in_ms"].as_u64();
    let left = left.context("the time until the deadline")?;
    let replace = async |name: &str, config: Value| {
        xds.replace_filter(&bench.envoy, name, &config).await?.accepted()?;
        stays_closed(&bench, 3).await
    };
    let excluding = r#"{"count": {"exclude": {"paths": [{"prefix": "/nowhere"}]}}}"#;
    replace("laststream", lab.stream(excluding).typed_config()).await?;
    replace("gate", gate(r#"{"quiet_ms": 300, "deadline_ms": 900000}"#)).await?;
    let status = bench.status().await?;
    let left_now = status["deadline_in_ms"].as_u64().context("the time until the deadline")?;
    ensure!(left_now < left, "a longer deadline moves nothing away: {status}");
    replace("gate", gate(r#"{"quiet_ms": 300, "deadline_ms": 60000}"#)).await?;
    let status = bench.status().await?;
    let is_shorter = status["deadline_in_ms"].as_u64().is_some_and(|left| left < 60_000);
    ensure!(is_shorter, "a shorter deadline counts: {status}");
    bench.release("a", &mut held).await?;
    let answer = waiter.await??.expect(200)?;
    ensure_eq!(answer.json()?["state"], "drained", "{}", answer.text());
    opens_only_at_zero(&bench).await
}
