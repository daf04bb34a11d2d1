//! `DELETE /drain` around the last call: it is not sent after the cancellation, or the answer says
//! that it was sent already.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::{Instant, sleep};

use super::bench::{Bench, SOON, same};
use crate::cases::stage::hcm;
use crate::lab::{Lab, cases};
use kit::prelude::*;
use kit::server::Server;

cases! {
    a_cancellation_says_that_the_last_call_is_under_way,
    a_cancellation_at_any_moment_knows_the_last_call,
}

const GATE: &str = r#"{
    "quiet_ms": 300, "deadline_ms": 90000, "begin": {"call": "nothing"}, "finish": "drain_agent"
}"#;
const IS_SENT: &str = "the last call was sent already";

/// A stand-in for Istio's agent that takes its time.
struct Agent {
    server: Server,
    takes: Duration,
    /// The moments at which calls arrived.
    calls: Arc<Mutex<Vec<Instant>>>,
}

impl Agent {
    async fn start(status: u16, takes: Duration) -> Outcome<Self> {
        let calls = Arc::<Mutex<Vec<Instant>>>::default();
        let seen = Arc::clone(&calls);
        let server = Server::answering(move |_| {
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
            async move {
                sleep(takes).await;
                Ok((status, Vec::new()))
            }
        });
        Ok(Self { server: server.await?, takes, calls })
    }

    async fn bench(&self, lab: &Lab) -> Outcome<Bench> {
        let agent = cluster::h1("agent", self.server.address);
        Bench::upon(Bootstrap::new().cluster(agent), lab, GATE, hcm(lab, "{}")).await
    }

    fn calls(&self) -> usize {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Calls, not counting the first ones, that were not answered at that moment or came later.
    fn unanswered(&self, first: usize, at: Instant) -> usize {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls[first..].iter().filter(|arrived| **arrived + self.takes > at).count()
    }
}

async fn a_cancellation_says_that_the_last_call_is_under_way(lab: &Lab) -> Outcome {
    let agent = Agent::start(200, Duration::from_secs(1)).await?;
    let bench = agent.bench(lab).await?;
    bench.post("/drain").await?.expect(202)?;
    wait_for(SOON, "the last call", async || {
        ensure_eq!(agent.calls(), 1, "calls");
        Ok(())
    })
    .await?;
    let answer = bench.delete("/drain").await?.expect(200)?.json()?;
    ensure!(answer["reason"].as_str().is_some_and(|reason| reason.contains(IS_SENT)), "{answer}");
    bench.until("sealed", true).await?;
    same(&bench.status().await?, "state", "serving")?;
    once(bench.main, &Request::get("/echo")).await?.expect(503)?;
    ensure_eq!(agent.calls(), 1, "calls");
    Ok(())
}

/// The agent refuses each call after a while, so that it is tried again and no process ends.
async fn a_cancellation_at_any_moment_knows_the_last_call(lab: &Lab) -> Outcome {
    let agent = Agent::start(503, Duration::from_millis(150)).await?;
    let bench = agent.bench(lab).await?;
    bench.until("count", "exact").await?;
    let (mut sent, mut silent) = (0, 0);
    for round in 0..30 {
        let before = agent.calls();
        bench.post("/drain").await?.expect(202)?;
        sleep(Duration::from_millis(fastrand::u64(280..900))).await;
        let answer = bench.delete("/drain").await?.expect(200)?.json()?;
        let answered = Instant::now();
        let says = answer["reason"].as_str().is_some_and(|reason| reason.contains(IS_SENT));
        sleep(Duration::from_millis(400)).await;
        let unanswered = agent.unanswered(before, answered);
        ensure!(says || unanswered == 0, "round {round}: a call was on its way: {answer}");
        ensure!(!says || agent.calls() > before, "round {round}: no call was sent: {answer}");
        sent += u32::from(says);
        silent += u32::from(!says);
    }
    say(&format!("{sent} answers say that the last call was sent, {silent} do not"));
    ensure!(sent > 0 && silent > 0, "{sent} and {silent} answers");
    Ok(())
}
