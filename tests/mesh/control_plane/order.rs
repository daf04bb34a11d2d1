//! M7: the order of applying. A Gateway names the ConfigMap of its overlay, so that one comes
//! first. In the other order Istio waits for it.

use super::gateway_api::{gateway, hook, template};
use super::stage::Stage;
use crate::release::Release;
use crate::seen::row;
use kit::prelude::*;

const NAME: &str = "m7-order";

pub(super) async fn of_the_overlay() -> Outcome {
    let stage = Stage::new(NAME).await?;
    stage.world.cluster.definitions("gateway-api-1.6").await?;
    gateway(&stage, "edge").await?;
    template(&stage, "edge-istio", |_| true).await?;
    let policy = format!(
        "namespace: {NAME}\nmodule: {}\nplacement: {{gateway_api: {{gateway: edge}}}}\n\
         gate: {{port: {}}}\ndrain: {{starts: hook}}\n",
        stage.world.module, stage.gate
    );
    let rendered = stage.render_all(&policy)?;
    stage.world.cluster.name_overlay(&rendered, NAME, "edge").await?;
    let told = without_config_map(&stage).await?;
    row("M7", "the Gateway names the overlay before its ConfigMap is there", told);
    stage.world.cluster.run(&["apply", "--kustomize", &rendered]).await?;
    template(&stage, "edge-istio", |template| hook(template) != &Value::Null).await?;
    accepted(&stage, "edge", "True").await?;
    row("M7", "then the ConfigMap comes", "`Accepted: True`; Istio's Deployment has the hook");
    Ok(())
}

async fn without_config_map(stage: &Stage) -> Outcome<String> {
    if Release::chosen()? < Release::Istio1_31 {
        stage.world.istio.istiod.wait_for_log("but configmap does not exist").await?;
        accepted(stage, "edge", "True").await?;
        return Ok("only istiod's log says so: before Istio 1.31 the Gateway stays accepted".into());
    }
    let condition = accepted(stage, "edge", "False").await?;
    let [reason, message] = ["reason", "message"].map(|field| condition[field].as_str());
    ensure_eq!(reason, Some("InvalidParameters"), "{condition}");
    Ok(format!("`Accepted: False`, InvalidParameters: {}", message.unwrap_or_default()))
}

/// Waits until the Gateway's condition `Accepted` has this status.
pub(super) async fn accepted(stage: &Stage, name: &str, status: &str) -> Outcome<Value> {
    wait_for(PATIENCE, &format!("Accepted: {status}"), async || {
        let gateway = stage.world.cluster.get(stage.name, &format!("gateway/{name}")).await?;
        let mut conditions = gateway["status"]["conditions"].as_array().into_iter().flatten();
        let condition = conditions.find(|condition| condition["type"] == "Accepted");
        let condition = condition.context("no condition Accepted")?;
        ensure_eq!(condition["status"], status, "{condition}");
        Ok(condition.clone())
    })
    .await
}
