//! Requests that the filter does not count and Envoy does: the gate stays closed until each client
//! has its answer.

use super::bench::{Bench, COUNTERS, SOON, bootstrap, gate_listener, options, same};
use super::deaths::hold;
use super::watch::{holds_until_answered, lets_nothing_out, opens};
use crate::cases::stage::{ACTIVE, allow_all, discovered, routes};
use crate::lab::{Lab, cases};
use kit::bootstrap::{extension, only_stats_with_prefixes};
use kit::prelude::*;
use kit::websocket::WebSocket;
use kit::xds::Xds;

cases! {
    a_stream_that_is_older_than_its_counter_holds,
    a_request_that_waits_in_an_earlier_filter_holds,
    a_request_that_waits_for_authorization_holds,
    a_websocket_with_filters_of_its_own_holds,
    a_request_on_a_listener_without_the_filter_holds,
    a_request_on_a_route_without_the_filter_holds,
    a_request_while_the_filter_is_replaced_holds,
    a_request_beside_a_replaced_filter_that_still_answers_holds,
    the_other_direction_does_not_hold,
    an_uncounted_request_of_its_own_direction_holds,
    without_envoys_own_count_the_count_is_assumed,
}

const GATE: &str = r#"{"quiet_ms": 300, "deadline_ms": 90000}"#;

/// A gate that never holds because of a counter's age.
const ANY_AGE: &str = r#"{"quiet_ms": 300, "deadline_ms": 90000, "assumed_after_ms": 0}"#;

const FAULT: &str = "envoy.extensions.filters.http.fault.v3.HTTPFault";
const EXT_AUTHZ: &str = "envoy.extensions.filters.http.ext_authz.v3.ExtAuthz";

/// Delays a request for as long as its header says.
fn delays_on_request() -> Value {
    let delay = json!({ "header_delay": {}, "percentage": { "numerator": 100 } });
    extension("envoy.filters.http.fault", FAULT, json!({ "delay": delay }))
}

/// Asks the upstream whether a request may pass; the upstream holds that request under the key
/// `authz` and the path.
fn asks_the_upstream(upstream: &Upstream) -> Value {
    let server =
        json!({ "uri": format!("http://{}", upstream.h1()), "cluster": "app", "timeout": "60s" });
    let service = json!({ "server_uri": server, "path_prefix": "/hold/authz" });
    extension("envoy.filters.http.ext_authz", EXT_AUTHZ, json!({ "http_service": service }))
}

fn counted(lab: &Lab) -> Hcm {
    Hcm::new("main").filter(lab.stream("{}").filter())
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
    let mut client = Client::connect(bench.main).await?;
    client
        .send(&Request::get("/hold/a").header("x-envoy-fault-delay-request", "8000").bytes())
        .await?;
    bench.envoy.wait_for_stat(ACTIVE, 1, SOON).await?;
    lets_nothing_out(&bench, 3).await?;
    ensure_eq!(bench.upstream.requests(), 0, "requests at the upstream while the filter delays");
    bench.upstream.wait_held("a", 1, SOON).await?;
    holds_until_answered(&bench, "a", client).await
}

async fn a_request_that_waits_for_authorization_holds(lab: &Lab) -> Outcome {
    let upstream = Upstream::start().await?;
    let main = routes(
        Hcm::new("main").filter(asks_the_upstream(&upstream)).filter(lab.stream("{}").filter()),
    );
    let bootstrap = bootstrap(&upstream)
        .listener(Listener::new("main", main).direction("INBOUND"))
        .listener(gate_listener(lab, GATE));
    let bench = calm(Bench::start(lab, upstream, bootstrap, options()).await?).await?;
    let mut client = Client::connect(bench.main).await?;
    client.send(&Request::get("/echo").bytes()).await?;
    bench.upstream.wait_held("authz/echo", 1, SOON).await?;
    holds_until_answered(&bench, "authz/echo", client).await
}

async fn a_websocket_with_filters_of_its_own_holds(lab: &Lab) -> Outcome {
    let main = routes(counted(lab)).upgrades_with(&[]);
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
    let bench =
        calm(Bench::upon(Bootstrap::new().listener(plain), lab, GATE, routes(counted(lab))).await?)
            .await?;
    let client = held_at(&bench, "plain", "a").await?;
    holds_until_answered(&bench, "a", client).await
}

async fn a_request_on_a_route_without_the_filter_holds(lab: &Lab) -> Outcome {
    let uncounted =
        Route::prefix("/hold").cluster("app").timeout("0s").without_filter("laststream");
    let bench = calm(Bench::with(lab, GATE, routes(counted(lab).route(uncounted))).await?).await?;
    let client = bench.held("a").await?;
    same(&bench.status().await?, "holding", 0)?;
    holds_until_answered(&bench, "a", client).await
}

