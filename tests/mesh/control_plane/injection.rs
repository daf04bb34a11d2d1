//! M6: the rendered settings of pods, through Istio's real webhook and the template of its own
//! charts. No pod runs: the API server returns the pods that it would make.

use tokio::sync::RwLock;

use super::stage::{Stage, named};
use crate::istio;
use crate::objects::deployment;
use crate::seen::row;
use kit::prelude::*;

const NATIVE: &str = "sidecar.istio.io/nativeSidecar";
const CONFIG: &str = "proxy.istio.io/config";
const STATISTICS: &str = "sidecar.istio.io/statsInclusionSuffixes";
const HOLD: &str = "holdApplicationUntilProxyStarts: true";

pub(super) async fn hooks() -> Outcome {
    let stage = Stage::new("m6").await?;
    let policy = format!(
        "namespace: m6\nplacement: {{sidecar: {{selector: {{app: m6}}, workload: m6}}}}\n\
         module: {}\ndrain: {{longest_request: 60s}}\n",
        stage.world.module
    );
    istios_own(&stage).await?;
    one_pod(&stage, &policy).await?;
    bootstrap(&stage, &policy).await?;
    gateway(&stage).await?;
    whole_mesh(&stage, &policy).await
}

/// Istio's own hooks, without laststream, as the comments of `render` describe them.
async fn istios_own(stage: &Stage) -> Outcome {
    ensure_eq!(
        injected(stage, &template(json!({ NATIVE: "false" }))).await?["lifecycle"],
        Value::Null,
        "an injected container's hooks"
    );
    let native = injected(stage, &template(json!({ NATIVE: "true" }))).await?;
    let drains = native["lifecycle"]["preStop"]["exec"]["command"].clone();
    ensure!(
        drains[0] == "pilot-agent" && drains[1] == "request" && drains[4] == "drain",
        "a native sidecar's preStop is {drains}"
    );
    let holding = injected(stage, &template(json!({ NATIVE: "false", CONFIG: HOLD }))).await?;
    let waits = json!({ "postStart": { "exec": { "command": ["pilot-agent", "wait"] } } });
    ensure_eq!(holding["lifecycle"], waits, "the hooks of holdApplicationUntilProxyStarts");
    row(
        "M6",
        "Istio's own hooks",
        "classic: none; native: preStop `pilot-agent request … POST drain`; \
            holdApplicationUntilProxyStarts: postStart `pilot-agent wait`",
    );
    Ok(())
}

/// Merges `render lifecycle --for pod` and `--for native-sidecar` over a Deployment.
async fn one_pod(stage: &Stage, policy: &str) -> Outcome {
    for (home, is_native) in [("pod", false), ("native-sidecar", true)] {
        let patch = stage.render(&["lifecycle", "--for", home], policy)?;
        let pod = patched(
            stage,
            &template(json!({ NATIVE: is_native.to_string(), CONFIG: HOLD })),
            &patch,
        )
        .await?;
        ensure_eq!(
            pod["spec"]["terminationGracePeriodSeconds"],
            json!(70),
            "the grace period, {home}"
        );
        let proxy = injected(stage, &pod).await?;
        ours(&proxy, home)?;
        ensure!(
            proxy["image"].as_str().is_some_and(|image| image.contains("proxyv2")),
            "the image: {}",
            proxy["image"]
        );
        ensure_eq!(
            proxy["restartPolicy"] == "Always",
            is_native,
            "a sidecar that is an init container, {home}"
        );
        // A patch that replaces a whole lifecycle removes Istio's postStart; here they are merged.
        // Native sidecars have no postStart.
        let waits = if is_native { Value::Null } else { json!(["pilot-agent", "wait"]) };
        ensure_eq!(proxy["lifecycle"]["postStart"]["exec"]["command"], waits, "postStart, {home}");
    }
    row(
        "M6",
        "`render lifecycle --for pod`, `--for native-sidecar`: a Deployment patched, its pod \
            injected",
        "our preStop in the proxy, real image; native: in the init container, instead of Istio's \
            preStop; classic: Istio's postStart stays",
    );
    Ok(())
}

/// Merges `render proxy-config` over a Deployment.
async fn bootstrap(stage: &Stage, policy: &str) -> Outcome {
    let patch = stage.render(&["proxy-config"], policy)?;
    let pod = patched(stage, &template(json!({})), &patch).await?;
    let made = stage.made(&pod).await?;
    let statistics =
        made["metadata"]["annotations"][STATISTICS].as_str().context("no annotation")?;
    ensure!(statistics.contains("downstream_rq_active"), "{statistics}");
    let proxy = proxy(&made)?;
    let config = proxy["env"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|variable| variable["name"] == "PROXY_CONFIG");
    let config =
        config.and_then(|variable| variable["value"].as_str()).context("no PROXY_CONFIG")?;
    ensure!(config.contains("\"drainDuration\":\"95s\""), "PROXY_CONFIG: {config}");
    row(
        "M6",
        "`render proxy-config`, injected",
        "statsInclusionSuffixes on the pod, `drainDuration: 95s` in the agent's PROXY_CONFIG",
    );
    Ok(())
}

