//! The objects of a cluster as `lint` judges them: a template for pods is shown as the newest pod
//! has it, after injection.

use std::collections::{BTreeMap, HashMap};

use laststream_fleet::ISTIO_PROXY;
use laststream_fleet::objects::trim_metadata;
use laststream_lint::live::{ClusterObject, GateAnswer, LivePod, Workload};
use serde_json::{Value, json};

use super::places::{self, place};
use super::running::{RunningPod, RunningPods};
use super::settings::{self, containers, is_named};

/// The label that keeps Istio's webhook away from a pod.
const INJECT: &str = "sidecar.istio.io/inject";
/// The annotations in which the webhook keeps copies of what it was given.
const COPIES: [&str; 2] = ["proxy.istio.io/overrides", "sidecar.istio.io/status"];

/// The objects and the running pods of a cluster.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    /// The objects, each with its place and its text as JSON.
    pub(super) objects: Vec<(ClusterObject, String)>,
    pub(super) workloads: Vec<Workload>,
}

impl Cluster {
    /// `is_narrowed`: whether only some of the pods were listed, so that workloads without any of
    /// them are left out.
    pub(super) fn of(
        objects: Vec<Value>,
        running: RunningPods,
        answers: &HashMap<String, GateAnswer>,
        is_narrowed: bool,
    ) -> Self {
        let mut newest = running.newest;
        let mut pods: BTreeMap<ClusterObject, Vec<RunningPod>> = BTreeMap::new();
        for pod in running.pods {
            pods.entry(pod.owner.clone()).or_default().push(pod);
        }
        let mut cluster = Self::default();
        for object in objects {
            let owner = places::own(&object);
            let makes_pods = object["spec"]["template"]["spec"]["containers"].is_array();
            match (pods.remove(&owner), newest.remove(&owner)) {
                (Some(own), Some((_, newest))) if makes_pods => {
                    cluster.add_workload(object, own, newest, answers);
                }
                _ if makes_pods && is_narrowed => {}
                _ => cluster.add(place(&object), &object),
            }
        }
        for (owner, own) in pods {
            let Some((_, newest)) = newest.remove(&owner) else { continue };
            let pods = live(own, answers);
            cluster.add(owner.clone(), &shown(newest));
            cluster.workloads.push(Workload { object: owner, template: None, pods });
        }
        cluster
    }

    fn add(&mut self, place: ClusterObject, object: &Value) {
        self.objects.push((place, format!("{object:#}")));
    }

    fn add_workload(
        &mut self,
        mut object: Value,
        pods: Vec<RunningPod>,
        newest: Value,
        answers: &HashMap<String, GateAnswer>,
    ) {
        let place = place(&object);
        let template = settings::of(&object["spec"]["template"]);
        let hook = template.hook.as_ref();
        // If no pod has the template yet, the template itself is judged.
        if template.differences(hook, &settings::of(&newest)).is_none() {
            let pod = shown(newest);
            object["spec"]["template"] =
                json!({ "metadata": pod["metadata"], "spec": pod["spec"] });
        }
        self.add(place.clone(), &object);
        let pods = live(pods, answers);
        self.workloads.push(Workload { object: place, template: Some(template), pods });
    }
}

/// The pod as `lint` reads it, without what Istio's webhook has written for itself. A running pod
/// without a proxy gets none any more, so the label says that its injection is off.
fn shown(mut pod: Value) -> Value {
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    let has_proxy = containers(&pod).any(|container| is_named(container, &[ISTIO_PROXY]));
    if !has_proxy {
        pod["metadata"]["labels"][INJECT] = "false".into();
    }
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        trim_metadata(metadata);
    }
    if let Some(annotations) = pod["metadata"]["annotations"].as_object_mut() {
        annotations.retain(|name, _| !COPIES.contains(&name.as_str()));
    }
    for init in pod["spec"]["initContainers"].as_array_mut().into_iter().flatten() {
        if is_named(init, &[ISTIO_PROXY]) && has_istios_hook(init) {
            init["lifecycle"]["preStop"] = Value::Null;
        }
    }
    pod
}

/// Whether a native sidecar has the stop hook that Istio gives it: no user has written it, and the
/// proxy outlives the app with it.
fn has_istios_hook(sidecar: &Value) -> bool {
    let words = sidecar["lifecycle"]["preStop"]["exec"]["command"].as_array();
    let words: Vec<&str> = words.into_iter().flatten().filter_map(Value::as_str).collect();
    words.starts_with(&["pilot-agent", "request"]) && words.ends_with(&["POST", "drain"])
}

fn live(pods: Vec<RunningPod>, answers: &HashMap<String, GateAnswer>) -> Vec<LivePod> {
    let of = |pod: RunningPod| LivePod {
        gate: answers.get(&pod.facts.uid).cloned().unwrap_or(GateAnswer::Unasked),
        name: pod.facts.name,
        settings: pod.settings,
    };
    pods.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(hook: &[&str]) -> Value {
        json!({
            "metadata": { "name": "a", "annotations": { COPIES[0]: "{}", "own": "1" } },
            "spec": { "initContainers": [{
                "name": ISTIO_PROXY, "restartPolicy": "Always",
                "lifecycle": { "preStop": { "exec": { "command": hook } } },
            }] },
        })
    }

    #[test]
    fn what_istio_has_written_is_not_a_user_s_mistake() {
        let own = ["pilot-agent", "request", "--debug-port=15020", "POST", "drain"];
        let pod_of_istio = shown(pod(&own));
        let hook = |pod: &Value| pod["spec"]["initContainers"][0]["lifecycle"]["preStop"].clone();
        assert_eq!(hook(&pod_of_istio), Value::Null);
        assert_eq!(pod_of_istio["metadata"]["annotations"], json!({ "own": "1" }));
        assert!(hook(&shown(pod(&["pilot-agent", "wait"]))).is_object());
    }

    #[test]
    fn a_pod_that_was_not_injected_says_so() {
        let plain = json!({ "metadata": { "name": "a" }, "spec": {
            "containers": [{ "name": "app" }] } });
        assert_eq!(shown(plain)["metadata"]["labels"][INJECT], "false");
        assert_eq!(shown(pod(&[]))["metadata"]["labels"], Value::Null);
    }
}
