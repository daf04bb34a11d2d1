//! The objects of a cluster as `lint` judges them: a template for pods is shown as the newest pod
//! has it, after injection.

use std::collections::{BTreeMap, HashMap};

use laststream_fleet::objects::trim_metadata;
use laststream_lint::live::{ClusterObject, GateAnswer, LivePod, Workload};
use serde_json::{Value, json};

use super::places::{Owner, place};
use super::running::{RunningPod, RunningPods};
use super::settings::{self, ISTIO_PROXY, containers, is_named};

/// The label that keeps Istio's webhook away from a pod.
const INJECT: &str = "sidecar.istio.io/inject";

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
        let mut newest = newest(running.newest);
        let mut pods: BTreeMap<Owner, Vec<RunningPod>> = BTreeMap::new();
        for pod in running.pods {
            pods.entry(pod.owner.clone()).or_default().push(pod);
        }
        let mut cluster = Self::default();
        for object in objects {
            let owner = Owner::of_object(&object);
            let makes_pods = object["spec"]["template"]["spec"]["containers"].is_array();
            match (pods.remove(&owner), newest.remove(&owner)) {
                (Some(own), Some(newest)) if makes_pods => {
                    cluster.add_workload(object, own, newest, answers);
                }
                _ if makes_pods && is_narrowed => {}
                _ => cluster.add(place(&object), &object),
            }
        }
        for (owner, own) in pods {
            let Some(newest) = newest.remove(&owner) else { continue };
            let pods = live(own, answers);
            let object = owner.place();
            cluster.add(object.clone(), &shown(newest));
            cluster.workloads.push(Workload { object, template: None, pods });
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

/// The newest whole pod of each owner.
fn newest(pods: HashMap<(Owner, String), (String, Value)>) -> HashMap<Owner, Value> {
    let mut by_owner: HashMap<Owner, (String, Value)> = HashMap::new();
    for ((owner, _), pod) in pods {
        let is_newer = by_owner.get(&owner).is_none_or(|other| pod.0 > other.0);
        if is_newer {
            by_owner.insert(owner, pod);
        }
    }
    by_owner.into_iter().map(|(owner, (_, pod))| (owner, pod)).collect()
}

/// The pod as `lint` reads it. A running pod without a proxy gets none any more, so the label says
/// that its injection is off.
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
    pod
}

fn live(pods: Vec<RunningPod>, answers: &HashMap<String, GateAnswer>) -> Vec<LivePod> {
    let of = |pod: RunningPod| LivePod {
        gate: answers.get(&pod.facts.uid).cloned().unwrap_or(GateAnswer::Unasked),
        name: pod.facts.name,
        settings: pod.settings,
    };
    pods.into_iter().map(of).collect()
}
