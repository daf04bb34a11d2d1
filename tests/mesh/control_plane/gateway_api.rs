//! M7: a Gateway of the Gateway API. Istio makes its Deployment, and merges the rendered overlay
//! over it. No container runs here: the case checks the Deployment, and an agent with the labels of
//! its pods gets the rendered EnvoyFilter.

use super::order::accepted;
use super::stage::Stage;
use crate::agent::Proxy;
use crate::seen::row;
use kit::prelude::*;

const GATEWAY: &str = "gateway.networking.k8s.io/v1";

pub(super) async fn overlay() -> Outcome {
    let stage = Stage::new("m7").await?;
    stage.world.cluster.definitions("gateway-api-1.6").await?;
    gateway(&stage, "edge").await?;
    let plain = template(&stage, "edge-istio", |_| true).await?;
    ensure_eq!(hook(&plain), &Value::Null, "Istio's own Deployment has no hook");
    let policy = format!(
        "namespace: m7\nmodule: {}\nplacement: {{gateway_api: {{gateway: edge, autoscaler: \
         {{minReplicas: 2, maxReplicas: 5}}, disruption_budget: {{minAvailable: 1}}}}}}\n\
         drain: {{longest_request: 60s, exit_on_zero: true, starts: hook}}\ngate: {{port: {}}}\n",
        stage.world.module, stage.gate
    );
    let folder = stage.render_all(&policy)?;
    let cluster = &stage.world.cluster;
    cluster.apply_rendered(&folder, "m7", "edge").await?;
    let merged = template(&stage, "edge-istio", |template| hook(template) != &Value::Null).await?;
    ensure_eq!(hook(&merged)["exec"]["command"][0], "pilot-agent", "the hook");
    accepted(&stage, "edge", "True").await?;
    ensure_eq!(merged["spec"]["terminationGracePeriodSeconds"], 70, "the grace period");
    let environment = merged["spec"]["containers"][0]["env"].as_array().context("env")?;
    ensure!(
        environment.iter().any(|each| each["name"] == "EXIT_ON_ZERO_ACTIVE_CONNECTIONS"),
        "{environment:?}"
    );
    let annotations = &merged["metadata"]["annotations"];
    ensure!(
        annotations["sidecar.istio.io/statsInclusionSuffixes"].is_string()
            && annotations["proxy.istio.io/config"].to_string().contains("drainDuration: 95s"),
        "{annotations}"
    );
    wait_for(PATIENCE, "Istio to make the autoscaler and the budget", async || {
        let scaler = cluster.get("m7", "horizontalpodautoscaler/edge-istio").await?;
        let budget = cluster.get("m7", "poddisruptionbudget/edge-istio").await?;
        ensure_eq!(scaler["spec"]["minReplicas"], 2, "the autoscaler");
        ensure_eq!(budget["spec"]["minAvailable"], 1, "the budget");
        Ok(())
    })
    .await?;
    row(
        "M7",
        "a Gateway of the Gateway API, `render all`, applied as its files say",
        "Istio's Deployment has the hook, 70 s of grace, the annotations and the environment; \
            an autoscaler (2 to 5) and a budget (1) are there",
    );
    answers(&stage, "edge").await?;
    row("M7", "a proxy of that Gateway, by `targetRefs`", "its gate answers: serving");
    refused_by_istio_alone(&stage, &merged).await?;
    removed(&stage, &folder).await?;
    class_default(&stage).await
}

/// Removal as docs/install/gateway-api.md says: the overlay first, then the EnvoyFilter.
async fn removed(stage: &Stage, folder: &str) -> Outcome {
    stage.world.cluster.forget_overlay("m7", "edge").await?;
    template(stage, "edge-istio", |template| hook(template) == &Value::Null).await?;
    stage.world.cluster.run(&["delete", "--kustomize", folder]).await?;
    row(
        "M7",
        "removal as docs/install/gateway-api.md says",
        "Istio's own Deployment again, without the hook",
    );
    Ok(())
}