/// The gateway chart writes its value `lifecycle` into the container `istio-proxy`, which the
/// webhook fills.
async fn gateway(stage: &Stage) -> Outcome {
    let policy = stage.gateway_policy("drain: {starts: hook}\n");
    let values = yaml(&stage.render(&["lifecycle", "--for", "gateway-chart"], &policy)?)?;
    let mut template = template(json!({ "inject.istio.io/templates": "gateway" }));
    let container =
        json!({ "name": "istio-proxy", "image": "auto", "lifecycle": values["lifecycle"] });
    template["spec"] = json!({
        "serviceAccountName": stage.name,
        "terminationGracePeriodSeconds": values["terminationGracePeriodSeconds"],
        "containers": [container],
    });
    let proxy = injected(stage, &template).await?;
    let port = format!("--url=http://127.0.0.1:{}/prestop?wait=10s", stage.gate);
    ensure_eq!(proxy["lifecycle"]["preStop"]["exec"]["command"][2], port, "the gateway's hook");
    row(
        "M6",
        "`render lifecycle --for gateway-chart`: the value where the chart has it, injected by the \
            template `gateway`",
        "our preStop, nothing of Istio's to replace",
    );
    Ok(())
}

/// Held while the template of all injected pods is changed.
pub(super) static INJECTOR: RwLock<()> = RwLock::const_new(());

/// `render lifecycle --for helm-values`, through Istio's installer.
async fn whole_mesh(stage: &Stage, policy: &str) -> Outcome {
    let _template = INJECTOR.write().await;
    let values = yaml(&stage.render(&["lifecycle", "--for", "helm-values"], policy)?)?;
    install(stage, &values).await?;
    let pods = [
        json!({ NATIVE: "false" }),
        json!({ NATIVE: "true" }),
        json!({ NATIVE: "false", CONFIG: HOLD }),
    ];
    let all = async || {
        for annotations in &pods {
            let proxy = injected(stage, &template(annotations.clone())).await?;
            ours(&proxy, "helm-values")?;
            ensure_eq!(proxy["lifecycle"]["postStart"], Value::Null, "Istio's postStart");
        }
        Ok(())
    };
    let outcome = wait_for(PATIENCE, "the template with our values", all).await;
    install(stage, &json!({})).await?;
    let own = async || {
        let proxy = injected(stage, &template(pods[0].clone())).await?;
        ensure_eq!(proxy["lifecycle"], Value::Null, "the former template");
        Ok(())
    };
    wait_for(PATIENCE, "Istio's own template", own).await?;
    outcome?;
    row(
        "M6",
        "`render lifecycle --for helm-values`, through Istio's installer",
        "every injected proxy has our preStop; Istio's preStop of native sidecars and its \
            postStart are gone, as the file says",
    );
    Ok(())
}

async fn install(stage: &Stage, values: &Value) -> Outcome {
    let manifests = istio::manifests("127.0.0.1", values).await?;
    let injector = manifests.split("\n---\n").find(|document| {
        document.contains("\nkind: ConfigMap\n")
            && document.contains("name: istio-sidecar-injector\n")
    });
    stage.world.cluster.apply_server_side(injector.context("no template")?).await
}

fn yaml(text: &str) -> Outcome<Value> {
    serde_saphyr::from_str(text).with_context(|| text.to_owned())
}

/// The template of an app's pod.
fn template(annotations: Value) -> Value {
    let app = json!({ "name": "app", "image": "example.com/app" });
    json!({
        "metadata": { "labels": { "app": "m6" }, "annotations": annotations },
        "spec": { "serviceAccountName": "m6", "containers": [app] },
    })
}

/// The template after `kubectl patch` of a Deployment with it.
async fn patched(stage: &Stage, template: &Value, patch: &str) -> Outcome<Value> {
    let deployment = deployment("m6", "m6", template).to_string();
    let deployment = stage.user.argument("deployment.json", deployment)?;
    let patch = stage.user.argument("patch.yaml", patch)?;
    let files = ["--filename", &deployment, "--patch-file", &patch];
    let arguments = [&["patch", "--local", "--output=json"], &files[..]].concat();
    let said = stage.world.cluster.run(&arguments).await?;
    Ok(serde_json::from_str::<Value>(&said)?["spec"]["template"].clone())
}

/// The injected proxy of a pod with this template.
async fn injected(stage: &Stage, template: &Value) -> Outcome<Value> {
    proxy(&stage.made(template).await?).cloned()
}

fn proxy(pod: &Value) -> Outcome<&Value> {
    let find = |list: &str| named(&pod["spec"][list], "istio-proxy");
    find("containers").or_else(|_| find("initContainers")).with_context(|| pod.to_string())
}

/// Checks that the hook is the rendered one, with a time-out above the deadline.
fn ours(proxy: &Value, home: &str) -> Outcome {
    let command = json!([
        "pilot-agent",
        "wait",
        "--url=http://127.0.0.1:16091/prestop?wait=10s",
        "--timeoutSeconds=64",
        "--requestTimeoutMillis=11000",
        "--periodMillis=250"
    ]);
    ensure_eq!(proxy["lifecycle"]["preStop"]["exec"]["command"], command, "preStop, {home}");
    Ok(())
}
