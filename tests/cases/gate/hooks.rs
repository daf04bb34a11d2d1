//! Stop hooks of every kind: pollers and single calls that hold, the last call to the agent or to
//! Envoy, and the number of requests that a gate can answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use super::bench::{Bench, SOON, WAITING, same};
use crate::cases::stage::hcm;
use crate::lab::{Lab, cases};
use kit::h2;
use kit::prelude::*;
use kit::server::Server;
use kit::wait::join_all;

cases! {
    holds_pollers_and_single_calls,
    the_agent_is_called_once_and_before_a_hook_ends,
    the_agent_is_not_called_at_the_deadline,
    quits_at_zero,
    odd_requests_are_answered,
    ten_thousand_requests_are_answered,
    keeps_its_secret,
}

/// Like `pilot-agent wait`: tries of half a second, and only 200 ends them.
fn polls(gate: SocketAddr, path: &'static str) -> JoinHandle<Outcome<usize>> {
    tokio::spawn(async move {
        let until = Instant::now() + SOON;
        let mut tries = 0;
        while Instant::now() < until {
            tries += 1;
            if let Ok(Ok(answer)) =
                timeout(Duration::from_millis(500), once(gate, &Request::get(path))).await
                && answer.status == 200
            {
                return Ok(tries);
            }
            sleep(Duration::from_millis(100)).await;
        }
        bail!("no 200 on {path} within {SOON:?}")
    })
}

async fn holds_pollers_and_single_calls(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, r#"{"quiet_ms": 300}"#).await?;
    let mut client = bench.held("a").await?;
    let pollers = [
        polls(bench.gate, "/prestop"),
        polls(bench.gate, "/ready"),
        polls(bench.gate, "/prestop?wait"),
    ];
    let single = bench.hook();
    sleep(Duration::from_secs(2)).await;
    ensure!(
        !single.is_finished() && pollers.iter().all(|poller| !poller.is_finished()),
        "all are held"
    );
    bench.release("a", &mut client).await?;
    for poller in pollers {
        ensure!(poller.await?? >= 3, "several tries");
    }
    single.await??.expect(200)?;
    same(&bench.status().await?, "state", "drained")?;
    bench.envoy.wait_for_stat(WAITING, 0, SOON).await
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

async fn the_agent_is_not_called_at_the_deadline(lab: &Lab) -> Outcome {
    let agent = Agent::start().await?;
    let bench = agent.bench(lab, 1_500).await?;
    let mut client = bench.held("a").await?;
    same(&bench.hook().await??.expect(200)?.json()?, "state", "expired")?;
    bench.release("a", &mut client).await?;
    bench.get("/prestop?wait").await?.expect(200)?;
    sleep(Duration::from_secs(1)).await;
    ensure_eq!(agent.asked(), 0, "calls to the agent");
    Ok(())
}

async fn quits_at_zero(lab: &Lab) -> Outcome {
    let mut bench = Bench::set(lab, r#"{"quiet_ms": 300, "finish": "quit"}"#).await?;
    let mut client = bench.held("a").await?;
    bench.post("/drain").await?.expect(202)?;
    sleep(Duration::from_secs(1)).await;
    ensure!(bench.envoy.is_alive(), "Envoy lives as long as a stream does");
    bench.release("a", &mut client).await?;
    bench.envoy.exited(SOON).await?;
    Ok(())
}

/// Requests and their statuses; `…` stands for a query that is far too long.
/// `interface::matches_its_openapi_description` tries all methods and other paths.
const QUESTIONS: [(&str, &str, u16); 8] = [
    ("GET", "//status", 404),
    ("GET", "/prestop?wait=99999999999999999999", 400),
    ("GET", "/streams?limit=101", 400),
    ("GET", "/streams?limit=-1", 400),
    ("POST", "/force?reason=%20", 400),
    ("GET", "/status?a=%ff%00&&==&wait", 200),
    ("GET", "/ready?%", 503),
    ("GET", "/status?…", 404),
];

async fn odd_requests_are_answered(lab: &Lab) -> Outcome {
    let mut bench = Bench::set(lab, "{}").await?;
    let long = "x=%zz&".repeat(2_000);
    for (method, path, expected) in QUESTIONS {
        let path = &path.replace('…', &long);
        let answer = once(bench.gate, &Request::new(method, path)).await?;
        let told = path.chars().take(40).collect::<String>();
        ensure_eq!(answer.status, expected, "{method} {told}: {}", answer.text());
        ensure!(answer.json()?["state"] == "serving", "{method} {told}: {}", answer.text());
    }
    let head = once(bench.gate, &Request::new("HEAD", "/status")).await?.expect(200)?;
    ensure!(head.body.is_empty(), "HEAD has no body");
    same(&bench.status().await?, "state", "serving")?;
    bench.envoy.wait_for_stat(WAITING, 0, SOON).await?;
    ensure!(bench.envoy.is_alive(), "Envoy lives");
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

async fn keeps_its_secret(lab: &Lab) -> Outcome {
    const SECRET: &str = "open-sesame-0123456789";
    let bench = Bench::set(lab, &format!(r#"{{"quiet_ms": 300, "secret": "{SECRET}"}}"#)).await?;
    let with = |method: &str, path: &str, secret: &str| {
        Request::new(method, path).header("x-laststream-secret", secret)
    };
    let wrong = &SECRET[..SECRET.len() - 1];
    for (method, path) in [
        ("POST", "/drain"),
        ("GET", "/prestop"),
        ("DELETE", "/drain"),
        ("POST", "/force?reason=x"),
        ("POST", "/quitquitquit"),
        ("POST", "/drain_listeners?graceful"),
        ("GET", "/streams"),
    ] {
        refuses(&bench, &Request::new(method, path)).await?;
        refuses(&bench, &with(method, path, wrong)).await?;
        refuses(&bench, &with(method, path, "")).await?;
    }
    let status = bench.get("/status").await?.expect(200)?;
    same(&status.json()?, "state", "serving")?;
    bench.get("/ready").await?.expect(503)?;
    once(bench.gate, &with("POST", "/drain", SECRET)).await?.expect(202)?;
    let after = bench.until("state", "drained").await?.to_string();
    ensure!(
        ![status.text(), after, bench.envoy.log()].iter().any(|text| text.contains(wrong)),
        "the secret was told"
    );
    Ok(())
}

async fn refuses(bench: &Bench, request: &Request) -> Outcome {
    once(bench.gate, request).await?.expect(403).map(drop)
}
