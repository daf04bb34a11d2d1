//! Workers' VMs die with streams in flight on both workers: the gate does not trust the counts that
//! they leave behind.

use crate::cases::stage::{ACTIVE, BEGUN, IN_FLIGHT, routes};
use crate::lab::{Lab, cases, test_deaths_module};
use kit::bootstrap::filters::Wasm;
use kit::prelude::*;

use super::bench::{Bench, SOON, bootstrap, gate_listener, options, same};
use super::watch::{opens_only_at_zero, stays_closed};

/// `quiet_ms` is shorter than its default, to save time. The deadline is so long that it never ends
/// a drain.
const GATE: &str = r#"{"quiet_ms": 300, "deadline_ms": 90000}"#;

cases! {
    streams_of_dead_vms_are_subtracted,
    streams_that_bypass_the_filter_hold_the_drain,
    queue_messages_of_a_dead_vm_reach_no_stream,
}

/// The same lab, with the module in which a request can make the VM die.
pub(crate) fn with_test_deaths(lab: &Lab) -> Outcome<Lab> {
    Ok(Lab { version: lab.version, envoy: lab.envoy.clone(), module: test_deaths_module()? })
}

async fn bench(lab: &Lab, failure_policy: &str, gate: &str) -> Outcome<Bench> {
    let lab = with_test_deaths(lab)?;
    let wasm = Wasm { failure_policy, ..lab.stream("{}") };
    Bench::with(&lab, gate, routes(Hcm::new("main").filter(wasm.filter()))).await
}

/// Kills the stream role's VM of one worker. The answer to that request is up to Envoy, and is not
/// checked.
pub(crate) async fn kill(bench: &Bench, how: &str) -> Outcome {
    let request = Request::get("/echo").header("x-laststream-die", how);
    let _client = Client::with_request(bench.main, &request).await?;
    bench.envoy.wait_for_log("Function: proxy_on_request_headers failed", SOON).await?;
    Ok(())
}

/// Panic, abort, exhausted memory, overflown stack: one Envoy each, side by side.
async fn streams_of_dead_vms_are_subtracted(lab: &Lab) -> Outcome {
    tokio::try_join!(
        dies_by(lab, "panic"),
        dies_by(lab, "abort"),
        dies_by(lab, "memory"),
        dies_by(lab, "stack")
    )?;
    Ok(())
}

/// The log names the place and the reason of the panic in one line.
fn says_where_and_why(bench: &Bench) -> Outcome {
    let log = bench.envoy.log();
    let line = log.lines().find(|line| line.contains("panicked at"));
    let says = |line: &str| {
        ["[critical]", "filter/src/death.rs:", "asked to"].iter().all(|part| line.contains(part))
    };
    ensure!(line.is_some_and(says), "{line:?}");
    Ok(())
}

async fn dies_by(lab: &Lab, how: &str) -> Outcome {
    let bench = bench(lab, "FAIL_RELOAD", GATE).await?;
    let held = bench.held_by_both_workers("a").await?;
    kill(&bench, how).await?;
    if how == "panic" {
        says_where_and_why(&bench)?;
    }
    bench.post("/drain").await?.expect(202)?;
    let status = bench.until("count", "leaking").await?;
    ensure!(status["lost_counters"].as_u64() > Some(0), "{how}: {status}");
    ensure!(bench.envoy.stat(ACTIVE).await? > Some(0), "{how}: the living hold");
    same(&bench.get("/streams").await?.expect(200)?.json()?, "complete", false)?;
    stays_closed(&bench, 10).await?;
    bench.post("/quitquitquit").await?.expect(503)?;
    bench.upstream.release("a");
    opens_only_at_zero(&bench).await?;
    drop(held);
    let status = bench.status().await?;
    same(&status, "heals", 1)?;
    same(&status, "holding", 0)?;
    ensure_eq!(bench.envoy.stat(IN_FLIGHT).await?, Some(0), "{how}: in flight");
    ensure_eq!(
        bench.envoy.stat("wasmcustom.laststream_gate_heals_total").await?,
        Some(1),
        "{how}: heals"
    );
    bench.envoy.wait_for_log("streams were counted by workers' VMs that have died", SOON).await?;
    Ok(())
}

/// With FAIL_OPEN new streams on that worker bypass the filter. They hold the drain, even after the
/// leak was healed and the other counters report zero.
async fn streams_that_bypass_the_filter_hold_the_drain(lab: &Lab) -> Outcome {
    let bench = bench(lab, "FAIL_OPEN", r#"{"quiet_ms": 2000, "deadline_ms": 90000}"#).await?;
    let held = bench.held_by_both_workers("a").await?;
    kill(&bench, "abort").await?;
    bench.post("/drain").await?.expect(202)?;
    bench.until("count", "leaking").await?;
    bench.upstream.release("a");
    bench.until("heals", 1).await?;
    let mut uncounted = uncounted(&bench).await?;
    drop(held);
    bench.envoy.wait_for_stat(ACTIVE, 1, SOON).await?;
    stays_closed(&bench, 25).await?;
    bench.release("u", &mut uncounted).await?;
    opens_only_at_zero(&bench).await?;
    same(&bench.status().await?, "heals", 1)
}

/// A request that is held and that the module does not count.
async fn uncounted(bench: &Bench) -> Outcome<Client> {
    for _ in 0..100 {
        let before = bench.envoy.stat(BEGUN).await?;
        let client = bench.held("u").await?;
        if bench.envoy.stat(BEGUN).await? == before {
            return Ok(client);
        }
        bench.upstream.release("u");
        bench.upstream.wait_held("u", 0, SOON).await?;
    }
    bail!("every stream is counted")
}

/// Six counters of one VM have the contexts 1 to 6. In the VM after it, most of these numbers
/// belong to streams, and Envoy notifies this VM of messages that the gate sends to the dead
/// counters.
async fn queue_messages_of_a_dead_vm_reach_no_stream(lab: &Lab) -> Outcome {
    let lab = with_test_deaths(lab)?;
    let upstream = Upstream::start().await?;
    let mut bootstrap = bootstrap(&upstream).listener(gate_listener(&lab, GATE));
    for name in ["main", "b", "c", "d", "e", "f"] {
        let wasm = Wasm { name, failure_policy: "FAIL_RELOAD", ..lab.stream("{}") };
        let hcm = routes(Hcm::new(name).filter(wasm.filter()));
        bootstrap = bootstrap.listener(Listener::new(name, hcm).direction("INBOUND"));
    }
    let options = Options { concurrency: 1, ..options() };
    let bench = Bench::start(&lab, upstream, bootstrap, options).await?;
    bench.until("counters", 12).await?; // the worker's and the main thread's
    kill(&bench, "panic").await?;
    wait_for(SOON, "a new VM", async || {
        once(bench.main, &Request::get("/echo")).await?.expect(200)
    })
    .await?;
    let held = bench.upstream.hold_many(bench.main, "a", 5).await?;
    bench.until("lost_counters", 6).await?;
    ensure!(!bench.envoy.log_contains("proxy_on_queue_ready failed"), "{}", bench.envoy.tail());
    bench.upstream.release("a");
    drop(held);
    bench.envoy.wait_for_stat(IN_FLIGHT, 1, SOON).await
}
