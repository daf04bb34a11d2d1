//! Many hooks wait at once, over both protocols and on both workers. Each client that stays gets
//! one answer after the last stream has ended, long before the deadline.

use ::h2::Reason;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::bench::{Bench, SOON, WAITING, same};
use crate::lab::{Lab, cases};
use kit::h2;
use kit::prelude::*;
use kit::wait::join_all;

cases! {
    two_thousand_hooks_are_answered,
    ten_thousand_requests_are_answered,
}

const HOOKS: usize = 2_000;
const STREAMS_ON_A_CONNECTION: usize = 50;

async fn two_thousand_hooks_are_answered(lab: &Lab) -> Outcome {
    let mut bench = Bench::set(lab, r#"{"quiet_ms": 300, "deadline_ms": 90000}"#).await?;
    let mut client = bench.held("a").await?;
    let mut crowd = Crowd::gather(&bench, HOOKS).await?;
    bench.envoy.wait_for_stat(WAITING, HOOKS as u64, SOON).await?;
    let left = crowd.lose_some()?;
    bench.envoy.wait_for_stat(WAITING, left as u64, SOON).await?;
    for worker in ["worker_0", "worker_1"] {
        let stats = bench.envoy.stats().await?;
        let connections: u64 = stats
            .iter()
            .filter(|(name, _)| name.ends_with(&format!("{worker}.downstream_cx_total")))
            .map(|(_, n)| n)
            .sum();
        ensure!(connections >= 3, "{worker} has {connections} connections");
    }
    bench.release("a", &mut client).await?;
    ensure_eq!(crowd.answers().await?, left, "answers");
    bench.envoy.wait_for_stat(WAITING, 0, SOON).await?;
    wait_for(SOON, "a fresh zero", async || bench.get("/ready").await?.expect(200)).await?;
    ensure!(bench.envoy.is_alive(), "Envoy lives");
    Ok(())
}

#[derive(Default)]
struct Crowd {
    one: Vec<Client>,
    two: Vec<h2::Stream>,
    connections: Vec<h2::Client>,
}

impl Crowd {
    /// Half of the waiters use each protocol.
    async fn gather(bench: &Bench, count: usize) -> Outcome<Self> {
        let mut crowd = Self::default();
        for number in 0..count / 2 {
            let mut client = Client::connect(bench.gate).await?;
            client.send(&Request::get("/prestop?wait").bytes()).await?;
            crowd.one.push(client);
            if number % STREAMS_ON_A_CONNECTION == 0 || crowd.connections.len() < 4 {
                crowd.connections.push(h2::Client::connect(bench.gate).await?);
            }
            let turn = number % crowd.connections.len();
            let connection = crowd.connections.get_mut(turn).context("a connection")?;
            crowd.two.push(connection.open(h2::get("/prestop?wait"), true).await?);
        }
        Ok(crowd)
    }

    /// Every fifth waiter leaves, half of those over HTTP/1 with RST. Returns the number of waiters
    /// that stay.
    fn lose_some(&mut self) -> Outcome<usize> {
        for (number, client) in self.one.extract_if(.., fifth()).enumerate() {
            if number % 2 == 0 {
                client.reset()?;
            }
        }
        self.two.extract_if(.., fifth()).for_each(|stream| stream.reset(Reason::CANCEL));
        Ok(self.one.len() + self.two.len())
    }

    /// The number of answers, of which each client gets one.
    async fn answers(self) -> Outcome<usize> {
        let mut answers = JoinSet::new();
        for mut client in self.one {
            answers.spawn(async move {
                let body = client.response("GET").await?.expect(200)?.json()?;
                let more = timeout(Duration::from_millis(200), client.wire.fill()).await;
                ensure!(!matches!(more, Ok(Ok(true))), "an answer after the answer");
                same(&body, "state", "drained")
            });
        }
        for stream in self.two {
            answers.spawn(async move {
                same(&stream.response().await?.expect(200)?.json()?, "state", "drained")
            });
        }
        Ok(join_all(answers).await?.len())
    }
}

fn fifth<T>() -> impl FnMut(&mut T) -> bool {
    let mut number = 0;
    move |_| {
        number += 1;
        number % 5 == 0
    }
}

/// While another client uses the data path.
async fn ten_thousand_requests_are_answered(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, "{}").await?;
    bench.until("count", "exact").await?;
    let mut askers = JoinSet::new();
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
    let mut client = Client::connect(bench.main).await?;
    let all_are_answered = tokio::spawn(join_all(askers));
    while !all_are_answered.is_finished() {
        client.get("/echo").await?.expect(200)?;
    }
    all_are_answered.await??;
    bench.envoy.wait_for_stat(WAITING, 0, SOON).await?;
    bench.until("count", "exact").await.map(drop)
}
