//! Situations that must neither hold a drain nor refuse a signal when no request that counts is in
//! flight.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::time::{Instant, sleep};

use super::bench::{Bench, SOON, bootstrap, gate_listener, main_listener, options, same};
use super::deaths::{hold, with_test_deaths};
use super::watch::{holds_until_answered, opens};
use crate::cases::stage::{ACTIVE, hcm, routes};
use crate::lab::{Lab, cases};
use kit::admin_proxy::CallHandling;
use kit::bootstrap::filters::Wasm;
use kit::prelude::*;

cases! {
    a_crash_loop_heals_when_both_counts_are_zero,
    twenty_thousand_clusters_hold_nothing => |lab| clusters_hold_nothing(lab, 20_000),
    probes_of_the_agent_hold_nothing,
    excluded_streams_do_not_hold_pollers,
    exempt_streams_do_not_hold_pollers,
    a_dead_vm_that_is_bypassed_costs_no_memory,
    a_hook_on_a_gate_that_dies_ends_without_200,
}

const GATE: &str = r#"{"quiet_ms": 300, "deadline_ms": 90000}"#;
const DEATH: &str = "Function: proxy_on_request_headers failed";
const DEATHS: usize = 5;

/// Five deaths of workers' VMs one after the other, each with streams in flight.
async fn a_crash_loop_heals_when_both_counts_are_zero(lab: &Lab) -> Outcome {
    let lab = with_test_deaths(lab)?;
    let mut bench = Bench::with(&lab, GATE, hcm(&lab, "{}")).await?;
    bench.until("count", "exact").await?;
    for death in 1..=DEATHS {
        dies_with_a_stream(&bench, death).await?;
    }
    bench.envoy.wait_for_stat(ACTIVE, 0, SOON).await?;
    same(&bench.until("count", "exact").await?, "holding", 0)?;
    wait_for(SOON, "a signal to pass", async || {
        bench.post("/drain_listeners?inboundonly").await?.expect(200)
    })
    .await?;
    bench.post("/quitquitquit").await.ok(); // Envoy may end before its answer is out
    bench.envoy.exited(SOON).await?;
    Ok(())
}

/// Causes the death of this number. The VM may come back only after a while, and until then its
/// worker refuses requests.
async fn dies_with_a_stream(bench: &Bench, death: usize) -> Outcome {
    let key = format!("death-{death}");
    let _held = wait_for(SOON, "a request that is held", async || {
        let mut client = Client::connect(bench.main).await?;
        client.send(&Request::get(&format!("/hold/{key}")).bytes()).await?;
        // A worker without its VM refuses the request; then the next one is tried.
        bench.upstream.wait_held(&key, 1, Duration::from_secs(5)).await?;
        Ok(client)
    })
    .await?;
    wait_for(SOON, "a death", async || {
        let mut client = Client::connect(bench.main).await?;
        client.send(&Request::get("/echo").header("x-laststream-die", "abort").bytes()).await?;
        client.response("GET").await?;
        ensure!(bench.envoy.log().matches(DEATH).count() >= death, "fewer than {death} deaths");
        Ok(())
    })
    .await?;
    bench.upstream.release(&key);
    Ok(())
}

/// The number of the gate's queries for statistics, and the query.
#[derive(Default)]
struct Asked {
    times: AtomicU64,
    query: OnceLock<String>,
}

/// Envoy takes about a second for its statistics. That delays the drain, but neither ends nor
/// prevents it.
async fn clusters_hold_nothing(lab: &Lab, count: usize) -> Outcome {
    let asked = Arc::new(Asked::default());
    let mut bootstrap = Bootstrap::new();
    for number in 0..count {
        bootstrap = bootstrap.cluster(json!({
            "name": format!("outbound|80||service-{number}.test.svc.cluster.local"),
            "type": "STATIC",
        }));
    }
    let gate = r#"{"quiet_ms": 1000, "deadline_ms": 600000}"#;
    let judge = counts_queries(Arc::clone(&asked));
    let (bench, _proxy) = Bench::proxied(bootstrap, lab, gate, hcm(lab, "{}"), judge).await?;
    once(bench.main, &Request::get("/echo")).await?.expect(200)?;
    let began = Instant::now();
    let mut gate = Client::connect(bench.gate).await?.patience(Duration::from_secs(600));
    same(&gate.get("/prestop?wait").await?.expect(200)?.json()?, "state", "drained")?;
    let took = began.elapsed();
    same(&bench.status().await?, "lost_counters", 0)?;
    ensure!(!bench.envoy.log_contains("counter does not reply"), "no counter was taken for dead");
    asks_seldom(&bench, &asked, took, count).await
}

