//! M4b: the EnvoyFilter is put on a busy gateway, and deleted again.

use std::time::Instant;

use super::stage::{IN_FLIGHT, LONGER_THAN_QUIET, Stage, WITNESS};
use crate::agent::Agent;
use crate::seen::row;
use kit::prelude::*;

const HELD: usize = 3;
/// The requests last over changes that replace the listener, however long the changes take.
const LONG_DRAIN: (&str, &str) = ("proxy.istio.io/config", "drainDuration: 600s");
const DEADLINE: Duration = Duration::from_secs(6);
/// Drains that the deadline has ended.
const EXPIRED: &str = "wasmcustom.laststream_gate_expired_total";

/// With the rendered annotation, Envoy's own count is the second witness.
pub(super) async fn with_a_witness() -> Outcome {
    let stage = Stage::new("m4b-witness").await?;
    stage.apply(&stage.gateway_objects()?).await?;
    let policy = stage.gateway_policy("drain: {longest_request: 600s}\n");
    let rendered = stage.render(&["proxy-config"], &policy)?;
    ensure!(
        rendered.contains(&format!("{}: \"{}\"", WITNESS.0, WITNESS.1)),
        "what is rendered: {rendered}"
    );
    let agent = stage.gateway(&[WITNESS, LONG_DRAIN]).await?;
    stage.answers(200).await?;
    taken_away(&stage, &agent, &policy).await?;
    // Put the EnvoyFilter again over uncounted requests, then begin a drain.
    let held = stage.held(HELD).await?;
    stage.put(&policy).await?;
    // The gate answers before Envoy has answered its first query.
    wait_for(PATIENCE, "Envoy's own count", async || {
        let status = stage.status().await?;
        let is_known = status["envoy_active"].as_u64().is_some_and(|active| active >= HELD as u64);
        ensure!(status["count"] == "partial" && is_known, "{status}");
        Ok(())
    })
    .await?;
    let status = stage.held_drain(LONGER_THAN_QUIET).await?;
    let reason = status["reason"].as_str().unwrap_or_default().to_owned();
    stage.answered(held).await?;
    stage.status_with("state", "drained").await?;
    row(
        "M4b",
        "on a busy gateway with the rendered annotation, then a drain",
        format!("{HELD} uncounted requests held it (“{reason}”), all 200; then drained"),
    );
    stage.nothing_refused()
}

/// Without the annotation the gate does not know about those requests, so it holds until the
/// deadline.
pub(super) async fn without_a_witness() -> Outcome {
    let stage = Stage::new("m4b-blind").await?;
    stage.apply(&stage.gateway_objects()?).await?;
    let drain =
        format!("{{deadline: {}s, grace_period: 20s, finish: nothing}}", DEADLINE.as_secs());
    let policy = stage.gateway_policy(&format!("drain: {drain}\n"));
    let agent = stage.gateway(&[LONG_DRAIN]).await?;
    stage.answers(200).await?;
    let held = stage.held(HELD).await?;
    stage.put(&policy).await?;
    stage.status_with("count", "partial").await?;
    let (begun, mut opened) = (Instant::now(), false);
    stage.drain().await?;
    wait_for(PATIENCE, "the deadline", async || {
        opened |= stage.status().await?["state"] == "drained";
        // The state `expired` may be over before the next look.
        ensure_eq!(agent.stat(EXPIRED).await?, Some(1), "drains that expired");
        Ok(())
    })
    .await?;
    ensure!(!opened && begun.elapsed() >= DEADLINE, "the gate opens before its deadline");
    stage.answered(held).await?;
    row("M4b", "the same without the annotation", "held until the deadline: expired, not drained");
    stage.nothing_refused()
}

/// The EnvoyFilter is put and deleted while requests run; no request is cut.
async fn taken_away(stage: &Stage, agent: &Agent, policy: &str) -> Outcome {
    let before = stage.held(HELD).await?;
    stage.put(policy).await?;
    stage.status_with("count", "partial").await?;
    ensure_eq!(
        agent.stat(IN_FLIGHT).await?.unwrap_or(0),
        0,
        "requests that began before are not counted"
    );
    stage.answered(before).await?;
    stage.status_with("count", "exact").await?;
    let counted = stage.held(HELD).await?;
    agent.wait_for_stat(IN_FLIGHT, HELD as u64).await?;
    let delete = ["delete", "envoyfilter", "--namespace", stage.name, "laststream"];
    stage.world.cluster.run(&delete).await?;
    wait_for(PATIENCE, "the gate to go", async || {
        for _ in 0..8 {
            ensure!(stage.status().await.is_err(), "it answers still");
        }
        Ok(())
    })
    .await?;
    stage.get("/").await?.expect(200)?;
    stage.answered(counted).await?;
    row(
        "M4b",
        "put on a busy gateway, and deleted again",
        format!(
            "{HELD} requests over each change, all 200; while the old ones ran the gate said \
                `partial`, after them `exact`"
        ),
    );
    Ok(())
}
