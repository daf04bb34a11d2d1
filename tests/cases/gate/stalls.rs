//! A worker stands still in the life of a stream: at its end, after Envoy's own count went down and
//! before the filter's, or at its beginning, before the filter's count goes up. The client has no
//! answer yet, so nothing may get out meanwhile. The module for tests stands still on request.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures_util::future::try_join_all;
use tokio::time::{Instant, sleep};

use super::bench::{Bench, COUNTERS, SOON, same};
use super::deaths::with_test_deaths;
use super::watch::opens;
use crate::cases::stage::{ACTIVE, IN_FLIGHT, hcm};
use crate::lab::{Lab, cases};
use kit::admin_proxy::{AdminFault, AdminProxy, CallHandling};
use kit::prelude::*;

cases! {
    nothing_gets_out_while_a_worker_stalls_at_an_end => |lab| stalls_at_an_end(lab, 3_000),
    nothing_gets_out_in_a_long_stall_at_an_end => |lab| stalls_at_an_end(lab, 6_000),
    nothing_gets_out_while_a_worker_stalls_at_a_beginning,
    a_gauge_below_zero_is_corrected,
}

const GATE: &str = r#"{"quiet_ms": 300, "deadline_ms": 90000, "begin": {"call": "nothing"}}"#;
/// The ways out, and the status, which shows one.
const WAYS: [(&str, &str); 4] = [
    ("GET", "/ready"),
    ("GET", "/prestop?wait=500ms"),
    ("POST", "/quitquitquit"),
    ("GET", "/status"),
];
/// Connections for each of them: some reach the worker that does not stand still.
const CONNECTIONS: usize = 12;
const PAUSE: Duration = Duration::from_millis(200);
/// An answer that is there reaches its client within this time.
const GRACE: Duration = Duration::from_millis(200);
/// A gauge below zero is printed above this.
const MOST: u64 = i64::MAX as u64;

/// A gate whose quit signals are recorded and refused, so that Envoy lives.
struct Trial {
    bench: Bench,
    quits: Arc<Mutex<Vec<Instant>>>,
    _proxy: AdminProxy,
}

impl Trial {
    async fn set(lab: &Lab) -> Outcome<Self> {
        let (lab, quits) = (with_test_deaths(lab)?, Arc::<Mutex<Vec<Instant>>>::default());
        let seen = Arc::clone(&quits);
        let judge = move |_: &str, path: &str| {
            if !path.starts_with("/quitquitquit") {
                return CallHandling::Forward;
            }
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
            CallHandling::Fault(AdminFault::Unavailable(Duration::ZERO))
        };
        let main = hcm(&lab, "{}");
        let (bench, _proxy) = Bench::proxied(Bootstrap::new(), &lab, GATE, main, judge).await?;
        bench.until("counters", COUNTERS).await?;
        bench.until("count", "exact").await?;
        Ok(Self { bench, quits, _proxy })
    }

    /// The client gets its answer after the stall. Nothing gets out before it.
    async fn lets_nothing_out(&self, client: Client) -> Outcome {
        let waiting = Waiting::default();
        let (answered, ()) = tokio::try_join!(
            waiting.for_answer(client),
            waiting.lets_nothing_out(self.bench.gate)
        )?;
        let quits = self.quits.lock().unwrap_or_else(PoisonError::into_inner);
        let early = quits.iter().filter(|at| **at + GRACE < answered).count();
        ensure_eq!(early, 0, "quit signals that passed while a client waited");
        Ok(())
    }
}

/// A request whose worker stands still as the header says.
async fn stalling(bench: &Bench, header: &str, millis: u64) -> Outcome<Client> {
    let mut client = Client::connect(bench.main).await?;
    let request = Request::get("/hold/a").header(header, millis.to_string());
    client.send(&request.bytes()).await?;
    Ok(client)
}

/// A client that waits until it has its answer.
#[derive(Default)]
struct Waiting(OnceLock<Instant>);

impl Waiting {
    fn is_true(&self) -> bool {
        self.0.get().is_none()
    }

    /// The client of the stream. It gets its answer after the stall.
    async fn for_answer(&self, mut client: Client) -> Outcome<Instant> {
        let answer = client.response("GET").await;
        let answered = *self.0.get_or_init(Instant::now);
        answer?.expect(200).map(|_| answered)
    }

    /// All ways out are tried on both workers, again and again as long as the client waits. A
    /// worker that stands still answers afterwards.
    async fn lets_nothing_out(&self, gate: SocketAddr) -> Outcome {
        let clients = (0..CONNECTIONS * WAYS.len()).map(|_| Client::connect(gate));
        let asked = try_join_all(clients).await?.into_iter().zip(WAYS.into_iter().cycle());
        let counts = try_join_all(asked.map(|(client, way)| self.asks(client, way))).await?;
        let of_way = |way| counts.iter().skip(way).step_by(WAYS.len()).sum::<usize>();
        let answers: Vec<_> = (0..WAYS.len()).map(|way| (WAYS[way].1, of_way(way))).collect();
        say(&format!("answers in the stall: {answers:?}"));
        ensure!(answers.iter().all(|(_, count)| *count > 0), "answers in the stall: {answers:?}");
        Ok(())
    }

