//! M3: changes of the policy and of the module under load. Each change is rendered and applied.

use std::time::Instant;

use super::load::Load;
use super::stage::{BEGUN, IN_FLIGHT, Stage};
use crate::agent::Agent;
use crate::seen::row;
use kit::prelude::*;

const LEAST_REQUESTS: u64 = 500;

pub(super) async fn under_load() -> Outcome {
    let stage = Stage::new("m3").await?;
    let other = other_module(&stage)?;
    stage.apply(&stage.gateway_objects()?).await?;
    stage.put(&stage.gateway_policy(&policy(0))).await?;
    let agent = stage.gateway(&[]).await?;
    stage.answers(200).await?;
    let begun = stage.counted_by_all(&agent, BEGUN).await?;
    let before = listeners(&agent).await?;
    let mut held = Vec::new();
    stage.hold(&mut held, 5).await?;
    let load = Load::start(stage.address(), &Request::get("/delay/5"));
    let mut took = Vec::new();
    for change in 1..=5 {
        let at = load.requests();
        let changed = Instant::now();
        let more = policy(change);
        let module = if change % 2 == 0 { &stage.world.module } else { &other };
        stage.put(&stage.gateway_policy(&more).replace(&stage.world.module, module)).await?;
        taken(&agent, change).await?;
        took.push(changed.elapsed());
        // Send some requests with the new configuration, then pause the load, so that the count can
        // be compared.
        wait_for(PATIENCE, "requests", async || {
            ensure!(load.requests() > at + LEAST_REQUESTS / 5, "no more requests");
            Ok(())
        })
        .await?;
        stage.hold(&mut held, 2).await?;
        load.pause(async || counted(&agent, held.len()).await).await?;
    }
    let requests = load.end().await?;
    ensure!(requests >= LEAST_REQUESTS, "only {requests} requests");
    stage.status_with("count", "assumed").await?; // no annotation
    ensure_eq!(listeners(&agent).await?, before, "listeners created, modified, removed");
    let all = held.len() as u64;
    stage.answered(held).await?;
    counted(&agent, 0).await?;
    ensure_eq!(
        agent.stat(BEGUN).await?,
        Some(begun + requests + all),
        "begun: not one request went by uncounted"
    );
    stage.nothing_refused()?;
    let slowest = took.iter().max().copied().unwrap_or_default();
    row(
        "M3",
        "5 changes by `render | kubectl apply`, policy and module, under load",
        format!(
            "{requests} requests, all 200, all counted; in flight exact after each (up to {all} \
                held through all of them); no listener replaced; a change took at most {:.1} s",
            slowest.as_secs_f32()
        ),
    );
    Ok(())
}

/// A different policy for each change. The excluded path shows in Envoy's configuration that the
/// change has arrived. The module restores the scheme: Envoy's own matchers stand in listeners.
fn policy(change: u32) -> String {
    let preset = ["aws_alb", "gcp"][change as usize % 2];
    format!(
        "count: {{exclude: {{paths: [{{exact: /change-{change}}}]}}}}\n\
         forwarded_proto: {{presets: [{preset}], trust: {{peers: [127.0.0.{change}/32]}}}}\n\
         engine: wasm\n"
    )
}

/// Pushes the module with an additional custom section beside the first one, and returns its
/// address.
fn other_module(stage: &Stage) -> Outcome<String> {
    let mut code = laststream_module::builtin().map_err(Error::msg)?.to_vec();
    code.extend([0, 6, 5, b'o', b't', b'h', b'e', b'r']);
    let file = stage.user.argument("other.wasm", code)?;
    let image = format!("{}/mesh/laststream:other", stage.world.registry.name());
    stage.laststream(&["push", "--module", &file, &image], "")?.expect(0)?;
    Ok(format!("oci://{image}"))
}

async fn taken(agent: &Agent, change: u32) -> Outcome {
    let path = format!("/change-{change}\\\"");
    wait_for(PATIENCE, "the change", async || {
        let modules = agent.dump("ecds_filters").await?.to_string();
        ensure!(modules.contains(&path), "change {change} has not arrived");
        Ok(())
    })
    .await
}

/// Checks that exactly `held` streams are in flight, by the module's gauge.
async fn counted(agent: &Agent, held: usize) -> Outcome {
    // The last requests of the load may still be ending.
    agent.wait_for_stat(IN_FLIGHT, held as u64).await?;
    for _ in 0..5 {
        ensure_eq!(agent.stat(IN_FLIGHT).await?, Some(held as u64), "in flight");
    }
    Ok(())
}

/// Envoy's counters of changed listeners.
async fn listeners(agent: &Agent) -> Outcome<Vec<Option<u64>>> {
    let mut all = Vec::new();
    for name in [
        "listener_added",
        "listener_modified",
        "listener_removed",
        "listener_in_place_updated",
        "listener_create_success",
    ] {
        all.push(agent.stat(&format!("listener_manager.{name}")).await?);
    }
    Ok(all)
}
