//! Signals to quit and to drain at once pass only when no stream can be hurt, however many streams
//! begin and end beside them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::bench::{Bench, same};
use crate::cases::stage::{hcm, routes};
use crate::lab::{Lab, cases, number};
use kit::admin_proxy::CallHandling;
use kit::bootstrap::filters::Wasm;
use kit::prelude::*;
use kit::wait::{blocking, join_all};

cases! {
    no_stream_is_there_when_a_signal_passes,
    without_the_latch_streams_are_there,
}

/// Signals that pass in a short run; `LASTSTREAM_TEST_PASSES` sets another number.
const PASSES: u64 = 100;

async fn no_stream_is_there_when_a_signal_passes(lab: &Lab) -> Outcome {
    let main = hcm(lab, "{}");
    let passes = number("LASTSTREAM_TEST_PASSES", PASSES)?;
    let enough = move |tally: &Tally| tally.passed() >= passes;
    let tally = pass_many(lab, main, Duration::ZERO, enough).await?;
    ensure_eq!(tally.hurt(), 0, "passes with streams there");
    let accepted = tally.accepted.load(Ordering::Relaxed);
    ensure!(accepted > passes / 10, "only {accepted} requests went on");
    Ok(())
}

/// For this time after its start, a counter makes its streams check the latch without being asked.
const FRESH_ONES_MIND: Duration = Duration::from_millis(15_500);

/// Streams that are counted but do not check the latch, because the gate cannot reach their VM to
/// ask for that: then the test above must see the race.
async fn without_the_latch_streams_are_there(lab: &Lab) -> Outcome {
    let deaf = Wasm { vm_id: "elsewhere", ..lab.stream("{}") };
    let main = routes(Hcm::new("main").filter(deaf.filter()));
    let enough = |tally: &Tally| tally.hurt() > 0 || tally.passed() >= PASSES;
    let tally = pass_many(lab, main, FRESH_ONES_MIND, enough).await?;
    ensure!(tally.hurt() > 0, "no stream was there, although none minds the gate");
    Ok(())
}

#[derive(Default)]
struct Tally {
    passed: AtomicU64,
    hurt: AtomicU64,
    /// Passes beside which the witness got no answer.
    blind: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    over: AtomicBool,
}

impl Tally {
    fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    fn hurt(&self) -> u64 {
        self.hurt.load(Ordering::Relaxed)
    }
}

/// Sends signals and requests at once, until the signals that have passed are enough.
async fn pass_many(
    lab: &Lab,
    main: Hcm,
    pause: Duration,
    enough: impl Fn(&Tally) -> bool + Copy + Send + 'static,
) -> Outcome<Arc<Tally>> {
    let tally = Arc::new(Tally::default());
    let (admin, seen) = (Arc::<OnceLock<SocketAddr>>::default(), Arc::clone(&tally));
    let known = Arc::clone(&admin);
    let judge = move |method: &str, _: &str| match method {
        "POST" => witness(&seen, known.get()),
        _ => CallHandling::Forward,
    };
    // Another VM may count the streams of `main`; this one has a counter that answers.
    let quiet = Hcm::new("quiet")
        .filter(lab.stream("{}").filter())
        .route(Route::prefix("/").direct(200, "quiet"));
    let bootstrap = Bootstrap::new().listener(Listener::new("quiet", quiet));
    let (bench, _proxy) = Bench::proxied(bootstrap, lab, "{}", main, judge).await?;
    admin.get_or_init(|| bench.envoy.admin());
    bench.until("count", "exact").await?;
    sleep(pause).await;
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        tasks.spawn(traffic(bench.main, Arc::clone(&tally)));
        tasks.spawn(signals(bench.gate, Arc::clone(&tally), enough));
    }
    let began = Instant::now();
    join_all(tasks).await?;
    let [passed, hurt, accepted, refused] =
        [&tally.passed, &tally.hurt, &tally.accepted, &tally.refused]
            .map(|n| n.load(Ordering::Relaxed));
    say(&format!(
        "{passed} passes in {:?}, {hurt} with streams there; {accepted} requests went on, \
            {refused} were refused",
        began.elapsed()
    ));
    ensure_eq!(tally.blind.load(Ordering::Relaxed), 0, "passes beside which Envoy was not asked");
    same(&bench.status().await?, "holding", 0)?;
    Ok(tally)
}

/// Requests that take a few milliseconds, with pauses; a refused one is sent again.
async fn traffic(main: SocketAddr, tally: Arc<Tally>) -> Outcome {
    let mut client = Client::connect(main).await?;
    while !tally.over.load(Ordering::Relaxed) {
        match client.get("/delay/4").await?.status {
            200 => {
                tally.accepted.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_millis(fastrand::u64(0..40))).await;
            }
            503 => {
                tally.refused.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_millis(1)).await;
            }
            other => ensure_eq!(other, 200, "status"),
        }
    }
    Ok(())
}

async fn signals(
    gate: SocketAddr,
    tally: Arc<Tally>,
    enough: impl Fn(&Tally) -> bool + Send,
) -> Outcome {
    let mut client = Client::connect(gate).await?;
    while !enough(&tally) {
        let answer = client.request(&Request::post("/drain_listeners", "")).await?;
        ensure!(matches!(answer.status, 200 | 503), "{} {}", answer.status, answer.text());
        sleep(Duration::from_millis(fastrand::u64(10..100))).await;
    }
    tally.over.store(true, Ordering::Relaxed);
    Ok(())
}

/// When a signal comes, the real admin interface is asked at once for the requests in flight to the
/// app, and does not get the signal.
fn witness(tally: &Tally, admin: Option<&SocketAddr>) -> CallHandling {
    let live = admin.context("Envoy has started").and_then(|&admin| blocking(live(admin)));
    tally.passed.fetch_add(1, Ordering::Relaxed);
    tally.hurt.fetch_add(u64::from(matches!(live, Ok(1..))), Ordering::Relaxed);
    tally.blind.fetch_add(u64::from(live.is_err()), Ordering::Relaxed);
    CallHandling::Intercept
}

/// Requests that were let through and have not ended.
async fn live(admin: SocketAddr) -> Outcome<u64> {
    let gauges = "/stats?filter=%5Ecluster%5C.app%5C.upstream_rq_%28pending_%29%3Factive$";
    let text = once(admin, &Request::get(gauges)).await?.expect(200)?.text();
    let values: Vec<u64> =
        text.lines().filter_map(|line| line.rsplit_once(": ")?.1.parse().ok()).collect();
    ensure_eq!(values.len(), 2, "gauges in {text}");
    Ok(values.iter().sum())
}
