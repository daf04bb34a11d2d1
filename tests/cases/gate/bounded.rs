//! What strangers, short streams and many workers cost a drain: no time, no queries, and no
//! processor time beyond their number.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::bench::{Bench, SOON, bootstrap, gate_listener, main_listener, options, same};
use super::{by_envoy, program};
use crate::cases::stage::{hcm, routes};
use crate::lab::{Lab, cases, number};
use kit::admin_proxy::{AdminFault, CallHandling};
use kit::prelude::*;
use kit::process::Process;
use kit::user::hook;
use kit::wait::join_all;

cases! {
    short_excluded_streams_do_not_delay_a_drain_while_statistics_are_slow,
    short_streams_of_another_scope_do_not_delay_a_drain_while_statistics_are_slow,
    readiness_for_strangers_costs_no_queries_of_its_own,
    the_cost_of_a_drain_does_not_grow_with_the_square_of_the_workers,
    the_program_takes_little_memory_and_time,
}

async fn short_excluded_streams_do_not_delay_a_drain_while_statistics_are_slow(
    lab: &Lab,
) -> Outcome {
    let rules = r#"{"count": {"exclude": {"paths": [{"prefix": "/delay"}]}}}"#;
    opens_beside_short_streams(lab, rules, "main").await
}

async fn short_streams_of_another_scope_do_not_delay_a_drain_while_statistics_are_slow(
    lab: &Lab,
) -> Outcome {
    opens_beside_short_streams(lab, "{}", "other").await
}

/// Clients send requests of 5 ms, one after the other, and each query of Envoy's statistics takes
/// 30 ms. So the streams that a query shows have ended when its answer arrives, and others have
/// begun. Their number is not known, but the quiet period goes on.
async fn opens_beside_short_streams(lab: &Lab, rules: &str, target: &str) -> Outcome {
    let other = Hcm::new("other").filter(lab.stream(r#"{"scope": "outbound"}"#).filter());
    let bootstrap = Bootstrap::new().listener(Listener::new("other", routes(other)));
    let judge = |method: &str, _: &str| match method {
        "GET" => CallHandling::Fault(AdminFault::Slow(Duration::from_millis(30))),
        _ => CallHandling::Forward,
    };
    let gate = r#"{"quiet_ms": 1000, "deadline_ms": 20000, "begin": {"call": "nothing"}}"#;
    let (bench, _proxy) = Bench::proxied(bootstrap, lab, gate, hcm(lab, rules), judge).await?;
    bench.until("count", "exact").await?;
    let target = bench.envoy.address(target).await?;
    let mut clients = JoinSet::<Outcome>::new();
    for _ in 0..8 {
        clients.spawn(async move {
            let mut client = Client::connect(target).await?;
            loop {
                client.get("/delay/5").await?.expect(200)?;
            }
        });
    }
    let hook = bench.hook();
    bench.until("state", "draining").await?;
    wait_for(SOON, "a long quiet period", async || {
        let status = bench.status().await?;
        let is_over = status["state"] != "draining" || status["quiet_ms"].as_u64() > Some(4_000);
        ensure!(is_over, "{status}");
        Ok(())
    })
    .await?;
    ensure!(clients.try_join_next().is_none(), "a client has failed");
    drop(clients);
    same(&hook.await??.expect(200)?.json()?, "state", "drained")
}

/// The gate of one worker, in a drain that is over.
async fn readiness_for_strangers_costs_no_queries_of_its_own(lab: &Lab) -> Outcome {
    const SECRET: &str = "open-sesame/0123456789";
    let queries = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&queries);
    let judge = move |method: &str, _: &str| {
        count.fetch_add(usize::from(method == "GET"), Ordering::Relaxed);
        CallHandling::Forward
    };
    let gate = format!(
        r#"{{"quiet_ms": 300, "deadline_ms": 90000, "secret": "{SECRET}",
            "begin": {{"call": "nothing"}}}}"#
    );
    let (options, main) = (Options { concurrency: 1, ..options() }, hcm(lab, "{}"));
    let (bench, _proxy) =
        Bench::proxied_with(options, Bootstrap::new(), lab, &gate, main, judge).await?;
    let hook = Request::get("/prestop?wait").header("x-laststream-secret", SECRET);
    same(&once(bench.gate, &hook).await?.expect(200)?.json()?, "state", "drained")?;
    let (before, began) = (queries.load(Ordering::Relaxed), Instant::now());
    let mut strangers = JoinSet::<Outcome>::new();
    for _ in 0..4 {
        let mut client = Client::connect(bench.gate).await?;
        strangers.spawn(async move {
            for _ in 0..100 {
                client.get("/ready").await?;
            }
            Ok(())
        });
    }
    join_all(strangers).await?;
    let (queries, took) = (queries.load(Ordering::Relaxed) - before, began.elapsed());
    say(&format!("{queries} queries in {took:?} for 400 requests of strangers"));
    // An answer of Envoy is valid for 100 ms.
    let most = took.as_millis() / 50 + 10;
    ensure!(queries as u128 <= most, "{queries} queries in {took:?}, for 400 requests");
    Ok(())
}

