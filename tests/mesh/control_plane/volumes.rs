//! V2: a module from an image volume that does not exist. On this level the feature gate has its
//! default, off, and no proxy has the file.

use super::stage::Stage;
use crate::agent::{Agent, Proxy};
use crate::seen::row;
use kit::prelude::*;

const FILE: &str = "/opt/laststream/plugin.wasm";

pub(super) async fn missing() -> Outcome {
    let stage = Stage::new("v2").await?;
    dropped(&stage).await?;
    stage.apply(&stage.gateway_objects()?).await?;
    let _running = stage.gateway(&[]).await?;
    stage.answers(200).await?;
    stage.put(&stage.gateway_policy("delivery: image_volume\n")).await?;
    let refusal = stage.refusal().await?;
    ensure!(refusal.contains(FILE), "{refusal}");
    for _ in 0..20 {
        stage.get("/").await?.expect(200)?;
    }
    row(
        "V2",
        "a proxy that runs without the file gets the EnvoyFilter",
        "it refuses the listeners and goes on with its former ones: requests 200",
    );
    let proxy = Proxy {
        name: stage.name,
        namespace: stage.name,
        labels: &[("istio", stage.name)],
        token: &stage.token,
        ..Proxy::default()
    };
    let new = Agent::launch(&stage.world.istio, &proxy)?;
    new.program.wait_for_log(FILE).await?;
    for _ in 0..10 {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        ensure!(!new.is_ready().await, "ready without its listeners: {}", new.program.log());
    }
    row("V2", "a proxy that starts without the file", "it does not become ready");
    Ok(())
}

/// A Deployment with the volume and the mount that are rendered for the gateway chart. The API
/// server drops both.
async fn dropped(stage: &Stage) -> Outcome {
    let policy = stage.gateway_policy("delivery: image_volume\n");
    let values: Value = serde_saphyr::from_str(&stage.render(&["image-volume"], &policy)?)?;
    let labels = json!({ "istio": stage.name });
    let container = json!({
        "name": "istio-proxy", "image": "auto", "imagePullPolicy": "IfNotPresent",
        "volumeMounts": values["volumeMounts"],
    });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "gateway", "namespace": stage.name },
        "spec": {
            "replicas": 0, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [container], "volumes": values["volumes"] },
            },
        },
    });
    let text = deployment.to_string();
    let said = stage.laststream(&["lint", "--kubernetes", "1.34", "-"], &text)?.expect(1)?;
    said.stdout_contains("LS571")?;
    stage.apply(&[deployment]).await?;
    let kept = stage.world.cluster.get(stage.name, "deployment/gateway").await?;
    let pod = &kept["spec"]["template"]["spec"];
    let is_there = |list: &Value| list.as_array().is_some_and(|items| !items.is_empty());
    ensure!(!is_there(&pod["volumes"]) || pod["volumes"][0].get("image").is_none(), "{pod}");
    ensure!(!is_there(&pod["containers"][0]["volumeMounts"]), "{pod}");
    row(
        "V2",
        "an image volume, Kubernetes 1.34 without the feature gate",
        "`lint --kubernetes 1.34`: LS571; the API server accepts the Deployment, and drops volume \
            and mount",
    );
    Ok(())
}
