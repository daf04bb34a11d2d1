//! The course and the end of a drain: begun twice, cancelled, delayed, forced, expired,
//! reconfigured.

use tokio::time::sleep;

use super::bench::{
    Bench, SOON, WAITING, bootstrap, gate_filter, gate_listener_with, main_listener, same,
};
use crate::lab::{Lab, cases};
use kit::prelude::*;
use kit::xds::Xds;

cases! {
    cancels_a_drain_and_begins_again,
    a_cancel_after_a_drain_undoes_its_call_to_envoy,
    the_answer_names_what_envoy_cannot_undo,
    opens_by_force_and_says_why,
    opens_at_the_deadline,
    keeps_a_drain_over_a_new_configuration,
}

async fn cancels_a_drain_and_begins_again(lab: &Lab) -> Outcome {
    let bench =
        Bench::set(lab, r#"{"quiet_ms": 300, "begin": {"call": "fail_health_checks"}}"#).await?;
    let mut client = bench.held("a").await?;
    let waiter = bench.hook();
    bench.until("begin", "done").await?;
    let first = bench.status().await?;
    bench.post("/drain").await?.expect(202)?;
    bench.get("/prestop").await?.expect(503)?;
    let second = bench.status().await?;
    ensure!(
        second["draining_ms"].as_u64() >= first["draining_ms"].as_u64(),
        "the second drain is the first: {second}"
    );
    ensure_eq!(connection_header(&bench).await?, Some("close".into()), "while draining");
    bench.delete("/drain").await?.expect(200)?;
    same(&bench.status().await?, "state", "serving")?;
    ensure_eq!(connection_header(&bench).await?, None, "after it was cancelled");
    bench.delete("/drain").await?.expect(200)?;
    sleep(Duration::from_millis(500)).await;
    ensure!(!waiter.is_finished(), "the hook still waits");
    bench.post("/drain").await?.expect(202)?;
    bench.until("begin", "done").await?;
    bench.release("a", &mut client).await?;
    same(&waiter.await??.expect(200)?.json()?, "state", "drained")?;
    bench.delete("/drain").await?.expect(200)?;
    same(&bench.status().await?, "state", "serving")?;
    bench.get("/ready").await?.expect(503)?;
    Ok(())
}

async fn a_cancel_after_a_drain_undoes_its_call_to_envoy(lab: &Lab) -> Outcome {
    let gate = r#"{"quiet_ms": 300, "deadline_ms": 1000, "begin": {"call": "fail_health_checks"}}"#;
    let bench = Bench::set(lab, gate).await?;
    bench.post("/drain").await?.expect(202)?;
    bench.until("begin", "done").await?;
    bench.until("state", "serving").await?;
    let close = Some("close".into());
    ensure_eq!(connection_header(&bench).await?, close, "Envoy still knows what it was told");
    let undone = bench.delete("/drain").await?.expect(200)?.json()?;
    same(&undone, "reason", "the drain was over already; Envoy's health checks answer as before")?;
    ensure_eq!(connection_header(&bench).await?, None, "after it was undone");
    same(&bench.delete("/drain").await?.expect(200)?.json()?, "reason", "there is no drain")
}

/// The header `connection` of an answer. With `close` Envoy asks a client to leave.
async fn connection_header(bench: &Bench) -> Outcome<Option<String>> {
    Ok(once(bench.main, &Request::get("/echo")).await?.expect(200)?.header("connection"))
}

async fn the_answer_names_what_envoy_cannot_undo(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, r#"{"quiet_ms": 300, "begin": {"delay_ms": 1500}}"#).await?;
    let mut client = bench.held("a").await?;
    bench.post("/drain").await?.expect(202)?;
    same(&bench.status().await?, "begin", "due")?;
    ensure_eq!(
        once(bench.main, &Request::get("/echo")).await?.expect(200)?.header("connection"),
        None,
        "while the delay lasts"
    );
    bench.delete("/drain").await?.expect(200)?;
    same(&bench.status().await?, "state", "serving")?;
    bench.post("/drain").await?.expect(202)?;
    let status = bench.until("begin", "done").await?;
    ensure!(status["draining_ms"].as_u64() >= Some(1_500), "begun after the delay: {status}");
    let answer = bench.delete("/drain").await?.expect(200)?.json()?;
    same(&answer, "state", "serving")?;
    ensure!(
        answer["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("cannot undrain its listeners")),
        "{answer}"
    );
    let echo = once(bench.main, &Request::get("/echo")).await?.expect(200)?;
    ensure_eq!(
        echo.header("connection"),
        Some("close".into()),
        "Envoy still tells clients to leave"
    );
    bench.release("a", &mut client).await?;
    let nothing = Bench::set(lab, r#"{"quiet_ms": 300, "begin": {"call": "nothing"}}"#).await?;
    nothing.post("/drain").await?.expect(202)?;
    nothing.delete("/drain").await?.expect(200)?;
    same(&nothing.status().await?, "state", "serving")
}

async fn opens_by_force_and_says_why(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, "{}").await?;
    let mut client = bench.held("a").await?;
    let waiters: Vec<_> = (0..6).map(|_| bench.hook()).collect();
    bench.envoy.wait_for_stat(WAITING, 6, SOON).await?;
    bench.post("/force").await?.expect(400)?;
    bench.post("/force?reason=the+app+is+gone%0Aand+so+on").await?.expect(200)?;
    for waiter in waiters {
        let body = waiter.await??.expect(200)?.json()?;
        same(&body, "state", "forced")?;
        same(&body, "reason", "forced: the app is gone and so on")?;
        same(&body, "holding", 1)?;
    }
    same(&bench.status().await?, "state", "forced")?;
    let line = bench.envoy.wait_for_log("forced open: the app is gone and so on", SOON).await?;
    ensure!(line.contains("[critical]"), "{line}");
    bench.post("/drain_listeners?inboundonly").await?.expect(200)?;
    bench.release("a", &mut client).await?;
    Ok(())
}

async fn opens_at_the_deadline(lab: &Lab) -> Outcome {
    let bench =
        Bench::set(lab, r#"{"quiet_ms": 300, "deadline_ms": 2000, "finish": "quit"}"#).await?;
    let mut client = bench.held("a").await?;
    let waiters: Vec<_> = (0..6).map(|_| bench.hook()).collect();
    for waiter in waiters {
        same(&waiter.await??.expect(200)?.json()?, "state", "expired")?;
    }
    kept(&bench, 2_000).await?;
    sleep(Duration::from_millis(500)).await;
    same(&bench.status().await?, "finish", "due")?;
    bench.release("a", &mut client).await?;
    Ok(())
}

/// The drain ended at the deadline and not before it, by the gate's own clock.
pub(super) async fn kept(bench: &Bench, deadline: u64) -> Outcome {
    let status = bench.until("state", "expired").await?;
    let took = status["draining_ms"].as_u64().unwrap_or_default();
    ensure!(took >= deadline, "{took} ms for a deadline of {deadline}: {status}");
    Ok(())
}

async fn keeps_a_drain_over_a_new_configuration(lab: &Lab) -> Outcome {
    let xds = Xds::new()?;
    let gate = |gate: &str| gate_filter(lab, gate)["typed_config"].take();
    xds.write_filter("gate", &gate(r#"{"quiet_ms": 300, "deadline_ms": 60000}"#))?;
    let upstream = Upstream::start().await?;
    let bootstrap = bootstrap(&upstream)
        .listener(main_listener(lab))
        .listener(gate_listener_with("gate", filters::discovered("gate", &xds)));
    let options = Options { drain_time_s: Some(600), ..Options::default() };
    let bench = Bench::start(lab, upstream, bootstrap, options).await?;
    let mut client = bench.held("a").await?;
    let before: Vec<_> = (0..6).map(|_| bench.hook()).collect();
    bench.envoy.wait_for_stat(WAITING, 6, SOON).await?;
    let longer = gate(r#"{"quiet_ms": 300, "deadline_ms": 90000}"#);
    xds.replace_filter(&bench.envoy, "gate", &longer).await?.accepted()?;
    let status = bench.until("state", "draining").await?;
    let is_kept = status["deadline_in_ms"].as_u64().is_some_and(|left| left <= 60_000);
    ensure!(is_kept, "not moved away: {status}");
    let after: Vec<_> = (0..6).map(|_| bench.hook()).collect();
    bench.envoy.wait_for_stat(WAITING, 12, SOON).await?;
    xds.replace_filter(&bench.envoy, "gate", &gate(r#"{"quiet_ms": 300, "deadline_ms": 5000}"#))
        .await?
        .accepted()?;
    for waiter in before.into_iter().chain(after) {
        same(&waiter.await??.expect(200)?.json()?, "state", "expired")?;
    }
    let status = bench.until("state", "expired").await?;
    let is_shorter = status["draining_ms"].as_u64().is_some_and(|took| took < 60_000);
    ensure!(is_shorter, "shortened: {status}");
    bench.release("a", &mut client).await?;
    Ok(())
}
