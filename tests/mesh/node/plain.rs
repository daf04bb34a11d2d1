//! An Envoy without a mesh in a pod. Its hook is kubelet's own request to the gate on the pod's
//! address.

use super::image::{IMAGE, MODULE};
use super::lane::{GRACE, Lane, Seen};
use super::machine::NAME;
use super::workload::{GATEWAY, Workload};
use super::world::World;
use kit::prelude::*;

pub(super) const GATE: u16 = 16091;
pub(super) const SECRET_HEADER: &str = "x-laststream-secret";
pub(super) const SECRET: &str = "secret-of-the-test";
const APP_AT: &str = "127.0.0.1:8000";

/// The rendered bootstrap, changed so that kubelet reaches the gate, and with a secret.
fn bootstrap(world: &World) -> Outcome<String> {
    let policy = json!({
        "placement": { "envoy": { "listen": format!("0.0.0.0:{GATEWAY}"), "app": APP_AT } },
        "drain": { "finish": "quit", "grace_period": format!("{GRACE}s") },
    });
    let text = world.render_with(&["envoy"], &policy, MODULE)?;
    let mut bootstrap: Value = serde_saphyr::from_str(&text)?;
    let listeners =
        bootstrap["static_resources"]["listeners"].as_array_mut().context("listeners")?;
    let gate =
        listeners.iter_mut().find(|listener| listener["name"] == "gate").context("a gate")?;
    gate["address"]["socket_address"]["address"] = json!("0.0.0.0");
    let filters = gate["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"]
        .as_array_mut()
        .context("filters")?;
    let module = filters
        .iter_mut()
        .find(|filter| filter["typed_config"]["config"].is_object())
        .context("the gate's filter")?;
    let told = &mut module["typed_config"]["config"]["configuration"]["value"];
    let mut configuration: Value =
        serde_json::from_str(told.as_str().context("the gate's configuration")?)?;
    configuration["gate"]["secret"] = json!(SECRET);
    *told = json!(configuration.to_string());
    Ok(bootstrap.to_string())
}

/// Applies a pod with an app and an Envoy. Envoy's container also has these fields.
pub(super) async fn create(
    world: &World,
    namespace: &str,
    name: &str,
    fields: &[(&str, Value)],
) -> Outcome {
    // The API server admits no pod before; a Deployment would try again.
    let account = async || world.cluster.get(namespace, "serviceaccount/default").await.map(drop);
    wait_for(PATIENCE, "the service account", account).await?;
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": namespace },
        "data": { "envoy.yaml": bootstrap(world)? },
    });
    let mut envoy = json!({
        "name": "envoy", "image": IMAGE, "imagePullPolicy": "Never",
        "command": ["envoy", "-c", "/etc/envoy/envoy.yaml", "--drain-strategy", "immediate"],
        "volumeMounts": [{ "name": "config", "mountPath": "/etc/envoy" }],
        "readinessProbe": { "tcpSocket": { "port": GATEWAY }, "periodSeconds": 1 },
    });
    for (field, value) in fields {
        envoy[field] = value.clone();
    }
    let app = json!({
        "name": "app", "image": IMAGE, "imagePullPolicy": "Never",
        "command": [super::image::APP, super::inside::ROLE, "app", APP_AT],
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": namespace,
            "labels": { "app": name, "sidecar.istio.io/inject": "false" },
        },
        "spec": {
            "nodeName": NAME, "terminationGracePeriodSeconds": GRACE, "containers": [app, envoy],
            "volumes": [{ "name": "config", "configMap": { "name": name } }],
        },
    });
    world.cluster.apply_all(&[config, pod]).await
}

pub(crate) async fn run(world: &'static World, namespace: &'static str) -> Outcome<Seen> {
    let hook = json!({ "preStop": { "httpGet": {
        "port": GATE, "path": "/prestop?wait",
        "httpHeaders": [{ "name": SECRET_HEADER, "value": SECRET }],
    } } });
    let fields = [("lifecycle", hook), ("args", json!(["--concurrency", "1"]))];
    create(world, namespace, "plain", &fields).await?;
    let lane = Lane {
        what: "httpGet on the pod's address with the secret, an Envoy without a mesh",
        workload: Workload::app(namespace, "plain"),
        request: Duration::from_secs(10),
        ..Lane::default()
    };
    lane.run(world).await
}
