//! Many hooks wait at once, over both protocols and on both workers. Each client that stays gets
//! one answer after the last stream has ended, long before the deadline.

use std::time::{Duration, Instant};

use ::h2::Reason;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::bench::{Bench, SOON, WAITING};
use crate::lab::{Lab, cases};
use kit::h2;
use kit::prelude::*;
use kit::wait::join_all;

cases! {
    answers_fifty_waiters => |lab| answers(lab, 50),
    answers_five_hundred_waiters => |lab| answers(lab, 500),
    answers_two_thousand_waiters => |lab| answers(lab, 2_000),
}

const QUIET: Duration = Duration::from_millis(300);
const STREAMS_ON_A_CONNECTION: usize = 50;

async fn answers(lab: &Lab, count: usize) -> Outcome {
    let mut bench = Bench::set(lab, r#"{"quiet_ms": 300, "deadline_ms": 90000}"#).await?;
    let mut client = bench.held("a").await?;
    let mut crowd = Crowd::gather(&bench, count).await?;
    bench.envoy.wait_for_stat(WAITING, count as u64, SOON).await?;
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
    let ended = Instant::now();
    let took = crowd.answers(ended).await?;
    ensure_eq!(took.len(), left, "answers");
    let (first, last) =
        (took.iter().min().context("a first")?, took.iter().max().context("a last")?);
    let after = first.saturating_sub(QUIET).as_millis();
    say(&format!(
        "{count} waiters, {left} stay: first answer {after} ms after the quiet period, the last \
            {:?} later",
        *last - *first
    ));
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

    /// The time from this instant to each answer.
    async fn answers(self, from: Instant) -> Outcome<Vec<Duration>> {
        let mut answers = JoinSet::new();
        for mut client in self.one {
            answers.spawn(async move {
                let body = client.response("GET").await?.expect(200)?.json()?;
                let took = from.elapsed();
                let more = timeout(Duration::from_millis(200), client.wire.fill()).await;
                ensure!(!matches!(more, Ok(Ok(true))), "an answer after the answer");
                ensure_eq!(body["state"], "drained", "{body}");
                Ok(took)
            });
        }
        for stream in self.two {
            answers.spawn(async move {
                let body = stream.response().await?.expect(200)?.json()?;
                ensure_eq!(body["state"], "drained", "{body}");
                Ok(from.elapsed())
            });
        }
        join_all(answers).await
    }
}

fn fifth<T>() -> impl FnMut(&mut T) -> bool {
    let mut number = 0;
    move |_| {
        number += 1;
        number % 5 == 0
    }
}
