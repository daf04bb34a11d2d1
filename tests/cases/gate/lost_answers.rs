//! Answers of an admin interface that never come: they delay neither new streams nor a drain, nor
//! another gate, for longer than themselves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use http::HeaderValue;
use tokio::time::Instant;

use super::bench::{Bench, SOON, gate_filter, gate_listener_with, same};
use super::deaths::with_test_deaths;
use crate::cases::stage::hcm;
use crate::lab::{Lab, cases};
use kit::admin::Admin;
use kit::admin_proxy::{AdminFault, AdminProxy, CallHandling};
use kit::fake_server::{FakeServer, Fault};
use kit::h2;
use kit::prelude::*;
use kit::wait::blocking;

cases! {
    a_quit_whose_query_hangs_soon_gives_the_latch_back,
    a_gate_that_dies_behind_the_latch_gives_it_back,
    a_lost_answer_delays_a_drain_by_no_more_than_itself,
    a_gate_whose_admin_interface_hangs_delays_no_other_gate,
}

/// A call that gets no answer.
const HANGS: CallHandling = CallHandling::Fault(AdminFault::Slow(Duration::from_secs(600)));

/// The gate's time limit for a call, and the one for a query of Envoy's statistics.
const CALL_LIMIT: Duration = Duration::from_secs(5);
const QUERY_LIMIT: Duration = CALL_LIMIT.saturating_mul(10);

/// A bench at zero. Queries hang while new streams are refused.
async fn hangs_behind_the_latch(lab: &Lab) -> Outcome<(Bench, AdminProxy)> {
    const CLOSING: &str = "wasmcustom.laststream_gate_closing_until";
    let admin = Arc::<OnceLock<SocketAddr>>::default();
    let known = Arc::clone(&admin);
    let judge = move |method: &str, _: &str| {
        let is_closed = |&admin| blocking(Admin(admin).stat(CLOSING)).is_ok_and(|at| at > Some(0));
        let hangs = method == "GET" && known.get().is_some_and(is_closed);
        if hangs { HANGS } else { CallHandling::Forward }
    };
    let gate = format!(r#"{{"admin": {{"timeout_ms": {}}}}}"#, CALL_LIMIT.as_millis());
    let (bench, proxy) =
        Bench::proxied(Bootstrap::new(), lab, &gate, hcm(lab, "{}"), judge).await?;
    admin.get_or_init(|| bench.envoy.admin());
    bench.until("count", "exact").await?;
    Ok((bench, proxy))
}

/// Waits until a new stream gets this status.
async fn new_streams_get(client: &mut Client, status: u16) -> Outcome {
    let what = format!("a new stream to get {status}");
    wait_for(SOON, &what, async || client.get("/echo").await?.expect(status)).await.map(drop)
}

/// Checks that new streams, which are refused, are accepted again long before the query's time is
/// over.
async fn gives_the_latch_back(client: &mut Client) -> Outcome {
    let began = Instant::now();
    new_streams_get(client, 200).await?;
    let refused = began.elapsed();
    say(&format!("new streams were refused for {} ms", refused.as_millis()));
    ensure!(refused < QUERY_LIMIT / 2, "new streams were refused for {refused:?}");
    Ok(())
}

async fn a_quit_whose_query_hangs_soon_gives_the_latch_back(lab: &Lab) -> Outcome {
    let (bench, _proxy) = hangs_behind_the_latch(lab).await?;
    let gate = bench.gate;
    let quit = tokio::spawn(async move { once(gate, &Request::post("/quitquitquit", "")).await });
    let mut client = Client::connect(bench.main).await?;
    new_streams_get(&mut client, 503).await?;
    gives_the_latch_back(&mut client).await?;
    quit.await??.expect(503).map(drop)
}

async fn a_gate_that_dies_behind_the_latch_gives_it_back(lab: &Lab) -> Outcome {
    let (bench, _proxy) = hangs_behind_the_latch(&with_test_deaths(lab)?).await?;
    // One connection, and so one worker.
    let mut gate = h2::Client::connect(bench.gate).await?;
    let _quit = gate.open(h2::request("POST", "http", "/quitquitquit"), true).await?;
    let mut client = Client::connect(bench.main).await?;
    new_streams_get(&mut client, 503).await?;
    let mut deadly = h2::get("/status");
    deadly.headers_mut().insert("x-laststream-die", HeaderValue::from_static("panic"));
    let _deadly = gate.open(deadly, true).await?;
    bench.envoy.wait_for_log("Function: proxy_on_request_headers failed", SOON).await?;
    gives_the_latch_back(&mut client).await
}

/// The drain ends after the time limit of the lost query, a pause and its quiet period: well before
/// twice that limit.
async fn a_lost_answer_delays_a_drain_by_no_more_than_itself(lab: &Lab) -> Outcome {
    let is_next_lost = Arc::new(AtomicBool::new(false));
    let loses = Arc::clone(&is_next_lost);
    let judge = move |method: &str, _: &str| match method {
        "GET" if loses.swap(false, Ordering::Relaxed) => HANGS,
        _ => CallHandling::Forward,
    };
    let gate = r#"{"quiet_ms": 1000, "deadline_ms": 90000, "begin": {"call": "nothing"}}"#;
    let (bench, _proxy) =
        Bench::proxied(Bootstrap::new(), lab, gate, hcm(lab, "{}"), judge).await?;
    bench.until("count", "exact").await?;
    is_next_lost.store(true, Ordering::Relaxed);
    let answer = bench.hook().await??.expect(200)?.json()?;
    same(&answer, "state", "drained")?;
    ensure!(!is_next_lost.load(Ordering::Relaxed), "no answer was lost");
    let took = bench.status().await?["draining_ms"].as_u64().context("the time of the drain")?;
    say(&format!("an idle drain with a lost answer took {took} ms"));
    ensure!(took < 16_000, "the drain took {took} ms, and its lost query at most 10 s");
    Ok(())
}

async fn a_gate_whose_admin_interface_hangs_delays_no_other_gate(lab: &Lab) -> Outcome {
    let hung = FakeServer::start(|_, _| Err(Fault::Silence(Duration::from_secs(600))))?;
    let other = r#"{"scopes": ["outbound"], "deadline_ms": 90000, "admin": {"cluster": "hung"}}"#;
    let bootstrap = Bootstrap::new()
        .cluster(cluster::h1("hung", hung.address))
        .listener(gate_listener_with("other-gate", gate_filter(lab, other)));
    let bench = Bench::upon(bootstrap, lab, r#"{"quiet_ms": 1000}"#, hcm(lab, "{}")).await?;
    bench.until("count", "exact").await?;
    let other = bench.envoy.address("other-gate").await?;
    once(other, &Request::post("/drain", "")).await?.expect(202)?;
    wait_for(SOON, "a query that hangs", async || hung.asked().pop().context("none")).await?;
    let answer = bench.hook().await??.expect(200)?.json()?;
    let took = bench.status().await?["draining_ms"].clone();
    say(&format!("beside a gate whose queries hang, an idle drain took {took} ms"));
    same(&answer, "state", "drained")
}
