//! Mistakes in the objects of a cluster, one in each workload, and the same workloads without them.

use super::lint::{NAMESPACE, NODE};
use crate::objects::{deployment, pod_of};
use kit::prelude::*;

/// A Deployment with two pods that KWOK runs, and the rule that must find its mistake.
pub(super) struct Planted {
    pub(super) name: &'static str,
    pub(super) rule: &'static str,
    /// What is changed in the template, and in the pods that were made from it.
    change: fn(&mut Value),
    /// What only the pods have.
    of_pods: fn(&mut Value),
}

const fn planted(name: &'static str, rule: &'static str, change: fn(&mut Value)) -> Planted {
    Planted { name, rule, change, of_pods: |_| () }
}

const fn of_pods(name: &'static str, rule: &'static str, change: fn(&mut Value)) -> Planted {
    Planted { name, rule, change: |_| (), of_pods: change }
}

pub(super) const PLANTED: [Planted; 14] = [
    planted("short", "LS551", |pod| pod["spec"]["terminationGracePeriodSeconds"] = json!(28)),
    planted("hasty", "LS553", |pod| {
        let mut words = words(16091);
        words[3] = "--timeoutSeconds=5".to_owned();
        runs(pod, &words);
    }),
    planted("shell", "LS503", |pod| {
        runs(pod, &["sh".to_owned(), "-c".to_owned(), words(16091).join(" ")]);
    }),
    planted("sockets", "LS502", |pod| {
        let script = "while netstat -plunt | grep tcp | grep -v envoy; do sleep 1; done";
        runs(pod, &["sh", "-c", script].map(str::to_owned));
    }),
    planted("agent", "LS504", |pod| {
        runs(pod, &["pilot-agent", "request", "POST", "drain"].map(str::to_owned));
    }),
    planted("admin", "LS505", |pod| {
        let get = json!({ "httpGet": { "port": 15000, "path": "/drain_listeners" } });
        pod["spec"]["containers"][0]["lifecycle"] = json!({ "preStop": get });
    }),
    planted("mute", "LS506", |pod| pod["metadata"]["annotations"] = json!({})),
    of_pods("stale", "LS801", |pod| pod["spec"]["containers"][0]["lifecycle"] = Value::Null),
    planted("own", "LS802", |pod| runs(pod, &words(16091)[..4])),
    planted("lost", "LS803", |pod| runs(pod, &words(16092))),
    planted("gone", "LS804", without_gate),
    of_pods("early", "LS805", |pod| pod["spec"]["terminationGracePeriodSeconds"] = json!(8)),
    planted("bare", "LS806", |pod| pod["spec"]["containers"][0]["lifecycle"] = Value::Null),
    planted("silent", "LS807", without_gate),
];

/// KWOK forwards the usual port of a gate only.
fn without_gate(pod: &mut Value) {
    pod["metadata"]["annotations"]["laststream.io/gate-port"] = json!("9");
}

/// The stop hook for a port, as `laststream render` writes it.
fn words(port: u16) -> [String; 6] {
    [
        "pilot-agent".to_owned(),
        "wait".to_owned(),
        format!("--url=http://127.0.0.1:{port}/prestop?wait=10s"),
        "--timeoutSeconds=26".to_owned(),
        "--requestTimeoutMillis=11000".to_owned(),
        "--periodMillis=250".to_owned(),
    ]
}

fn runs(pod: &mut Value, words: &[String]) {
    let hook = json!({ "preStop": { "exec": { "command": words } } });
    pod["spec"]["containers"][0]["lifecycle"] = hook;
}

/// A template without a mistake.
fn template(name: &str) -> Value {
    let mut pod = json!({
        "metadata": {
            "labels": { "app": name, "gated": "yes", "kind": "running" },
            "annotations": {
                "inject.istio.io/templates": "gateway",
                "proxy.istio.io/config": "drainDuration: 60s",
                "sidecar.istio.io/statsInclusionSuffixes":
                    "downstream_rq_active,downstream_rq_total",
            },
        },
        "spec": {
            "terminationGracePeriodSeconds": 34,
            "containers": [{ "name": "istio-proxy", "image": "auto" }],
        },
    });
    runs(&mut pod, &words(16091));
    pod
}