fn counts_queries(
    asked: Arc<Asked>,
) -> impl Fn(&str, &str) -> CallHandling + Send + Sync + 'static {
    move |_, path| {
        if path.starts_with("/stats") {
            asked.times.fetch_add(1, Ordering::Relaxed);
            asked.query.get_or_init(|| path.to_owned());
        }
        CallHandling::Forward
    }
}

/// Envoy's main thread is busy with the gate's queries for half of the time at most.
async fn asks_seldom(bench: &Bench, asked: &Asked, took: Duration, count: usize) -> Outcome {
    let times = asked.times.load(Ordering::Relaxed);
    let query = asked.query.get().context("the gate has asked for statistics")?;
    let mut fastest = SOON;
    for _ in 0..3 {
        let began = Instant::now();
        bench.envoy.admin_get(query).await?.expect(200)?;
        fastest = fastest.min(began.elapsed());
    }
    say(&format!(
        "{count} clusters: drained after {took:?}; asked {times} times for statistics that take \
            {fastest:?}"
    ));
    let busy = fastest * u32::try_from(times.saturating_sub(3))?;
    ensure!(
        busy < took / 2,
        "asked {times} times in {took:?} for statistics that take {fastest:?}"
    );
    Ok(())
}

/// Istio's own listener for probes has the stat prefix `agent`. This Envoy has no counter, so only
/// its own count exists. The probes come more often than the quiet period is long.
async fn probes_of_the_agent_hold_nothing(lab: &Lab) -> Outcome {
    let probes = Listener::new("agent", Hcm::new("agent").route(Route::prefix("/").cluster("app")));
    let gate = r#"{"quiet_ms": 1000, "deadline_ms": 20000}"#;
    let bench = Arc::new(
        Bench::upon(Bootstrap::new().listener(probes), lab, gate, routes(Hcm::new("main"))).await?,
    );
    let agent = bench.envoy.address("agent").await?;
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let prober = tokio::spawn(async move {
        while !ended.load(Ordering::Relaxed) {
            once(agent, &Request::get("/delay/50")).await?.expect(200)?;
            sleep(Duration::from_millis(150)).await;
        }
        Outcome::Ok(())
    });
    opens(&bench).await?;
    same(&bench.status().await?, "count", "unknown")?;
    over.store(true, Ordering::Relaxed);
    prober.await?
}

/// Envoy counts excluded streams, so the gate must ask the counters how many of Envoy's requests
/// they are.
async fn excluded_streams_do_not_hold_pollers(lab: &Lab) -> Outcome {
    streams_do_not_hold_pollers(
        lab,
        r#"{"count": {"exclude": {"paths": [{"prefix": "/hold/idle"}]}}}"#,
        "wait",
    )
    .await
}

async fn exempt_streams_do_not_hold_pollers(lab: &Lab) -> Outcome {
    streams_do_not_hold_pollers(
        lab,
        r#"{"count": {"long_lived": {"paths": [{"prefix": "/hold/idle"}]}}}"#,
        "exempt",
    )
    .await
}