/// The contexts of the old filter still answer for a moment, but no filter counts new streams.
async fn a_request_while_the_filter_is_replaced_holds(lab: &Lab) -> Outcome {
    let xds = Xds::new()?;
    xds.write_filter("laststream", &lab.stream("{}").typed_config())?;
    let bench = Bench::with(lab, GATE, discovered(&xds)).await?;
    for _ in 0..5 {
        same(&bench.until("count", "exact").await?, "holding", 0)?;
        xds.write_filter("laststream", &allow_all())?;
        quits_beside_each(&bench, 8).await?;
        xds.replace_filter(&bench.envoy, "laststream", &lab.stream("{}").typed_config())
            .await?
            .accepted()?;
    }
    xds.replace_filter(&bench.envoy, "laststream", &allow_all()).await?.accepted()?;
    let client = bench.held("a").await?;
    holds_until_answered(&bench, "a", client).await
}

/// One request after the other, and a quit signal as soon as the upstream has it.
async fn quits_beside_each(bench: &Bench, requests: usize) -> Outcome {
    for number in 0..requests {
        let mut client = bench.held("b").await?;
        let answer = bench
            .post("/quitquitquit")
            .await
            .with_context(|| format!("a quit signal beside request {number}"))?;
        ensure_eq!(answer.status, 503, "a quit signal beside request {number}: {}", answer.text());
        bench.release("b", &mut client).await?;
        bench.upstream.wait_held("b", 0, SOON).await?;
    }
    Ok(())
}

/// A stream that does not hold keeps the contexts of the old filter, and their answers, alive.
async fn a_request_beside_a_replaced_filter_that_still_answers_holds(lab: &Lab) -> Outcome {
    let xds = Xds::new()?;
    let excluding = r#"{"count": {"exclude": {"paths": [{"prefix": "/hold/probe"}]}}}"#;
    xds.write_filter("laststream", &lab.stream(excluding).typed_config())?;
    let bench = calm(Bench::with(lab, GATE, discovered(&xds)).await?).await?;
    let mut probes = hold(&bench, "probe", 6).await?;
    xds.replace_filter(&bench.envoy, "laststream", &allow_all()).await?.accepted()?;
    let client = bench.held("a").await?;
    holds_until_answered(&bench, "a", client).await?;
    bench.upstream.release("probe");
    for probe in &mut probes {
        probe.response("GET").await?.expect(200)?;
    }
    Ok(())
}

/// Listeners of both directions, under the names that Istio gives their connection managers. Only
/// `main` has a counter.
async fn both_directions(lab: &Lab, scope: &str, more: &[(&str, &str, &str)]) -> Outcome<Bench> {
    let (prefix, direction) = if scope == "inbound" {
        ("inbound_0.0.0.0_8080;", "INBOUND")
    } else {
        ("outbound_0.0.0.0_9080;", "OUTBOUND")
    };
    let upstream = Upstream::start().await?;
    let configuration = format!(r#"{{"scope": "{scope}"}}"#);
    let gate = format!(r#"{{"quiet_ms": 300, "deadline_ms": 90000, "scopes": ["{scope}"]}}"#);
    let main = routes(Hcm::new(prefix).filter(lab.stream(&configuration).filter()));
    let mut bootstrap = bootstrap(&upstream)
        .listener(Listener::new("main", main).direction(direction))
        .listener(gate_listener(lab, &gate));
    for (name, prefix, direction) in more {
        bootstrap =
            bootstrap.listener(Listener::new(name, routes(Hcm::new(prefix))).direction(direction));
    }
    calm(Bench::start(lab, upstream, bootstrap, options()).await?).await
}

async fn held_at(bench: &Bench, listener: &str, key: &str) -> Outcome<Client> {
    bench.held_at(bench.envoy.address(listener).await?, key).await
}

async fn the_other_direction_does_not_hold(lab: &Lab) -> Outcome {
    let others = [
        ("inbound", ("other", "outbound_0.0.0.0_9090;", "OUTBOUND")),
        ("outbound", ("other", "inbound_0.0.0.0_8090;", "INBOUND")),
    ];
    for (scope, other) in others {
        let bench = both_directions(lab, scope, &[other]).await?;
        let mut client = held_at(&bench, "other", "a").await?;
        opens(&bench).await?;
        same(&bench.status().await?, "count", "exact")?;
        bench.release("a", &mut client).await?;
    }
    Ok(())
}

async fn an_uncounted_request_of_its_own_direction_holds(lab: &Lab) -> Outcome {
    let others = [
        ("inbound", ("other", "inbound_0.0.0.0_8090;", "INBOUND")),
        ("outbound", ("other", "outbound_0.0.0.0_9090;", "OUTBOUND")),
    ];
    for (scope, other) in others {
        let bench = both_directions(lab, scope, &[other]).await?;
        let client = held_at(&bench, "other", "a").await?;
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
        Bench::upon(Bootstrap::new().stats_matcher(kept), lab, gate, routes(counted(lab))).await?;
    let status = bench.until("count", "assumed").await?;
    let advice = status["advice"].as_str().unwrap_or_default();
    ensure!(
        advice.contains("sidecar.istio.io/statsInclusionSuffixes: downstream_rq_active,"),
        "the way to an exact count: {status}"
    );
    bench.envoy.wait_for_stat(ASSUMED, 1, SOON).await?;
    let client = bench.held("a").await?;
    holds_until_answered(&bench, "a", client).await?;
    same(&bench.status().await?, "state", "drained")?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    same(&bench.status().await?, "count", "assumed")
}
