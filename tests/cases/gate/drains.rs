//! A drain from its beginning to its end.

use tokio::time::{sleep, timeout};

use super::bench::{Bench, SOON, same};
use crate::cases::stage::hcm;
use crate::lab::{Lab, cases};
use kit::fake_server::{Answer, Asked, FakeServer};
use kit::h2;
use kit::prelude::*;

cases! {
    holds_until_the_last_stream_is_out,
    idle_connections_do_not_hold,
    http2_clients_are_asked_to_leave,
    begins_again_when_envoy_fails,
    the_log_shows_why_the_gate_waits,
}

async fn holds_until_the_last_stream_is_out(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, r#"{"quiet_ms": 300}"#).await?;
    let mut client = bench.held("a").await?;
    let waiter = bench.hook();
    bench.until("state", "draining").await?;
    bench.until("begin", "done").await?;
    bench.post("/quitquitquit").await?.expect(503)?;
    bench.get("/prestop").await?.expect(503)?;
    once(bench.main, &Request::get("/echo")).await?.expect(200)?;
    ensure!(!waiter.is_finished(), "the hook is held");
    bench.release("a", &mut client).await?;
    let answer = waiter.await??.expect(200)?;
    ensure_eq!(answer.json()?["state"], "drained", "{}", answer.text());
    let status = bench.until("state", "drained").await?;
    same(&status, "late", 1)?;
    bench.get("/ready").await?.expect(200)?;
    Ok(())
}

async fn idle_connections_do_not_hold(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, r#"{"quiet_ms": 300}"#).await?;
    let mut one = Client::connect(bench.main).await?;
    one.get("/echo").await?.expect(200)?;
    let mut two = h2::Client::connect(bench.main).await?;
    two.get("/echo").await?.expect(200)?;
    same(&bench.get("/prestop?wait").await?.expect(200)?.json()?, "state", "drained")?;
    ensure_eq!(
        bench.envoy.stat("http.main.downstream_cx_active").await?,
        Some(2),
        "both connections are still there"
    );
    Ok(())
}

async fn http2_clients_are_asked_to_leave(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, r#"{"quiet_ms": 300}"#).await?;
    let mut client = h2::Client::connect(bench.main).await?;
    client.get("/echo").await?.expect(200)?;
    bench.post("/drain").await?.expect(202)?;
    bench.until("begin", "done").await?;
    client.get("/echo").await?.expect(200)?;
    let ended = timeout(SOON, client.ended()).await;
    ensure!(ended.is_ok(), "the connection ends after the next answer");
    Ok(())
}

async fn begins_again_when_envoy_fails(lab: &Lab) -> Outcome {
    let admin = FakeServer::start(|_, _| Ok(Answer::new(500)))?;
    let bootstrap = Bootstrap::new().cluster(cluster::h1("troubled", admin.address));
    let gate = r#"{"quiet_ms": 300, "admin": {"cluster": "troubled"}}"#;
    let bench = Bench::upon(bootstrap, lab, gate, hcm(lab, "{}")).await?;
    bench.post("/drain").await?.expect(202)?;
    bench.until("begin", "failed").await?;
    let begins = |asked: &Asked| asked.line() == "POST /drain_listeners?graceful&skip_exit";
    ensure_eq!(admin.asked().into_iter().filter(begins).count(), 3, "calls");
    Ok(())
}

async fn the_log_shows_why_the_gate_waits(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, r#"{"quiet_ms": 300}"#).await?;
    let mut client = bench.held("a").await?;
    bench.post("/drain").await?.expect(202)?;
    bench.post("/drain").await?.expect(202)?;
    sleep(Duration::from_millis(2_500)).await;
    bench.release("a", &mut client).await?;
    bench.until("state", "drained").await?;
    let seconds = bench.status().await?["draining_ms"].as_u64().unwrap_or_default() / 1_000 + 1;
    let log = bench.envoy.log();
    let lines = |text: &str| log.lines().filter(|line| line.contains(text)).count() as u64;
    ensure_eq!(lines("the drain begins: "), 1, "lines at the beginning");
    ensure_eq!(lines("the drain ends: drained after "), 1, "lines at the end");
    let waits = lines("draining: 1 stream is in flight");
    ensure!((1..=seconds).contains(&waits), "{waits} lines say why in {seconds} seconds");
    Ok(())
}
