//! Answers of an admin interface that never come: they delay neither new streams nor a drain, nor
//! another gate, for longer than themselves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use http::HeaderValue;
use tokio::time::Instant;

use super::bench::{Bench, SOON, gate_filter, gate_listener_with, options, same, says};
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

/// The time until which new streams are refused; 0 while they are not.
const CLOSING: &str = "wasmcustom.laststream_gate_closing_until";

/// A call that gets no answer.
const HANGS: CallHandling = CallHandling::Fault(AdminFault::Slow(Duration::from_secs(600)));

/// The gate's time limit for a call, and the one for a query of Envoy's statistics.
const CALL_LIMIT: Duration = Duration::from_secs(5);
const QUERY_LIMIT: Duration = CALL_LIMIT.saturating_mul(10);

/// A bench at zero. Queries hang while new streams are refused.
async fn hangs_behind_the_latch(lab: &Lab) -> Outcome<(Bench, AdminProxy)> {
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

/// Waits until the latch is closed. No stream is sent before that, because it would be in flight.
async fn refuses_new_streams(bench: &Bench) -> Outcome {
    wait_for(SOON, "the latch to close", async || {
        ensure!(bench.envoy.stat(CLOSING).await? > Some(0));
        Ok(())
    })
    .await?;
    once(bench.main, &Request::get("/echo")).await?.expect(503).map(drop)
}

/// Checks that new streams are accepted again long before the query's time is over.
async fn gives_the_latch_back(bench: &Bench) -> Outcome {
    let began = Instant::now();
    let mut client = Client::connect(bench.main).await?;
    wait_for(SOON, "a new stream", async || client.get("/echo").await?.expect(200)).await?;
    let refused = began.elapsed();
    say(&format!("new streams were refused for {} ms", refused.as_millis()));
    ensure!(refused < QUERY_LIMIT / 2, "new streams were refused for {refused:?}");
    Ok(())
}

async fn a_quit_whose_query_hangs_soon_gives_the_latch_back(lab: &Lab) -> Outcome {
    let (bench, _proxy) = hangs_behind_the_latch(lab).await?;
    let gate = bench.gate;
    let quit = tokio::spawn(async move { once(gate, &Request::post("/quitquitquit", "")).await });
    refuses_new_streams(&bench).await?;
    gives_the_latch_back(&bench).await?;
    quit.await??.expect(503).map(drop)
}

async fn a_gate_that_dies_behind_the_latch_gives_it_back(lab: &Lab) -> Outcome {
    let (bench, _proxy) = hangs_behind_the_latch(&with_test_deaths(lab)?).await?;
    // One connection, and so one worker.
    let mut gate = h2::Client::connect(bench.gate).await?;
    let _quit = gate.open(h2::request("POST", "http", "/quitquitquit"), true).await?;
    refuses_new_streams(&bench).await?;
    let mut deadly = h2::get("/status");
    deadly.headers_mut().insert("x-laststream-die", HeaderValue::from_static("panic"));
    let _deadly = gate.open(deadly, true).await?;
    bench.envoy.wait_for_log("Function: proxy_on_request_headers failed", SOON).await?;
    gives_the_latch_back(&bench).await
}

/// The only worker's gate: the drain ends after the time limit of the lost query, a pause and its
/// quiet period, well before twice that limit.
async fn a_lost_answer_delays_a_drain_by_no_more_than_itself(lab: &Lab) -> Outcome {
    let is_next_lost = Arc::new(AtomicBool::new(false));
    let loses = Arc::clone(&is_next_lost);
    let judge = move |method: &str, _: &str| match method {
        "GET" if loses.swap(false, Ordering::Relaxed) => HANGS,
        _ => CallHandling::Forward,
    };
    let gate = r#"{"quiet_ms": 1000, "deadline_ms": 90000, "begin": {"call": "nothing"}}"#;
    let (options, main) = (Options { concurrency: 1, ..options() }, hcm(lab, "{}"));
    let (bench, _proxy) =
        Bench::proxied_with(options, Bootstrap::new(), lab, gate, main, judge).await?;
    bench.until("count", "exact").await?;
    is_next_lost.store(true, Ordering::Relaxed);
    let took = idle_drain(&bench).await?;
    ensure!(!is_next_lost.load(Ordering::Relaxed), "no answer was lost");
    say(&format!("an idle drain with a lost answer took {took} ms"));
    ensure!(took < 16_000, "the drain took {took} ms, and its lost query at most 10 s");
    Ok(())
}

/// The drain of the other gate begins first, and one of its queries has reached its time limit.
async fn a_gate_whose_admin_interface_hangs_delays_no_other_gate(lab: &Lab) -> Outcome {
    let hung = FakeServer::start(|_, _| Err(Fault::Silence(Duration::from_secs(600))))?;
    let other = r#"{"scopes": ["outbound"], "deadline_ms": 90000, "admin": {"cluster": "hung"}}"#;
    let bootstrap = Bootstrap::new()
        .cluster(cluster::h1("hung", hung.address))
        .listener(gate_listener_with("other-gate", gate_filter(lab, other)));
    let gate = r#"{"quiet_ms": 1000, "begin": {"call": "nothing"}}"#;
    let bench = Bench::upon(bootstrap, lab, gate, hcm(lab, "{}")).await?;
    bench.until("count", "exact").await?;
    let alone = idle_drain(&bench).await?;
    let other = bench.envoy.address("other-gate").await?;
    once(other, &Request::post("/drain", "")).await?.expect(202)?;
    wait_for(SOON, "a query of the other gate to reach its limit", async || {
        let status = once(other, &Request::get("/status")).await?.expect(200)?.json()?;
        says(&status, "reason", "within 10000 ms")
    })
    .await?;
    let beside = idle_drain(&bench).await?;
    say(&format!("an idle drain took {alone} ms alone, {beside} ms beside the other gate"));
    ensure!(beside < alone + 5_000, "{beside} ms beside the other gate, {alone} ms alone");
    Ok(())
}

/// The time of an idle drain, which is cancelled afterwards; milliseconds.
async fn idle_drain(bench: &Bench) -> Outcome<u64> {
    same(&bench.hook().await??.expect(200)?.json()?, "state", "drained")?;
    let took = bench.status().await?["draining_ms"].as_u64().context("the time of the drain")?;
    bench.delete("/drain").await?.expect(200)?;
    Ok(took)
}
