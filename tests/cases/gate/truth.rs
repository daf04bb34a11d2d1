//! The gate trusts a zero only if streams are known to be counted and none is older than the
//! counters. Cases: filters that are added, removed or missing, and an Envoy without statistics.

use crate::cases::stage::{allow_all, clusters, discovered, hcm, routes};
use crate::lab::{Lab, cases};
use kit::bootstrap::only_stats_with_prefixes;
use kit::prelude::*;
use kit::wire::free_port;
use kit::xds::Xds;

use super::bench::{
    Bench, COUNTERS, SOON, bootstrap, gate_filter, gate_listener, gate_listener_with, options, same,
};
use super::watch::{opens_only_at_zero, stays_closed};

const GATE: &str = r#"{"quiet_ms": 300, "deadline_ms": 90000}"#;
const SHORT: &str = r#"{"quiet_ms": 300, "deadline_ms": 2500, "admin": {"timeout_ms": 400}}"#;

cases! {
    a_listener_replaced_by_one_with_the_filter_is_not_empty,
    a_listener_replaced_by_one_without_the_filter_is_not_empty,
    a_filter_that_comes_and_goes_by_discovery_leaves_nothing_out,
    without_the_filter_envoy_is_believed,
    counters_of_another_scope_hide_nothing,
    without_any_source_the_deadline_decides,
    rejected_metrics_are_not_read_as_zero,
    a_rejected_counter_proves_no_quiet_period,
    a_drain_goes_on_through_other_configurations,
    hundreds_of_configurations_leave_no_dead_entry,
}

/// `main` comes from discovery: of listeners, or of the filter called `laststream`.
async fn bench(lab: &Lab, xds: &Xds, gate: Listener, main: Option<Hcm>) -> Outcome<Bench> {
    let upstream = Upstream::start().await?;
    let mut bootstrap = bootstrap(&upstream).listener(gate);
    bootstrap = match main {
        Some(hcm) => bootstrap.listener(Listener::new("main", hcm).direction("INBOUND")),
        None => bootstrap.listeners_from(xds),
    };
    start(lab, bootstrap, upstream).await
}

async fn start(lab: &Lab, bootstrap: Bootstrap, upstream: Upstream) -> Outcome<Bench> {
    Bench::start(lab, upstream, bootstrap, options()).await
}

fn with(lab: &Lab) -> Hcm {
    hcm(lab, "{}")
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
    xds.replace_listeners(&bench.envoy, &[Listener::new("main", with(lab)).port(port)])
        .await?
        .accepted()?;
    bench.until("count", "partial").await?;
    bench.post("/quitquitquit").await?.expect(503)?;
    bench.post("/drain").await?.expect(202)?;
    stays_closed(&bench, 15).await?;
    release(&bench, "old", old).await?;
    opens_only_at_zero(&bench).await
}

