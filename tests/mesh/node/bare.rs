//! Pods whose proxy no part of Istio has made: a plain Envoy, Envoy Gateway's pod with its shutdown
//! manager, and a Job.

use super::image::{APP, ENVOY, IMAGE};
use super::inside;
use super::machine::NAME;
use super::workload::GATEWAY;
use crate::parts::part;
use kit::bootstrap::{Bootstrap, Hcm, Listener, Route, cluster, socket_address};
use kit::prelude::*;
use kit::wire::local;

/// The app's port.
const APP_PORT: u16 = 8000;
/// The port at which Envoy Gateway's manager asks Envoy, and its own port.
const ADMIN: u16 = 19000;
const MANAGER: u16 = 19002;
/// Where the manager's program is in its container.
const PROGRAM: &str = "/usr/local/bin/envoy-gateway";

fn bootstrap() -> Value {
    let route = Route::prefix("/").cluster("app").timeout("0s");
    let listener = Listener::new("http", Hcm::new("http").route(route))
        .with("/address", socket_address("0.0.0.0", GATEWAY));
    Bootstrap::new()
        .cluster(cluster::h1("app", local(APP_PORT)))
        .listener(listener)
        .with("/admin/address", socket_address("127.0.0.1", ADMIN))
        .build()
}

/// A Deployment of one pod with an app and an Envoy in front of it, whose image is Envoy's by name
/// and the level's by content.
pub(super) fn plain(namespace: &str, name: &str) -> Value {
    let envoy = json!({
        "name": "envoy", "image": ENVOY, "imagePullPolicy": "Never",
        "command": ["envoy"], "args": ["--config-yaml", bootstrap().to_string()],
        "readinessProbe": { "tcpSocket": { "port": GATEWAY }, "periodSeconds": 1 },
    });
    let app = json!({
        "name": "app", "image": IMAGE, "imagePullPolicy": "Never",
        "command": [APP, inside::ROLE, "app", local(APP_PORT).to_string()],
    });
    let labels = json!({ "app": name, "sidecar.istio.io/inject": "false" });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "namespace": namespace, "labels": { "app": name } },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "nodeName": NAME, "containers": [envoy, app] },
            },
        },
    })
}

/// The same with what Envoy Gateway adds for `shutdown: {drainTimeout: …, minDrainDuration: 4s}` of
/// an EnvoyProxy: labels, both hooks, its manager, and the grace period.
pub(super) fn envoy_gateway(namespace: &str, name: &str, timeout: u64) -> Outcome<Value> {
    let mut deployment = plain(namespace, name);
    for (label, value) in [
        ("app.kubernetes.io/managed-by", "envoy-gateway"),
        ("gateway.envoyproxy.io/owning-gateway-name", name),
        ("gateway.envoyproxy.io/owning-gateway-namespace", namespace),
    ] {
        deployment["metadata"]["labels"][label] = json!(value);
        deployment["spec"]["template"]["metadata"]["labels"][label] = json!(value);
    }
    let pod = &mut deployment["spec"]["template"]["spec"];
    pod["terminationGracePeriodSeconds"] = json!(timeout + 300);
    let shut = json!({ "httpGet": { "path": "/shutdown/ready", "port": MANAGER } });
    pod["containers"][0]["lifecycle"] = json!({ "preStop": shut });
    let drain = format!("--drain-timeout={timeout}s");
    let hook = ["envoy-gateway", "envoy", "shutdown", &drain, "--min-drain-duration=4s"];
    let manager = json!({
        "name": "shutdown-manager", "image": IMAGE, "imagePullPolicy": "Never",
        "command": ["envoy-gateway"], "args": ["envoy", "shutdown-manager"],
        "lifecycle": { "preStop": { "exec": { "command": hook } } },
        "readinessProbe": {
            "httpGet": { "path": "/healthz", "port": MANAGER }, "periodSeconds": 1,
        },
        "volumeMounts": manager_mounts(),
    });
    pod["containers"].as_array_mut().context("containers")?.push(manager);
    pod["volumes"] = manager_volumes()?;
    Ok(deployment)
}

/// What Envoy Gateway's own image has, mounted in the manager's container.
pub(super) fn manager_mounts() -> Value {
    json!([{ "name": "program", "mountPath": PROGRAM }, { "name": "tmp", "mountPath": "/tmp" }])
}

pub(super) fn manager_volumes() -> Outcome<Value> {
    let program = json!({ "path": part("envoy-gateway")?, "type": "File" });
    Ok(json!([{ "name": "program", "hostPath": program }, { "name": "tmp", "emptyDir": {} }]))
}

/// A Job with a classic sidecar, whose command takes requests.
pub(super) fn job(namespace: &str, name: &str) -> Value {
    let command = json!({
        "name": "work", "image": IMAGE, "imagePullPolicy": "Never",
        "command": [APP, inside::ROLE, "app", "127.0.0.1:8080"],
    });
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "template": {
            "metadata": {
                "labels": { "app": name },
                "annotations": { "sidecar.istio.io/nativeSidecar": "false" },
            },
            "spec": { "nodeName": NAME, "restartPolicy": "Never", "containers": [command] },
        } },
    })
}
