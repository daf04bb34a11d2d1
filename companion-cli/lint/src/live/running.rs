//! The running pods of a cluster, read page by page: of the pods with one owner only the newest is
//! kept whole.

use std::cmp::Reverse;
use std::collections::HashMap;

use laststream_fleet::PodFacts;
use laststream_lint::live::{ClusterObject, PodSettings};
use serde_json::Value;

use super::{places, settings};

/// A pod that runs and was not deleted.
#[derive(Debug)]
pub(super) struct RunningPod {
    pub(super) facts: PodFacts,
    pub(super) settings: PodSettings,
    pub(super) owner: ClusterObject,
    pub(super) created: String,
}

/// All pods.
#[derive(Debug, Default)]
pub(super) struct RunningPods {
    pub(super) pods: Vec<RunningPod>,
    /// The newest pod of each owner, whole, with the time of its creation.
    pub(super) newest: HashMap<ClusterObject, (String, Value)>,
}

impl RunningPods {
    pub(super) fn read(&mut self, facts: PodFacts, mut pod: Value) -> RunningPod {
        let owner = places::owner(&pod);
        let created = pod["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned();
        let settings = settings::of(&pod);
        let is_newer = self.newest.get(&owner).is_none_or(|(other, _)| created > *other);
        if is_newer {
            if let Some(fields) = pod.as_object_mut() {
                fields.remove("status");
            }
            self.newest.insert(owner.clone(), (created.clone(), pod));
        }
        RunningPod { facts, settings, owner, created }
    }

    /// Keeps pods that were read, the newest first.
    pub(super) fn keep(&mut self, mut pods: Vec<RunningPod>) {
        let key = |pod: &RunningPod| (pod.created.clone(), pod.facts.name.clone());
        pods.sort_by_cached_key(|pod| Reverse(key(pod)));
        self.pods = pods;
    }

    /// The pods whose settings say that there is a gate.
    pub(super) fn with_gate(&self) -> Vec<PodFacts> {
        let pods = self.pods.iter().filter(|pod| pod.settings.expects_gate());
        pods.map(|pod| pod.facts.clone()).collect()
    }
}