/// The old listener drains for ten minutes, so its filter still counts. The new listener has no
/// filter: its requests are not counted.
async fn a_listener_replaced_by_one_without_the_filter_is_not_empty(lab: &Lab) -> Outcome {
    let xds = Xds::new()?;
    let port = free_port()?;
    xds.write_listeners(&[Listener::new("main", with(lab)).port(port)])?;
    let bench = bench(lab, &xds, gate_listener(lab, GATE), None).await?;
    bench.until("count", "exact").await?;
    let counted = bench.held("counted").await?;
    xds.replace_listeners(&bench.envoy, &[Listener::new("main", without()).port(port)])
        .await?
        .accepted()?;
    let uncounted = bench.held("uncounted").await?;
    bench.post("/drain").await?.expect(202)?;
    stays_closed(&bench, 3).await?;
    release(&bench, "counted", counted).await?;
    stays_closed(&bench, 15).await?;
    release(&bench, "uncounted", uncounted).await?;
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

async fn without_the_filter_envoy_is_believed(lab: &Lab) -> Outcome {
    let bench = Bench::with(lab, GATE, without()).await?;
    unknown_holds_for_envoys_requests(&bench).await?;
    let status = bench.status().await?;
    same(&status, "counters", 0)?;
    same(&status, "count", "unknown")
}

/// The gate waits for `gateway`, and the filter counts `inbound`.
async fn counters_of_another_scope_hide_nothing(lab: &Lab) -> Outcome {
    let bench = Bench::with(lab, GATE, hcm(lab, r#"{"scope": "inbound"}"#)).await?;
    unknown_holds_for_envoys_requests(&bench).await
}

async fn unknown_holds_for_envoys_requests(bench: &Bench) -> Outcome {
    let held = bench.held("a").await?;
    bench.until("count", "unknown").await?;
    bench.post("/quitquitquit").await?.expect(503)?;
    bench.post("/drain").await?.expect(202)?;
    stays_closed(bench, 10).await?;
    release(bench, "a", held).await?;
    opens_only_at_zero(bench).await
}

/// An Envoy without an admin cluster, and one that does not keep the statistics.
async fn without_any_source_the_deadline_decides(lab: &Lab) -> Outcome {
    let no_cluster = async {
        let upstream = Upstream::start().await?;
        let main = Listener::new("main", without()).direction("INBOUND");
        let bootstrap = clusters(Bootstrap::new(), &upstream)
            .listener(main)
            .listener(gate_listener(lab, SHORT));
        expires(&start(lab, bootstrap, upstream).await?, &["unknown"]).await
    };
    let no_stats = async {
        let kept =
            only_stats_with_prefixes(&["wasmcustom.laststream_", "listener", "server", "cluster"]);
        expires(
            &Bench::upon(Bootstrap::new().stats_matcher(kept), lab, SHORT, without()).await?,
            &["unknown"],
        )
        .await
    };
    tokio::try_join!(no_cluster, no_stats)?;
    Ok(())
}

/// The drain expires, because nothing is in flight but no counter proves it.
async fn expires(bench: &Bench, counts: &[&str]) -> Outcome {
    bench.post("/drain").await?.expect(202)?;
    let waiter = bench.get("/prestop?wait").await?.expect(200)?;
    ensure_eq!(waiter.json()?["state"], "expired", "{}", waiter.text());
    let status = bench.status().await?;
    ensure!(status["count"].as_str().is_some_and(|count| counts.contains(&count)), "{status}");
    let took = status["draining_ms"].as_u64().unwrap_or_default();
    ensure!(took >= 2_500, "the deadline of 2500 ms: {status}");
    Ok(())
}

/// The module refuses to count in metrics that stay zero, and the gate does not read them as zero.
async fn rejected_metrics_are_not_read_as_zero(lab: &Lab) -> Outcome {
    let xds = Xds::new()?;
    xds.write_filter("laststream", &allow_all())?;
    let upstream = Upstream::start().await?;
    let bootstrap = bootstrap(&upstream)
        .stats_matcher(json!({ "exclusion_list": { "patterns": [{ "prefix": "wasmcustom." }] } }))
        .listener(Listener::new("main", discovered(&xds)).direction("INBOUND"))
        .listener(gate_listener(lab, GATE));
    let bench = start(lab, bootstrap, upstream).await?;
    let verdict =
        xds.replace_filter(&bench.envoy, "laststream", &lab.stream("{}").typed_config()).await?;
    ensure!(verdict.accepted().is_err(), "counts in gauges that do not count");
    let held = bench.held("a").await?;
    bench.until("count", "unknown").await?;
    bench.post("/drain").await?.expect(202)?;
    stays_closed(&bench, 10).await?;
    release(&bench, "a", held).await?;
    opens_only_at_zero(&bench).await
}

/// The gauges work, but the counters that show whether a stream came in between do not. The
/// requests are shorter than the time between the gate's evaluations.
async fn a_rejected_counter_proves_no_quiet_period(lab: &Lab) -> Outcome {
    for (counter, configuration) in [
        ("begun", "{}"),
        ("excluded", r#"{"count": {"exclude": {"paths": [{"prefix": "/nowhere"}]}}}"#),
    ] {
        let rejected = json!({
            "exclusion_list": {
                "patterns": [{ "prefix": format!("wasmcustom.laststream_streams_{counter}") }],
            },
        });
        let main = hcm(lab, configuration);
        let gate = r#"{"quiet_ms": 1500, "deadline_ms": 90000}"#;
        let bench = Bench::upon(Bootstrap::new().stats_matcher(rejected), lab, gate, main).await?;
        for path in ["/echo", "/nowhere"] {
            once(bench.main, &Request::get(path)).await?.expect(200)?;
        }
        bench.post("/drain").await?.expect(202)?;
        for number in 0..15 {
            once(bench.main, &Request::get("/echo")).await?.expect(200)?;
            tokio::time::sleep(Duration::from_millis(300)).await;
            ensure_eq!(bench.get("/ready").await?.status, 503, "{counter}: after request {number}");
        }
        let status = bench.status().await?;
        same(&status, "count", "rejected")?;
        ensure!(
            status["reason"].as_str().is_some_and(|reason| reason.contains("for ")),
            "{status}"
        );
        let line = bench
            .envoy
            .wait_for_log(
                &format!("rejects `wasmcustom.laststream_streams_{counter}_gateway_total`"),
                SOON,
            )
            .await?;
        ensure!(line.contains("statsInclusionPrefixes"), "the way out: {line}");
        let held = bench.held("a").await?;
        stays_closed(&bench, 10).await?;
        release(&bench, "a", held).await?;
        opens_only_at_zero(&bench).await?;
    }
    Ok(())
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

/// Counters of old configurations are removed when their last stream has ended, and not before.
async fn hundreds_of_configurations_leave_no_dead_entry(lab: &Lab) -> Outcome {
    let xds = Xds::new()?;
    xds.write_filter("laststream", &lab.stream("{}").typed_config())?;
    let bench = bench(lab, &xds, gate_listener(lab, GATE), Some(discovered(&xds))).await?;
    bench.until("counters", COUNTERS).await?;
    let held = bench.held("a").await?;
    for round in 0..200 {
        let configuration = format!(
            r#"{{"count": {{"exclude": {{"paths": [{{"prefix": "/nowhere{round}"}}]}}}}}}"#
        );
        xds.write_filter("laststream", &lab.stream(&configuration).typed_config())?;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    xds.replace_filter(
        &bench.envoy,
        "laststream",
        &lab.stream(r#"{"scope": "gateway"}"#).typed_config(),
    )
    .await?
    .accepted()?;
    release(&bench, "a", held).await?;
    let status = bench.until("counters", COUNTERS).await?;
    same(&status, "lost_counters", 0)?;
    let status = bench.until("count", "exact").await?;
    same(&status, "holding", 0)?;
    bench.post("/drain").await?.expect(202)?;
    opens_only_at_zero(&bench).await?;
    same(&bench.status().await?, "heals", 0)
}