/// The workers of the larger Envoy; `LASTSTREAM_TEST_WORKERS` sets another number.
const WORKERS: u32 = 32;

async fn the_cost_of_a_drain_does_not_grow_with_the_square_of_the_workers(lab: &Lab) -> Outcome {
    let workers = number("LASTSTREAM_TEST_WORKERS", WORKERS)?;
    let few = cost(lab, workers / 4).await?;
    let many = cost(lab, workers).await?;
    ensure!(
        many <= few * 6,
        "{many} ticks of processor time with {workers} workers, {few} with a quarter"
    );
    Ok(())
}

/// The processor time of Envoy, in ticks of its clock, in 10 s of a drain in which one stream waits
/// and the gates of all workers were asked.
async fn cost(lab: &Lab, workers: u32) -> Outcome<u64> {
    const LASTS: Duration = Duration::from_secs(10);
    let gate = r#"{"quiet_ms": 1000, "deadline_ms": 600000, "begin": {"call": "nothing"}}"#;
    let upstream = Upstream::start().await?;
    let bootstrap =
        bootstrap(&upstream).listener(main_listener(lab)).listener(gate_listener(lab, gate));
    let options = Options { concurrency: workers, ..options() };
    let bench = Bench::start(lab, upstream, bootstrap, options).await?;
    bench.until("counters", u64::from(workers) + 1).await?;
    let mut client = bench.held("a").await?;
    let hook = bench.hook();
    bench.until("state", "draining").await?;
    // Enough connections to reach nearly every worker.
    let mut connections = JoinSet::<Outcome>::new();
    for _ in 0..workers * 8 {
        let gate = bench.gate;
        connections.spawn(async move {
            once(gate, &Request::get("/prestop?wait=1ms")).await?.expect(503).map(drop)
        });
    }
    join_all(connections).await?;
    let before = processor_time(bench.envoy.pid())?;
    sleep(LASTS).await;
    let spent = processor_time(bench.envoy.pid())? - before;
    let released = Instant::now();
    bench.release("a", &mut client).await?;
    same(&hook.await??.expect(200)?.json()?, "state", "drained")?;
    say(&format!(
        "{workers} workers: {spent} ticks of processor time in {LASTS:?} of a drain; the hook \
            ended {} ms after the stream",
        released.elapsed().as_millis()
    ));
    Ok(spent)
}

/// User and system time of a process, in clock ticks.
fn processor_time(pid: u32) -> Outcome<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(") ").context("fields after the name")?;
    let times = fields.split(' ').skip(11).take(2);
    times.map(|time| time.parse::<u64>().context("a time")).sum()
}

/// In megabytes.
const MOST_MEMORY: f64 = 4.0;

/// The figures in docs/program.md are those of a released program.
async fn the_program_takes_little_memory_and_time(lab: &Lab) -> Outcome {
    let (bench, process) =
        program::beside(lab, by_envoy::layers(&[]), program::GATE, by_envoy::main()).await?;
    let serving = shares(&bench, &process).await?;
    let mut client = bench.held("a").await?;
    bench.post("/drain").await?.expect(202)?;
    let draining = shares(&bench, &process).await?;
    bench.release("a", &mut client).await?;
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid()))?;
    let memory = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let words = line.and_then(|line| line.split_whitespace().next());
        words.and_then(|kilobytes| kilobytes.parse::<f64>().ok()).map(|kilobytes| kilobytes / 1e3)
    };
    let (all, own) = (memory("VmRSS:").context("VmRSS")?, memory("RssAnon:").context("RssAnon")?);
    let size = fs::metadata(hook()?)?.len() as f64 / 1e6;
    say(&format!(
        "{size:.2} MB on disk, {all:.2} MB of memory, {own:.2} MB without the program's file; \
         shares of a core, of the program and of Envoy: serving {serving:.1?} %, draining \
         {draining:.1?} %"
    ));
    ensure!(own < MOST_MEMORY, "{own} MB of memory");
    Ok(())
}

/// The shares of a core that the program and Envoy take, in percent.
async fn shares(bench: &Bench, process: &Process) -> Outcome<[f64; 2]> {
    const LASTS: Duration = Duration::from_secs(10);
    let spent = || [process.pid(), bench.envoy.pid()].map(processor_time);
    let before = spent();
    sleep(LASTS).await;
    let [own, envoy] = spent();
    let [own_before, envoy_before] = before;
    // A tick is a hundredth of a second.
    let share = |ticks: u64| ticks as f64 / LASTS.as_secs_f64();
    Ok([share(own? - own_before?), share(envoy? - envoy_before?)])
}
