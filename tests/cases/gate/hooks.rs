//! Stop hooks of every kind: pollers and single calls that hold, the last call to the agent or to
//! Envoy, and the number of requests that a gate can answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::bench::{Bench, SOON, WAITING, same};
use crate::cases::stage::hcm;
use crate::lab::{Lab, cases};
use kit::h2;
use kit::prelude::*;
use kit::server::Server;
use kit::wait::join_all;

cases! {
    the_agent_is_called_once_and_before_a_hook_ends,
    ten_thousand_requests_are_answered,
}

/// A stand-in for Istio's agent, which answers when the test lets it.
struct Agent {
    server: Server,
    calls: Arc<Calls>,
}

#[derive(Default)]
struct Calls {
    asked: AtomicUsize,
    wrong: AtomicBool,
    answers: Notify,
}

impl Agent {
    async fn start() -> Outcome<Self> {
        let calls = Arc::<Calls>::default();
        let seen = Arc::clone(&calls);
        let server = Server::answering(move |head| {
            let calls = Arc::clone(&seen);
            async move {
                calls.wrong.fetch_or(!head.start.starts_with("POST /drain "), Ordering::Relaxed);
                calls.asked.fetch_add(1, Ordering::Relaxed);
                calls.answers.notified().await;
                Ok((200, Vec::new()))
            }
        });
        Ok(Self { server: server.await?, calls })
    }

    async fn bench(&self, lab: &Lab, deadline: u64) -> Outcome<Bench> {
        let main = hcm(lab, "{}");
        let gate = format!(
            r#"{{
                "quiet_ms": 300, "deadline_ms": {deadline}, "finish": "drain_agent",
                "admin": {{"timeout_ms": 20000}}
            }}"#
        );
        let agent = cluster::h1("agent", self.server.address);
        Bench::upon(Bootstrap::new().cluster(agent), lab, &gate, main).await
    }

    fn asked(&self) -> usize {
        self.calls.asked.load(Ordering::Relaxed)
    }
}

async fn the_agent_is_called_once_and_before_a_hook_ends(lab: &Lab) -> Outcome {
    let agent = Agent::start().await?;
    let bench = agent.bench(lab, 60_000).await?;
    let mut client = bench.held("a").await?;
    let hooks: Vec<_> = (0..6).map(|_| bench.hook()).collect();
    bench.until("begin", "done").await?;
    sleep(Duration::from_secs(1)).await;
    ensure_eq!(agent.asked(), 0, "calls to the agent while a stream is in flight");
    bench.release("a", &mut client).await?;
    bench.until("finish", "under way").await?;
    let late = bench.hook();
    sleep(Duration::from_millis(700)).await;
    bench.get("/ready").await?.expect(503)?;
    ensure!(
        !late.is_finished() && hooks.iter().all(|hook| !hook.is_finished()),
        "no hook returns before the agent knows"
    );
    agent.calls.answers.notify_one();
    for hook in hooks.into_iter().chain([late]) {
        same(&hook.await??.expect(200)?.json()?, "state", "drained")?;
    }
    same(&bench.status().await?, "finish", "done")?;
    ensure_eq!(
        (agent.asked(), agent.calls.wrong.load(Ordering::Relaxed)),
        (1, false),
        "calls to the agent"
    );
    Ok(())
}

/// Sends one request after the other. Returns their number, and the longest time that one took.
async fn send_until(main: SocketAddr, over: Arc<AtomicBool>) -> Outcome<(usize, Duration)> {
    let mut client = Client::connect(main).await?;
    let (mut count, mut slowest) = (0, Duration::ZERO);
    while !over.load(Ordering::Relaxed) {
        let at = Instant::now();
        client.get("/echo").await?.expect(200)?;
        (count, slowest) = (count + 1, slowest.max(at.elapsed()));
    }
    Ok((count, slowest))
}

async fn ten_thousand_requests_are_answered(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, "{}").await?;
    bench.until("count", "exact").await?;
    let over = Arc::new(AtomicBool::new(false));
    let data = tokio::spawn(send_until(bench.main, Arc::clone(&over)));
    let mut askers = JoinSet::new();
    let began = Instant::now();
    for _ in 0..100 {
        let gate = bench.gate;
        askers.spawn(async move {
            let mut client = h2::Client::connect(gate).await?;
            let mut asked = Vec::new();
            for _ in 0..100 {
                asked.push(client.open(h2::get("/status"), true).await?);
            }
            for stream in asked {
                same(&stream.response().await?.expect(200)?.json()?, "state", "serving")?;
            }
            Outcome::Ok(())
        });
    }
    join_all(askers).await?;
    over.store(true, Ordering::Relaxed);
    let (requests, slowest) = data.await??;
    say(&format!(
        "10,000 statuses in {:?}; meanwhile {requests} requests, the slowest {slowest:?}",
        began.elapsed()
    ));
    ensure!(requests > 0, "the data path goes on");
    bench.envoy.wait_for_stat(WAITING, 0, SOON).await?;
    bench.until("count", "exact").await?;
    Ok(())
}
