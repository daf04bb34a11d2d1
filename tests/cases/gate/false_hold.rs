//! Situations that must neither hold a drain nor refuse a signal when no request that counts is in
//! flight.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::{Instant, sleep};

use super::bench::{Bench, SOON, same};
use super::watch::holds_until_answered;
use crate::cases::stage::{EXCLUDED, hcm};
use crate::lab::{Lab, cases};
use kit::admin_proxy::CallHandling;
use kit::prelude::*;

cases! {
    twenty_thousand_clusters_hold_nothing,
    excluded_and_exempt_streams_hold_neither_hooks_nor_signals,
}

/// A main thread that answers so late got no processor: its counter may count as dead, after 10 s.
const STARVED: Duration = Duration::from_secs(5);

/// The number of the gate's queries for statistics, and one of those that leave the most out. The
/// first answer to each worker's gate is whole.
#[derive(Default)]
struct Asked {
    times: AtomicU64,
    query: Mutex<String>,
}

/// Envoy takes about a second for its statistics. That delays the drain, but neither ends nor
/// prevents it. A gate that counts by Envoy asks for them all the time.
async fn twenty_thousand_clusters_hold_nothing(lab: &Lab) -> Outcome {
    for (count, asks_again) in [("filter", false), ("envoy", true)] {
        let asked = Arc::new(Asked::default());
        let mut bootstrap = Bootstrap::new();
        for number in 0..20_000 {
            bootstrap = bootstrap.cluster(json!({
                "name": format!("outbound|80||service-{number}.test.svc.cluster.local"),
                "type": "STATIC",
            }));
        }
        let gate = format!(r#"{{"count": "{count}", "quiet_ms": 1000, "deadline_ms": 600000}}"#);
        let judge = counts_queries(Arc::clone(&asked));
        let (bench, _proxy) = Bench::proxied(bootstrap, lab, &gate, hcm(lab, "{}"), judge).await?;
        once(bench.main, &Request::get("/echo")).await?.expect(200)?;
        let began = Instant::now();
        let mut gate = Client::connect(bench.gate).await?.patience(Duration::from_secs(600));
        let mut slowest = Duration::ZERO;
        let answer = tokio::select! {
            answer = gate.get("/prestop?wait") => answer?,
            failure = watch_main_thread(&bench, &mut slowest) => return failure,
        };
        same(&answer.expect(200)?.json()?, "state", "drained")?;
        let took = began.elapsed();
        say(&format!("20,000 clusters, counted by {count}: drained after {took:.1?}"));
        if slowest < STARVED {
            same(&bench.status().await?, "lost_counters", 0)?;
            ensure!(!bench.envoy.log_contains("counter does not reply"), "no counter is dead");
        }
        bench.until("lost_counters", 0).await?;
        let query = asks_seldom(&bench, &asked, took).await?;
        ensure!(!asks_again || query.ends_with("&usedonly"), "{query}");
    }
    Ok(())
}

/// Measures the slowest of the main thread's answers, until it is dropped or Envoy fails.
async fn watch_main_thread(bench: &Bench, slowest: &mut Duration) -> Outcome {
    loop {
        let asked = Instant::now();
        bench.envoy.admin_get("/ready").await?;
        *slowest = asked.elapsed().max(*slowest);
        sleep(Duration::from_millis(100)).await;
    }
}

fn counts_queries(
    asked: Arc<Asked>,
) -> impl Fn(&str, &str) -> CallHandling + Send + Sync + 'static {
    move |_, path| {
        if path.starts_with("/stats") {
            asked.times.fetch_add(1, Ordering::Relaxed);
            let mut query = asked.query.lock().unwrap_or_else(PoisonError::into_inner);
            if query.is_empty() || path.ends_with("&usedonly") {
                *query = path.to_owned();
            }
        }
        CallHandling::Forward
    }
}

/// Envoy's main thread is busy with the gate's queries for half of the time at most.
/// Returns the cheapest query.
async fn asks_seldom(bench: &Bench, asked: &Asked, took: Duration) -> Outcome<String> {
    let times = asked.times.load(Ordering::Relaxed);
    let query = asked.query.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut fastest = SOON;
    for _ in 0..3 {
        let began = Instant::now();
        bench.envoy.admin_get(&query).await?.expect(200)?;
        fastest = fastest.min(began.elapsed());
    }
    let busy = fastest * u32::try_from(times.saturating_sub(3))?;
    ensure!(
        busy < took / 2,
        "asked {times} times in {took:?} for statistics that take {fastest:?}"
    );
    Ok(query)
}

/// Envoy counts these streams, so the gate must ask the counters how many of Envoy's requests they
/// are.
async fn excluded_and_exempt_streams_hold_neither_hooks_nor_signals(lab: &Lab) -> Outcome {
    for (kind, long_lived) in [("exclude", "wait"), ("long_lived", "exempt")] {
        let rules =
            format!(r#"{{"count": {{"{kind}": {{"paths": [{{"prefix": "/hold/idle"}}]}}}}}}"#);
        let gate =
            format!(r#"{{"quiet_ms": 300, "deadline_ms": 90000, "long_lived": "{long_lived}"}}"#);
        let bench = Bench::with(lab, &gate, hcm(lab, &rules)).await?;
        bench.until("count", "exact").await?;
        let mut idle = bench.upstream.hold_many(bench.main, "idle", 6).await?;
        let client = bench.held("a").await?;
        bench.until("holding", 1).await?;
        let excluded = bench.envoy.stat(EXCLUDED).await?;
        ensure_eq!(excluded, Some(if kind == "exclude" { 6 } else { 0 }), "excluded");
        holds_until_answered(&bench, "a", client).await?;
        wait_for(SOON, "a signal to pass", async || {
            bench.post("/drain_listeners?inboundonly").await?.expect(200)
        })
        .await?;
        bench.upstream.release("idle");
        for client in &mut idle {
            client.response("GET").await?.expect(200)?;
        }
    }
    Ok(())
}
