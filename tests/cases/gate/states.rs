//! A drain that is cancelled or delayed, and what Envoy cannot undo.

use super::bench::{Bench, same, says};
use crate::lab::{Lab, cases};
use kit::prelude::*;

cases! {
    a_cancel_after_a_drain_undoes_its_call_to_envoy,
    the_answer_names_what_envoy_cannot_undo,
}

async fn a_cancel_after_a_drain_undoes_its_call_to_envoy(lab: &Lab) -> Outcome {
    let gate = r#"{"quiet_ms": 300, "deadline_ms": 1000, "begin": {"call": "fail_health_checks"}}"#;
    let bench = Bench::set(lab, gate).await?;
    bench.post("/drain").await?.expect(202)?;
    bench.until("begin", "done").await?;
    bench.until("state", "serving").await?;
    let close = Some("close".into());
    ensure_eq!(connection_header(bench.main).await?, close, "Envoy still knows what it was told");
    let undone = bench.delete("/drain").await?.expect(200)?.json()?;
    same(&undone, "reason", "the drain was over already; Envoy's health checks answer as before")?;
    ensure_eq!(connection_header(bench.main).await?, None, "after it was undone");
    same(&bench.delete("/drain").await?.expect(200)?.json()?, "reason", "there is no drain")
}

/// The header `connection` of an answer. With `close` Envoy asks a client to leave.
pub(super) async fn connection_header(at: SocketAddr) -> Outcome<Option<String>> {
    Ok(once(at, &Request::get("/echo")).await?.expect(200)?.header("connection"))
}

async fn the_answer_names_what_envoy_cannot_undo(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, r#"{"quiet_ms": 300, "begin": {"delay_ms": 1500}}"#).await?;
    let mut client = bench.held("a").await?;
    bench.post("/drain").await?.expect(202)?;
    same(&bench.status().await?, "begin", "due")?;
    ensure_eq!(connection_header(bench.main).await?, None, "while the delay lasts");
    bench.delete("/drain").await?.expect(200)?;
    same(&bench.status().await?, "state", "serving")?;
    bench.post("/drain").await?.expect(202)?;
    let status = bench.until("begin", "done").await?;
    ensure!(status["draining_ms"].as_u64() >= Some(1_500), "begun after the delay: {status}");
    let answer = bench.delete("/drain").await?.expect(200)?.json()?;
    same(&answer, "state", "serving")?;
    says(&answer, "reason", "cannot undrain its listeners")?;
    let close = Some("close".into());
    ensure_eq!(connection_header(bench.main).await?, close, "Envoy still tells clients to leave");
    bench.release("a", &mut client).await?;
    let nothing = Bench::set(lab, r#"{"quiet_ms": 300, "begin": {"call": "nothing"}}"#).await?;
    nothing.post("/drain").await?.expect(202)?;
    nothing.delete("/drain").await?.expect(200)?;
    same(&nothing.status().await?, "state", "serving")
}

/// The drain ended at the deadline and not before it, by the gate's own clock.
pub(super) async fn kept(bench: &Bench, deadline: u64) -> Outcome {
    let status = bench.until("state", "expired").await?;
    let took = status["draining_ms"].as_u64().unwrap_or_default();
    ensure!(took >= deadline, "{took} ms for a deadline of {deadline}: {status}");
    Ok(())
}