    /// Returns the number of answers before the client's.
    async fn asks(&self, mut gate: Client, (method, path): (&str, &str)) -> Outcome<usize> {
        let mut count = 0;
        while self.is_true() {
            let answer = gate.request(&Request::new(method, path)).await?;
            let opens = match path {
                "/status" => is_plausible(&answer.json()?)?["state"] == "drained",
                _ => answer.status == 200,
            };
            if opens {
                sleep(GRACE).await;
                ensure!(!self.is_true(), "{method} {path} while a client waits: {}", answer.text());
            }
            count += usize::from(self.is_true());
            sleep(PAUSE).await;
        }
        Ok(count)
    }
}

/// The number of streams is not below zero.
fn is_plausible(status: &Value) -> Outcome<&Value> {
    ensure!(status["holding"].as_u64() <= Some(MOST), "a number below zero: {status}");
    Ok(status)
}

async fn stalls_at_an_end(lab: &Lab, millis: u64) -> Outcome {
    let trial = Trial::set(lab).await?;
    let bench = &trial.bench;
    let client = stalling(bench, "x-laststream-stall", millis).await?;
    bench.upstream.wait_held("a", 1, SOON).await?;
    bench.post("/drain").await?.expect(202)?;
    let began = Instant::now();
    bench.upstream.release("a");
    bench.envoy.wait_for_stat(ACTIVE, 0, SOON).await.context("Envoy's end of the stream")?;
    ensure_eq!(bench.envoy.stat(IN_FLIGHT).await?, Some(1), "the filter's count in the stall");
    trial.lets_nothing_out(client).await?;
    ensure!(began.elapsed() >= Duration::from_millis(millis), "no stall: {:?}", began.elapsed());
    is_as_before(bench).await?;
    same(&bench.status().await?, "heals", 0)
}

/// The count is right, and a drain opens: the present one, and a later one.
async fn is_as_before(bench: &Bench) -> Outcome {
    opens(bench).await?;
    ensure_eq!(bench.envoy.stat(IN_FLIGHT).await?, Some(0), "streams in flight");
    bench.delete("/drain").await?.expect(200)?;
    opens(bench).await?;
    is_plausible(&bench.status().await?).map(drop)
}

/// Envoy has the request, and the filter does not count it yet. The hook begins the drain.
async fn nothing_gets_out_while_a_worker_stalls_at_a_beginning(lab: &Lab) -> Outcome {
    let trial = Trial::set(lab).await?;
    let bench = &trial.bench;
    let client = stalling(bench, "x-laststream-stall-begin", 4_000).await?;
    bench.envoy.wait_for_stat(ACTIVE, 1, SOON).await?;
    ensure_eq!(bench.envoy.stat(IN_FLIGHT).await?, Some(0), "the filter's count in the stall");
    let goes_on = async {
        bench.upstream.wait_held("a", 1, SOON).await?;
        sleep(Duration::from_secs(1)).await;
        bench.upstream.release("a");
        Ok(())
    };
    tokio::try_join!(goes_on, trial.lets_nothing_out(client))?;
    is_as_before(bench).await?;
    same(&bench.status().await?, "heals", 0)
}

/// A worker is silent for longer than ten seconds, so its counter is taken for dead, and its stream
/// from the count. Then the worker goes on, and takes the stream from the count once more.
async fn a_gauge_below_zero_is_corrected(lab: &Lab) -> Outcome {
    let Trial { bench, _proxy, .. } = Trial::set(lab).await?;
    let client = stalling(&bench, "x-laststream-stall", 14_000).await?;
    bench.upstream.wait_held("a", 1, SOON).await?;
    let waiting = Waiting::default();
    bench.upstream.release("a");
    bench.envoy.wait_for_stat(ACTIVE, 0, SOON).await?;
    // On both workers: those that stand still answer late.
    let asks = (0..CONNECTIONS).map(async |_| {
        let mut heals = 0;
        let mut client = Client::connect(bench.gate).await?;
        while waiting.is_true() {
            let status = client.get("/status").await?.expect(200)?.json()?;
            let seen = is_plausible(&status)?["heals"].as_u64().unwrap_or_default();
            heals = if waiting.is_true() { seen } else { heals };
            sleep(PAUSE).await;
        }
        Outcome::Ok(heals)
    });
    let (heals, _) = tokio::try_join!(try_join_all(asks), waiting.for_answer(client))?;
    let heals = heals.into_iter().max().unwrap_or_default();
    ensure!(heals > 0, "the stream of a worker that is silent for 14 s is taken from the count");
    let asked = Instant::now();
    while bench.envoy.stat(IN_FLIGHT).await? != Some(0) {
        let status = bench.status().await?;
        is_plausible(&status)?;
        ensure!(asked.elapsed() < SOON, "the gauge is still wrong: {status}");
    }
    let after = bench.status().await?;
    ensure!(after["heals"].as_u64() > Some(heals), "the gauge was never below zero: {after}");
    say(&format!("{heals} heals in the stall; the gauge was right {:?} after it", asked.elapsed()));
    bench.until("count", "exact").await?;
    is_as_before(&bench).await
}
