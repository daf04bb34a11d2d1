//! E2: the findings of `laststream lint --change` about a change, compared with the listeners that
//! Envoy replaces when istiod has sent it.

use super::stage::Stage;
use crate::agent::Agent;
use crate::objects::changes;
use kit::prelude::*;
use kit::wire::free_port;

pub(super) async fn of_a_gateway() -> Outcome {
    let stage = Stage::new("e2").await?;
    stage.apply(&stage.gateway_objects()?).await?;
    let agent = stage.gateway(&[]).await?;
    compare(&stage, &agent, include_str!("objects/changes.yaml")).await
}

/// Inbound routes of a sidecar are in the filter chains, so a change of them replaces the listener.
pub(super) async fn of_a_sidecar() -> Outcome {
    let stage = Stage::new("e2-sidecar").await?;
    stage.apply(&stage.sidecar_objects(free_port()?)?).await?;
    let agent = stage.sidecar().await?;
    compare(&stage, &agent, include_str!("objects/changes_of_sidecar.yaml")).await
}

async fn compare(stage: &Stage, agent: &Agent, file: &str) -> Outcome {
    stage.answers(200).await?;
    let (cluster, user, admin) = (&stage.world.cluster, &stage.user, agent.admin_address());
    for change in changes(file, &[("name", &stage.name), ("port", &stage.port)])? {
        let found = change.compare("E2", (cluster, user, admin)).await?;
        ensure_eq!(found.contains("drainDuration"), change.replaces(), "{found}");
    }
    stage.answers(200).await
}