async fn streams_do_not_hold_pollers(lab: &Lab, rules: &str, long_lived: &str) -> Outcome {
    let gate =
        format!(r#"{{"quiet_ms": 300, "deadline_ms": 90000, "long_lived": "{long_lived}"}}"#);
    let bench = Bench::with(lab, &gate, hcm(lab, rules)).await?;
    bench.until("count", "exact").await?;
    let mut idle = hold(&bench, "idle", 6).await?;
    let client = bench.held("a").await?;
    bench.until("holding", 1).await?;
    holds_until_answered(&bench, "a", client).await?;
    wait_for(SOON, "a signal to pass", async || {
        bench.post("/drain_listeners?inboundonly").await?.expect(200)
    })
    .await?;
    bench.upstream.release("idle");
    for client in &mut idle {
        client.response("GET").await?.expect(200)?;
    }
    Ok(())
}

const LOOKS: usize = 1_000;
/// The bytes that one evaluation may leave behind: messages to a dead VM's queue take about 400. On
/// a quiet machine none are left; on a busy one Envoy's heap grew by a step of 180 kB meanwhile.
const LEFT_BY_A_LOOK: u64 = 250;

/// The gate must not fill the queue of a VM that died, because no VM reads it any more.
async fn a_dead_vm_that_is_bypassed_costs_no_memory(lab: &Lab) -> Outcome {
    let lab = with_test_deaths(lab)?;
    let wasm = Wasm { failure_policy: "FAIL_OPEN", ..lab.stream("{}") };
    let bench = Bench::with(&lab, GATE, routes(Hcm::new("main").filter(wasm.filter()))).await?;
    bench.until("count", "exact").await?;
    let mut client = Client::connect(bench.main).await?;
    client.send(&Request::get("/echo").header("x-laststream-die", "abort").bytes()).await?;
    bench.envoy.wait_for_log(DEATH, SOON).await?;
    looks(&bench, 200).await?;
    let before = allocated(&bench).await?;
    looks(&bench, LOOKS).await?;
    let grown = allocated(&bench).await?.saturating_sub(before);
    say(&format!("{LOOKS} looks: {grown} bytes more"));
    ensure!(grown < LEFT_BY_A_LOOK * LOOKS as u64, "{grown} bytes more after {LOOKS} looks");
    Ok(())
}

/// Requests for the status, each of which makes the gate evaluate its counts.
async fn looks(bench: &Bench, count: usize) -> Outcome {
    let mut client = Client::connect(bench.gate).await?;
    for _ in 0..count {
        client.get("/status").await?.expect(200)?;
    }
    Ok(())
}

async fn allocated(bench: &Bench) -> Outcome<u64> {
    let memory: Value = bench.envoy.admin_get("/memory").await?.expect(200)?.json()?;
    memory["allocated"]
        .as_str()
        .and_then(|bytes| bytes.parse().ok())
        .with_context(|| format!("allocated bytes in {memory}"))
}

/// The listener ends hooks that a dead VM can no longer answer, later than the deadline would.
async fn a_hook_on_a_gate_that_dies_ends_without_200(lab: &Lab) -> Outcome {
    let lab = with_test_deaths(lab)?;
    let upstream = Upstream::start().await?;
    let gate = gate_listener(&lab, r#"{"quiet_ms": 300, "deadline_ms": 3000}"#)
        .with("/filter_chains/0/filters/0/typed_config/stream_idle_timeout", json!("13s"));
    let bootstrap = bootstrap(&upstream).listener(main_listener(&lab)).listener(gate);
    let bench = Bench::start(&lab, upstream, bootstrap, options()).await?;
    let _held = bench.held("a").await?;
    let mut hooks = Vec::new();
    for _ in 0..6 {
        let mut hook = Client::connect(bench.gate).await?.patience(SOON * 2);
        hook.send(&Request::get("/prestop?wait").bytes()).await?;
        hooks.push(hook);
    }
    bench.until("state", "draining").await?;
    let request = Request::get("/ready").header("x-laststream-die", "abort");
    for _ in 0..6 {
        ensure!(
            once(bench.gate, &request).await?.status >= 500,
            "a gate that has died lets nothing out"
        );
    }
    let mut unanswered = 0;
    for hook in &mut hooks {
        let answer = hook.response("GET").await?;
        match answer.status {
            200 => same(&answer.json()?, "state", "expired")?,
            status => {
                ensure!(status >= 500, "an answer of a hook whose gate has died: {status}");
                unanswered += 1;
            }
        }
    }
    ensure!(unanswered > 0, "some hooks waited on the VM that died");
    ensure_eq!(bench.envoy.stat(ACTIVE).await?, Some(1), "the request that is still in flight");
    Ok(())
}
