//! Streams that do not hold the drain, and steps of the wall clock: neither hides a request that
//! holds it.

use futures_util::future::try_join_all;

use super::bench::{Bench, SOON, bootstrap, gate_listener, options, same};
use super::true_zero::delays_on_request;
use super::watch::{holds_until_answered, lets_nothing_out};
use crate::cases::stage::{hcm, routes};
use crate::lab::{Lab, cases};
use kit::bootstrap::only_stats_with_prefixes;
use kit::clock::WallClock;
use kit::prelude::*;

cases! {
    a_stream_that_envoy_does_not_export_hides_no_request,
    an_exempt_stream_in_a_connection_manager_called_stats_hides_no_request,
    a_step_of_the_wall_clock_makes_no_stream_long_lived,
}

const EXCLUDES: &str = r#"{"count": {"exclude": {"paths": [{"prefix": "/hold/idle"}]}}}"#;
const LONG_LIVED: &str = r#"{"count": {"long_lived": {"paths": [{"prefix": "/hold/idle"}]}}}"#;
const OTHER_SCOPE: &str = r#"{"scope": "outbound"}"#;

fn gate(long_lived: &str) -> String {
    format!(r#"{{"quiet_ms": 300, "deadline_ms": 90000, "long_lived": "{long_lived}"}}"#)
}

/// A stats matcher exports the connection manager `ingress` alone.
async fn a_stream_that_envoy_does_not_export_hides_no_request(lab: &Lab) -> Outcome {
    let kinds =
        [(EXCLUDES, gate("wait")), (LONG_LIVED, gate("exempt")), (OTHER_SCOPE, gate("wait"))];
    let each = kinds.map(async |(counter, gate)| {
        let prefixes = ["wasmcustom.laststream_", "http.ingress.", "listener", "server", "cluster"];
        let bootstrap = Bootstrap::new().stats_matcher(only_stats_with_prefixes(&prefixes));
        hides_nothing(bootstrap, lab, "egress", counter, &gate).await.context(counter)
    });
    try_join_all(each).await.map(drop)
}

/// The name is one of the default of `admin.ignore`.
async fn an_exempt_stream_in_a_connection_manager_called_stats_hides_no_request(
    lab: &Lab,
) -> Outcome {
    hides_nothing(Bootstrap::new(), lab, "stats", LONG_LIVED, &gate("exempt")).await
}

/// A stream in the connection manager `other` does not hold the drain. Beside it, only Envoy knows
/// of a request to `ingress`, which waits in a filter in front of the counter.
async fn hides_nothing(
    bootstrap: Bootstrap,
    lab: &Lab,
    other: &str,
    counter: &str,
    gate: &str,
) -> Outcome {
    let other = Hcm::new(other).filter(lab.stream(counter).filter());
    let bootstrap = bootstrap.listener(Listener::new("other", routes(other)));
    let main = Hcm::new("ingress").filter(delays_on_request()).filter(lab.stream("{}").filter());
    let bench = Bench::upon(bootstrap, lab, gate, routes(main)).await?;
    bench.until("count", "exact").await?;
    let mut idle = bench.held_at("other", "idle").await?;
    // A sample shows that the stream is not in Envoy's sum, to the gates of both workers.
    for _ in 0..12 {
        bench.status().await?;
    }
    let request = Request::get("/hold/a").header("x-envoy-fault-delay-request", "8000");
    let client = Client::with_request(bench.main, &request).await?;
    bench.envoy.wait_for_stat("http.ingress.downstream_rq_active", 1, SOON).await?;
    lets_nothing_out(&bench, 10).await?;
    bench.upstream.wait_held("a", 1, SOON).await?;
    holds_until_answered(&bench, "a", client).await?;
    bench.release("idle", &mut idle).await
}

/// The stream begins while the clock is ten minutes behind, and looks ten minutes old later.
async fn a_step_of_the_wall_clock_makes_no_stream_long_lived(lab: &Lab) -> Outcome {
    const STEP: i64 = 600;
    let clock = WallClock::new()?;
    let gate = r#"{"quiet_ms": 300, "deadline_ms": 90000, "long_lived": "exempt",
        "long_lived_after_ms": 300000}"#;
    let upstream = Upstream::start().await?;
    let main = Listener::new("main", hcm(lab, r#"{"count": {"ages": true}}"#));
    let bootstrap =
        bootstrap(&upstream).listener(main.direction("INBOUND")).listener(gate_listener(lab, gate));
    let options = Options { under: clock.under(), ..options() };
    let bench = Bench::start(lab, upstream, bootstrap, options).await?;
    bench.until("count", "exact").await?;
    clock.step(-STEP)?;
    let client = bench.held("a").await?;
    bench.until("holding", 1).await?;
    clock.step(STEP)?;
    holds_until_answered(&bench, "a", client).await?;
    same(&bench.status().await?, "holding", 0)
}
