//! Streams in flight and long-lived ones are two values. A long-lived stream that begins or ends
//! between the two reads must not produce a zero.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::bench::Bench;
use crate::cases::stage::hcm;
use crate::lab::{Lab, cases};
use kit::admin_proxy::CallHandling;
use kit::prelude::*;
use kit::wait::join_all;

cases! {
    exempt_streams_that_come_and_go_make_no_zero,
}

/// The least duration. On a slow machine the case goes on until there is enough of each.
const LASTS: Duration = Duration::from_secs(6);
const LONG_LIVED: &str = r#"{"count": {"long_lived": {"paths": [{"prefix": "/long"}]}}}"#;
const EXEMPTING: &str = r#"{"quiet_ms": 300, "deadline_ms": 90000, "long_lived": "exempt"}"#;

#[derive(Default)]
struct Tally {
    over: AtomicBool,
    passed: AtomicU64,
    signals: AtomicU64,
    looks: AtomicU64,
    came: AtomicU64,
}

impl Tally {
    fn is_enough(&self) -> bool {
        [(&self.came, 500), (&self.signals, 50), (&self.looks, 50)]
            .iter()
            .all(|(seen, wanted)| seen.load(Ordering::Relaxed) > *wanted)
    }
}

/// One plain stream is held all the time.
async fn exempt_streams_that_come_and_go_make_no_zero(lab: &Lab) -> Outcome {
    let tally = Arc::new(Tally::default());
    let counted = Arc::clone(&tally);
    let judge = move |method: &str, _: &str| counts_signals(&counted, method);
    let main = hcm(lab, LONG_LIVED);
    let (bench, _proxy) = Bench::proxied(Bootstrap::new(), lab, EXEMPTING, main, judge).await?;
    bench.until("count", "exact").await?;
    let mut held = bench.held("a").await?;
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        tasks.spawn(comes_and_goes(bench.main, Arc::clone(&tally)));
        tasks.spawn(sends_signals(bench.gate, Arc::clone(&tally)));
        tasks.spawn(looks(bench.gate, Arc::clone(&tally)));
    }
    let began = Instant::now();
    while began.elapsed() < LASTS || !tally.is_enough() {
        if let Some(failed) = tasks.try_join_next() {
            failed??;
        }
        sleep(Duration::from_millis(20)).await;
    }
    tally.over.store(true, Ordering::Relaxed);
    join_all(tasks).await?;
    bench.release("a", &mut held).await?;
    let [came, signals, looks, passed] = [&tally.came, &tally.signals, &tally.looks, &tally.passed]
        .map(|n| n.load(Ordering::Relaxed));
    say(&format!(
        "{came} long-lived streams came and went; of {signals} signals {passed} passed; {looks} \
            looks at the status"
    ));
    ensure_eq!(passed, 0, "signals that passed beside a stream");
    Ok(())
}

/// Counts signals, and never passes them on to Envoy.
fn counts_signals(tally: &Tally, method: &str) -> CallHandling {
    if method == "POST" {
        tally.passed.fetch_add(1, Ordering::Relaxed);
        return CallHandling::Intercept;
    }
    CallHandling::Forward
}

/// Long-lived streams, one after the other. Some are refused, while the latch is closed for a
/// signal.
async fn comes_and_goes(main: SocketAddr, tally: Arc<Tally>) -> Outcome {
    let mut client = Client::connect(main).await?;
    while !tally.over.load(Ordering::Relaxed) {
        let status = client.get("/long/echo").await?.status;
        ensure!(matches!(status, 200 | 503), "the status of a long-lived stream: {status}");
        tally.came.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

async fn sends_signals(gate: SocketAddr, tally: Arc<Tally>) -> Outcome {
    let mut client = Client::connect(gate).await?;
    while !tally.over.load(Ordering::Relaxed) {
        let answer = client.request(&Request::post("/drain_listeners", "")).await?;
        ensure_eq!(answer.status, 503, "a signal beside a stream: {}", answer.text());
        tally.signals.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

async fn looks(gate: SocketAddr, tally: Arc<Tally>) -> Outcome {
    let mut client = Client::connect(gate).await?;
    while !tally.over.load(Ordering::Relaxed) {
        let status = client.get("/status").await?.expect(200)?.json()?;
        ensure!(status["holding"].as_u64() > Some(0), "a zero beside a stream: {status}");
        tally.looks.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
