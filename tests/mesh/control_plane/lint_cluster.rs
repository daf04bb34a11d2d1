//! F5: `laststream lint --cluster` of pods that Istio's real webhook has injected: nothing is found
//! in Istio's own settings, a pod from before the rendered hook is found, and nothing in its
//! successor.

use super::injection::INJECTOR;
use super::stage::Stage;
use crate::istio::ROOT;
use crate::objects::{deployment, pod_of};
use crate::seen::row;
use kit::prelude::*;

const NATIVE: &str = "sidecar.istio.io/nativeSidecar";

pub(super) async fn of_injected_pods() -> Outcome {
    let stage = Stage::new("f5").await?;
    let _template = INJECTOR.read().await;
    settings_have_their_label(&stage).await?;
    let workloads = [
        ("classic", json!({ NATIVE: "false" })),
        ("native", json!({ NATIVE: "true" })),
        ("edge", json!({ "inject.istio.io/templates": "gateway" })),
    ];
    for (name, annotations) in &workloads {
        stage.apply(&[workload(name, annotations)]).await?;
        replace_pod(&stage, name).await?;
    }
    let found = findings(&stage)?;
    ensure!(found.is_empty(), "Istio's own settings: {found:?}");
    row("F5", "a classic sidecar, a native one and a gateway as Istio injects them", "LS210");
    let policy = format!(
        "namespace: f5\nplacement: {{sidecar: {{selector: {{app: native}}, workload: native}}}}\n\
         module: {}\n",
        stage.world.module
    );
    let filter = stage.render(&["envoyfilter"], &policy)?;
    stage.world.cluster.apply(&filter).await?;
    for arguments in [&["lifecycle", "--for", "native-sidecar"][..], &["proxy-config"]] {
        let patch = stage.user.argument("patch.yaml", stage.render(arguments, &policy)?)?;
        stage.world.cluster.patch("f5", "deployment/native", &["--patch-file", &patch]).await?;
    }
    let found = findings(&stage)?;
    let old = found.iter().any(|(code, text)| code == "LS801" && text.contains("stop hook"));
    ensure!(old, "the old pod: {found:?}");
    row("F5", "the rendered files applied, and the pod not replaced", "LS801");
    replace_pod(&stage, "native").await?;
    let found = findings(&stage)?;
    ensure!(found.is_empty(), "the new pod: {found:?}");
    row("F5", "the pod replaced", "nothing");
    Ok(())
}

/// `lint` finds the settings of the mesh by this label.
async fn settings_have_their_label(stage: &Stage) -> Outcome {
    let labelled = ["get", "configmaps", "--selector", "istio.io/rev", "--output", "name"];
    let said = stage.world.cluster.run(&[&labelled[..], &["--namespace", ROOT]].concat()).await?;
    ensure!(said.lines().any(|line| line == "configmap/istio"), "{said}");
    Ok(())
}

/// The Deployment of an app, or that of a gateway.
fn workload(name: &str, annotations: &Value) -> Value {
    let container = match name {
        "edge" => json!({ "name": "istio-proxy", "image": "auto" }),
        _ => json!({ "name": "app", "image": "example.com/app" }),
    };
    let template = json!({
        "metadata": { "labels": { "app": name }, "annotations": annotations },
        "spec": { "serviceAccountName": "f5", "containers": [container] },
    });
    deployment("f5", name, &template)
}

/// Makes the pod of a Deployment anew, as its controller would. No kubelet runs it.
async fn replace_pod(stage: &Stage, name: &str) -> Outcome {
    let cluster = &stage.world.cluster;
    let deployment = cluster.get("f5", &format!("deployment/{name}")).await?;
    let delete = ["delete", "pods", "--namespace", "f5", "--selector"];
    let selector = format!("app={name}");
    cluster.run(&[&delete[..], &[&selector, "--force", "--grace-period=0"]].concat()).await?;
    stage.apply(&[pod_of("f5", name, &deployment["spec"]["template"], "a")]).await
}

/// Codes and messages of the findings in the case's namespace. The images of Istio's own templates
/// have an address that ends, which is found in every pod.
fn findings(stage: &Stage) -> Outcome<Vec<(String, String)>> {
    let kubeconfig = stage.world.cluster.kubeconfig();
    let kubeconfig = kubeconfig.to_str().context("a path")?;
    let arguments = ["lint", "--cluster", "-n", "f5", "-o", "json", "--kubeconfig", kubeconfig];
    let said = stage.laststream(&[&arguments[..], &["--request-timeout", "300s"]].concat(), "")?;
    ensure!(matches!(said.code, Some(0 | 1)), "{}", said.stderr);
    let said = said.json()?;
    let findings = said["findings"].as_array().context("findings")?.iter();
    let own = findings
        .filter(|finding| finding["object"]["namespace"] == "f5" && finding["code"] != "LS210");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(own.map(|finding| (text(&finding["code"]), text(&finding["message"]))).collect())
}
