//! Requests that the filter does not count and Envoy does: the gate stays closed until each client
//! has its answer.

use super::bench::{Bench, COUNTERS, SOON, bootstrap, gate_listener, options, same, says};
use super::watch::{holds_until_answered, lets_nothing_out, opens};
use crate::cases::stage::{ACTIVE, allow_all, discovered, hcm, routes};
use crate::lab::{Lab, cases};
use kit::bootstrap::{extension, only_stats_with_prefixes};
use kit::prelude::*;
use kit::websocket::WebSocket;
use kit::xds::Xds;

cases! {
    a_stream_that_is_older_than_its_counter_holds,
    a_request_that_waits_in_an_earlier_filter_holds,
    a_websocket_with_filters_of_its_own_holds,
    a_request_on_a_listener_without_the_filter_holds,
    a_request_on_a_route_without_the_filter_holds,
    uncounted_requests_of_the_own_direction_alone_hold,
    without_envoys_own_count_the_count_is_assumed,
}

const GATE: &str = r#"{"quiet_ms": 300, "deadline_ms": 90000}"#;

/// A gate that never holds because of a counter's age.
const ANY_AGE: &str = r#"{"quiet_ms": 300, "deadline_ms": 90000, "assumed_after_ms": 0}"#;

const FAULT: &str = "envoy.extensions.filters.http.fault.v3.HTTPFault";

/// Delays a request for as long as its header says.
pub(super) fn delays_on_request() -> Value {
    let delay = json!({ "header_delay": {}, "percentage": { "numerator": 100 } });
    extension("envoy.filters.http.fault", FAULT, json!({ "delay": delay }))
}

/// A gate that has seen both counts agree on zero.
async fn calm(bench: Bench) -> Outcome<Bench> {
    same(&bench.until("count", "exact").await?, "holding", 0)?;
    Ok(bench)
}

async fn a_stream_that_is_older_than_its_counter_holds(lab: &Lab) -> Outcome {
    let xds = Xds::new()?;
    xds.write_filter("laststream", &allow_all())?;
    let bench = Bench::with(lab, ANY_AGE, discovered(&xds)).await?;
    let mut socket = WebSocket::open(bench.main, "/ws").await?;
    socket.echo("before").await?;
    xds.replace_filter(&bench.envoy, "laststream", &lab.stream("{}").typed_config())
        .await?
        .accepted()?;
    bench.until("counters", COUNTERS).await?;
    lets_nothing_out(&bench, 15).await?;
    socket.echo("still").await?;
    socket.close(1000).await?;
    opens(&bench).await
}

async fn a_request_that_waits_in_an_earlier_filter_holds(lab: &Lab) -> Outcome {
    let main = Hcm::new("main").filter(delays_on_request()).filter(lab.stream("{}").filter());
    let bench = calm(Bench::with(lab, GATE, routes(main)).await?).await?;
    let request = Request::get("/hold/a").header("x-envoy-fault-delay-request", "8000");
    let client = Client::with_request(bench.main, &request).await?;
    bench.envoy.wait_for_stat(ACTIVE, 1, SOON).await?;
    lets_nothing_out(&bench, 3).await?;
    ensure_eq!(bench.upstream.requests(), 0, "requests at the upstream while the filter delays");
    bench.upstream.wait_held("a", 1, SOON).await?;
    holds_until_answered(&bench, "a", client).await
}

async fn a_websocket_with_filters_of_its_own_holds(lab: &Lab) -> Outcome {
    let main = hcm(lab, "{}").upgrades_with(&[]);
    let bench = calm(Bench::with(lab, GATE, main).await?).await?;
    let mut socket = WebSocket::open(bench.main, "/ws").await?;
    socket.echo("before").await?;
    lets_nothing_out(&bench, 12).await?;
    socket.echo("still").await?;
    socket.close(1000).await?;
    opens(&bench).await
}

