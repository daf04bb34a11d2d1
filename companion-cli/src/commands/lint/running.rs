//! The running pods of a cluster, read page by page: of the pods with one owner and one template
//! only the newest is kept whole.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::Pod;
use laststream_fleet::{PodFacts, Ports};
use laststream_lint::live::PodSettings;
use serde::Deserialize as _;
use serde_json::Value;

use super::places::Owner;
use super::settings;

/// A pod that runs and was not deleted.
#[derive(Debug)]
pub(super) struct RunningPod {
    pub(super) facts: PodFacts,
    pub(super) settings: PodSettings,
    pub(super) owner: Owner,
    pub(super) created: String,
}

/// All pods.
#[derive(Debug, Default)]
pub(super) struct RunningPods {
    pub(super) pods: Vec<RunningPod>,
    /// The newest pod of each owner and template, whole, with the time of its creation.
    pub(super) newest: HashMap<(Owner, String), (String, Value)>,
}

/// The labels by which controllers tell the templates of pods apart.
const TEMPLATES: [&str; 2] = ["pod-template-hash", "controller-revision-hash"];

impl RunningPods {
    /// Reads a pod; none if it was deleted.
    pub(super) fn read(&mut self, mut pod: Value, ports: Ports) -> Option<RunningPod> {
        let facts = PodFacts::of(&Pod::deserialize(&pod).ok()?, ports);
        if facts.terminating {
            return None;
        }
        let owner = Owner::of_pod(&pod);
        let labels = &pod["metadata"]["labels"];
        let template = TEMPLATES.iter().find_map(|label| labels[*label].as_str());
        let created = pod["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned();
        let read = RunningPod {
            facts,
            settings: settings::of(&pod),
            owner: owner.clone(),
            created: created.clone(),
        };
        let key = (owner, template.unwrap_or_default().to_owned());
        let is_newer = self.newest.get(&key).is_none_or(|(other, _)| created > *other);
        if is_newer {
            if let Some(fields) = pod.as_object_mut() {
                fields.remove("status");
            }
            self.newest.insert(key, (created, pod));
        }
        Some(read)
    }

    /// Keeps pods that were read, the newest first.
    pub(super) fn keep(&mut self, pods: impl Iterator<Item = RunningPod>) {
        self.pods = pods.collect();
        self.pods.sort_by(|one, two| {
            let key = |pod: &RunningPod| (pod.created.clone(), pod.facts.name.clone());
            key(two).cmp(&key(one))
        });
    }

    /// The pods whose settings say that there is a gate.
    pub(super) fn with_gate(&self) -> impl Iterator<Item = &PodFacts> {
        let pods = self.pods.iter().filter(|pod| pod.settings.expects_gate());
        pods.map(|pod| &pod.facts)
    }
}