impl Planted {
    /// The Deployment and its pods; with `good`, without the mistake.
    pub(super) fn objects(&self, good: bool) -> [Value; 3] {
        let mut template = template(self.name);
        if !good {
            (self.change)(&mut template);
        }
        let mut made = template.clone();
        if !good {
            (self.of_pods)(&mut made);
        }
        // As Istio's webhook leaves them: with an image.
        made["spec"]["nodeName"] = json!(NODE);
        made["spec"]["containers"][0]["image"] = json!("proxyv2:1.31.0");
        let deployment = deployment(NAMESPACE, self.name, &template);
        let [one, two] = ["a", "b"].map(|end| pod_of(NAMESPACE, self.name, &made, end));
        [deployment, one, two]
    }
}

/// The EnvoyFilter with the gate of all these workloads, from the program's own tests.
pub(super) fn gate() -> Outcome<Value> {
    let file = kit::workspace().join("companion-cli/tests/program/fleet/lint/envoyfilter.json");
    let mut filter: Value = serde_json::from_slice(&std::fs::read(file)?)?;
    filter["metadata"] = json!({ "name": "laststream", "namespace": NAMESPACE });
    filter["spec"]["workloadSelector"]["labels"] = json!({ "gated": "yes" });
    Ok(filter)
}

/// Mistakes that are in no pod, each with the rules that must find it.
pub(super) fn others() -> Outcome<Vec<(Value, &'static [&'static str])>> {
    let mut tagged = gate()?;
    tagged["metadata"]["name"] = json!("tagged");
    tagged["spec"]["workloadSelector"]["labels"] = json!({ "gated": "no" });
    let http = json!({ "uri": "oci://registry.example/laststream:1", "cluster": "unused" });
    for index in [0, 2] {
        let config = &mut tagged["spec"]["configPatches"][index]["patch"]["value"]["typed_config"];
        config["config"]["vm_config"]["code"]["remote"] = json!({ "http_uri": http });
    }
    let to = json!([{ "destination": { "host": "app" } }]);
    let retried = json!({
        "apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
        "metadata": { "name": "retried", "namespace": NAMESPACE },
        "spec": { "hosts": ["app"], "http": [{
            "route": to, "retries": { "attempts": 2, "perTryTimeout": "1s" },
        }] },
    });
    let service = |name: &str, annotations: Value| {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": name, "namespace": NAMESPACE, "annotations": annotations },
            "spec": { "selector": { "gated": "yes" }, "ports": [{ "port": 443 }] },
        })
    };
    let of_balancer = "service.beta.kubernetes.io/aws-load-balancer-type";
    let bound = json!({
        "apiVersion": BINDINGS, "kind": "TargetGroupBinding",
        "metadata": { "name": "bound", "namespace": NAMESPACE },
        "spec": {
            "serviceRef": { "name": "bound", "port": 443 }, "targetGroupName": "edge",
            "targetType": "ip",
        },
    });
    Ok(vec![
        (tagged, &["LS203", "LS206", "LS207"]),
        (retried, &["LS702"]),
        (service("balanced", json!({ of_balancer: "nlb-ip" })), &["LS565"]),
        (service("bound", json!({})), &[]),
        (bound, &["LS565"]),
    ])
}

const BINDINGS: &str = "elbv2.k8s.aws/v1beta1";

/// The CRD of TargetGroupBindings, with the names and the version that AWS' controller serves, and
/// without its schema.
pub(super) fn bindings() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "targetgroupbindings.elbv2.k8s.aws" },
        "spec": {
            "group": "elbv2.k8s.aws", "scope": "Namespaced",
            "names": { "kind": "TargetGroupBinding", "plural": "targetgroupbindings" },
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    })
}