async fn a_request_on_a_listener_without_the_filter_holds(lab: &Lab) -> Outcome {
    let plain = Listener::new("plain", routes(Hcm::new("plain"))).direction("INBOUND");
    let bootstrap = Bootstrap::new().listener(plain);
    let bench = calm(Bench::upon(bootstrap, lab, GATE, hcm(lab, "{}")).await?).await?;
    let client = bench.held_at("plain", "a").await?;
    holds_until_answered(&bench, "a", client).await
}

async fn a_request_on_a_route_without_the_filter_holds(lab: &Lab) -> Outcome {
    let uncounted =
        Route::prefix("/hold").cluster("app").timeout("0s").without_filter("laststream");
    let main = routes(Hcm::new("main").filter(lab.stream("{}").filter()).route(uncounted));
    let bench = calm(Bench::with(lab, GATE, main).await?).await?;
    let client = bench.held("a").await?;
    same(&bench.status().await?, "holding", 0)?;
    holds_until_answered(&bench, "a", client).await
}

/// A connection manager without a counter beside `main`, under the names that Istio gives them.
async fn both_directions(lab: &Lab, scope: &str, other: (&str, &str)) -> Outcome<Bench> {
    let configuration = format!(r#"{{"scope": "{scope}"}}"#);
    let gate = format!(r#"{{"quiet_ms": 300, "deadline_ms": 90000, "scopes": ["{scope}"]}}"#);
    let main = Hcm::new(&format!("{scope}_0.0.0.0_8080;"));
    let main = main.filter(lab.stream(&configuration).filter());
    let (prefix, direction) = other;
    let other = Listener::new("other", routes(Hcm::new(prefix))).direction(direction);
    let main = Listener::new("main", routes(main)).direction(&scope.to_uppercase());
    let upstream = Upstream::start().await?;
    let bootstrap =
        bootstrap(&upstream).listener(main).listener(other).listener(gate_listener(lab, &gate));
    calm(Bench::start(lab, upstream, bootstrap, options()).await?).await
}

async fn uncounted_requests_of_the_own_direction_alone_hold(lab: &Lab) -> Outcome {
    let inbound = ("inbound_0.0.0.0_8090;", "INBOUND");
    let outbound = ("outbound_0.0.0.0_9090;", "OUTBOUND");
    for (scope, own, other) in [("inbound", inbound, outbound), ("outbound", outbound, inbound)] {
        let bench = both_directions(lab, scope, other).await?;
        let mut client = bench.held_at("other", "a").await?;
        opens(&bench).await?;
        same(&bench.status().await?, "count", "exact")?;
        bench.release("a", &mut client).await?;
        let bench = both_directions(lab, scope, own).await?;
        let client = bench.held_at("other", "a").await?;
        holds_until_answered(&bench, "a", client).await?;
    }
    Ok(())
}

/// With Istio's default statistics, the gate names the missing annotation, and holds no longer than
/// the module's count does.
async fn without_envoys_own_count_the_count_is_assumed(lab: &Lab) -> Outcome {
    const ASSUMED: &str = "wasmcustom.laststream_gate_count_assumed";
    let kept =
        only_stats_with_prefixes(&["wasmcustom.laststream_", "listener", "server", "cluster"]);
    let gate = r#"{"quiet_ms": 300, "deadline_ms": 90000, "assumed_after_ms": 1000}"#;
    let bench =
        Bench::upon(Bootstrap::new().stats_matcher(kept), lab, gate, hcm(lab, "{}")).await?;
    let status = bench.until("count", "assumed").await?;
    // The way to an exact count.
    says(&status, "advice", "sidecar.istio.io/statsInclusionSuffixes: downstream_rq_active,")?;
    bench.envoy.wait_for_stat(ASSUMED, 1, SOON).await?;
    let client = bench.held("a").await?;
    holds_until_answered(&bench, "a", client).await?;
    same(&bench.status().await?, "state", "drained")?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    same(&bench.status().await?, "count", "assumed")
}
