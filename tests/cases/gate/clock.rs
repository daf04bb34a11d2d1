//! Steps of the wall clock, as by NTP, a resumed virtual machine or a live migration: no time of
//! the gate depends on them.

use super::bench::{Bench, SOON, bootstrap, gate_listener, main_listener, options, same};
use super::watch::{lets_nothing_out, opens};
use crate::lab::{Lab, cases};
use kit::clock::WallClock;
use kit::prelude::*;

cases! {
    a_step_forward_ends_no_drain,
    a_step_back_prolongs_no_drain,
}

/// Longer than every deadline that a step could end.
const STEP: i64 = 120;

struct Clocked {
    bench: Bench,
    clock: WallClock,
}

impl Clocked {
    async fn set(lab: &Lab, gate: &str) -> Outcome<Self> {
        let clock = WallClock::new()?;
        let upstream = Upstream::start().await?;
        let bootstrap =
            bootstrap(&upstream).listener(main_listener(lab)).listener(gate_listener(lab, gate));
        let options = Options { under: clock.under(), ..options() };
        let bench = Bench::start(lab, upstream, bootstrap, options).await?;
        bench.until("count", "exact").await?;
        Ok(Self { bench, clock })
    }

    /// Steps the clock and waits until Envoy's answers carry the new date.
    async fn step(&self, seconds: i64) -> Outcome {
        let before = self.second_of_the_day().await?;
        self.clock.step(seconds)?;
        wait_for(SOON, "another date of Envoy's answers", async || {
            let moved = (self.second_of_the_day().await? - before).rem_euclid(DAY);
            ensure!(
                (moved - seconds.rem_euclid(DAY)).abs() < 30,
                "the date has moved by {moved} s"
            );
            Ok(())
        })
        .await
    }

    /// The second of the day in the header `date`, such as `Sun, 22 Nov 2026 05:35:41 GMT`.
    async fn second_of_the_day(&self) -> Outcome<i64> {
        let date = self.bench.get("/status").await?.header("date").context("a date")?;
        let time = date.split(' ').nth(4).with_context(|| format!("the time in {date}"))?;
        let numbers = time.split(':').map(str::parse).collect::<Result<Vec<i64>, _>>()?;
        Ok(numbers.iter().fold(0, |sum, number| sum * 60 + number))
    }
}

const DAY: i64 = 86_400;

/// A drain with a request in flight, and the step in the middle of it.
async fn draining(lab: &Lab, gate: &str, step: i64) -> Outcome<(Clocked, Client)> {
    let clocked = Clocked::set(lab, gate).await?;
    let client = clocked.bench.held("a").await?;
    clocked.bench.post("/drain").await?.expect(202)?;
    clocked.bench.until("begin", "done").await?;
    clocked.step(step).await?;
    Ok((clocked, client))
}

async fn a_step_forward_ends_no_drain(lab: &Lab) -> Outcome {
    let (Clocked { bench, .. }, client) =
        &mut draining(lab, r#"{"quiet_ms": 300, "deadline_ms": 80000}"#, STEP).await?;
    let status = bench.status().await?;
    same(&status, "state", "draining")?;
    ensure!(status["deadline_in_ms"].as_u64() > Some(30_000), "most of the time is left: {status}");
    lets_nothing_out(bench, 8).await?;
    bench.release("a", client).await?;
    opens(bench).await
}

async fn a_step_back_prolongs_no_drain(lab: &Lab) -> Outcome {
    let (Clocked { bench, .. }, client) =
        &mut draining(lab, r#"{"quiet_ms": 300, "deadline_ms": 4000}"#, -STEP).await?;
    let answer = bench.get("/prestop?wait").await?.expect(200)?.json()?;
    same(&answer, "state", "expired")?;
    bench.release("a", client).await?;
    Ok(())
}