/// An overlay that Istio cannot merge: apart from istiod's log, only `lint` reports it.
async fn refused_by_istio_alone(stage: &Stage, before: &Value) -> Outcome {
    let deployment = "spec: {template: {spec: {containers: [{name: envoy, tty: true}]}}}";
    let wrong = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "laststream-overlay", "namespace": "m7" },
        "data": { "deployment": deployment },
    });
    let said = stage.laststream(&["lint", "-"], &wrong.to_string())?.expect(1)?;
    said.stdout_contains("LS561")?;
    stage.apply(&[wrong]).await?;
    stage.world.istio.istiod.wait_for_log("containers[0].image: Required value").await?;
    let after = template(stage, "edge-istio", |_| true).await?;
    ensure_eq!(hook(&after), hook(before), "the Deployment stays as it was");
    row("M7", "an overlay for a container of another name", "`lint`: LS561; Istio changes nothing");
    Ok(())
}

/// The default of a class: it applies also to Gateways that name no ConfigMap.
async fn class_default(stage: &Stage) -> Outcome {
    let own = Stage::new("m7-class").await?;
    let policy = format!(
        "module: {}\nname: m7-class\nplacement: {{gateway_api: {{class: istio}}}}\n\
         drain: {{longest_request: 30s, starts: hook}}\ngate: {{port: {}}}\n",
        own.world.module, own.gate
    );
    own.put(&policy).await?;
    let overlay = own.render(&["overlay"], &policy)?;
    own.world.cluster.apply(&overlay).await?;
    answers(&own, "any").await?;
    row("M7", "a proxy of that class, by its label", "its gate answers: serving");
    gateway(stage, "other").await?;
    let made = template(stage, "other-istio", |template| hook(template) != &Value::Null).await?;
    ensure_eq!(made["spec"]["terminationGracePeriodSeconds"], 40, "the grace period");
    row("M7", "the overlay as the default of a class", "a Gateway that names none has the hook");
    Ok(())
}

/// Checks that an agent with the labels of this Gateway's pods gets the gate.
async fn answers(stage: &Stage, gateway: &str) -> Outcome {
    let labels = [
        ("gateway.networking.k8s.io/gateway-name", gateway),
        ("gateway.networking.k8s.io/gateway-class-name", "istio"),
    ];
    let mut pod = stage.pod("app");
    pod["metadata"]["labels"] = labels.into_iter().collect::<Value>();
    stage.apply(&[pod]).await?;
    let _agent = stage.proxy(&Proxy { labels: &labels, ..Proxy::default() }).await?;
    stage.status_with("state", "serving").await?;
    stage.nothing_refused()
}

pub(super) async fn gateway(stage: &Stage, name: &str) -> Outcome {
    let listeners = json!([{ "name": "main", "port": 80, "protocol": "HTTP" }]);
    stage
        .apply(&[json!({
            "apiVersion": GATEWAY, "kind": "Gateway",
            "metadata": { "name": name, "namespace": stage.name },
            "spec": { "gatewayClassName": "istio", "listeners": listeners },
        })])
        .await
}

/// The template of a Deployment's pods, once `is_so` accepts it.
pub(super) async fn template(
    stage: &Stage,
    name: &str,
    is_so: impl Fn(&Value) -> bool,
) -> Outcome<Value> {
    wait_for(PATIENCE, "Istio's Deployment", async || {
        let object = format!("deployment/{name}");
        let deployment = stage.world.cluster.get(stage.name, &object).await;
        let deployment = deployment.with_context(|| stage.world.istio.istiod.log())?;
        let template = deployment["spec"]["template"].clone();
        ensure!(is_so(&template), "{template}\n{}", stage.world.istio.istiod.log());
        Ok(template)
    })
    .await
}

pub(super) fn hook(template: &Value) -> &Value {
    &template["spec"]["containers"][0]["lifecycle"]["preStop"]
}
