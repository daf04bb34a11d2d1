//! The running pods of a cluster, read one by one: of the pods with one owner only the newest is
//! kept whole.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use crate::live::{GateAnswer, LivePod, PodSettings};
use manifest_lint::ClusterObject;
use manifest_lint::places;

/// A pod that runs and was not deleted.
#[derive(Debug)]
struct RunningPod {
    uid: String,
    name: String,
    created: String,
    settings: PodSettings,
    owner: ClusterObject,
}

/// All pods.
#[derive(Debug, Default)]
pub struct RunningPods {
    pods: Vec<RunningPod>,
    /// The newest pod of each owner, whole, with the time of its creation.
    newest: HashMap<ClusterObject, (String, Value)>,
}

/// The pods of one owner, the newest first, and the newest one whole.
pub(super) struct OwnedPods {
    pub(super) pods: Vec<LivePod>,
    pub(super) newest: Value,
}

impl RunningPods {
    /// Adds a pod. Returns whether its settings show that there may be a gate.
    pub fn add(&mut self, uid: String, pod: Value) -> bool {
        let owner = places::owner(&pod);
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
        let (name, created) = (text("name"), text("creationTimestamp"));
        let settings = PodSettings::of(&pod);
        let may_have_gate = settings.may_have_gate();
        if self.newest.get(&owner).is_none_or(|(other, _)| created > *other) {
            self.newest.insert(owner.clone(), (created.clone(), pod));
        }
        self.pods.push(RunningPod { uid, name, created, settings, owner });
        may_have_gate
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// The pods by their owners, with the answers of the gates by the UIDs of their pods.
    pub(super) fn by_owner(
        mut self,
        mut answers: HashMap<String, GateAnswer>,
    ) -> BTreeMap<ClusterObject, OwnedPods> {
        let key = |pod: &RunningPod| (pod.created.clone(), pod.name.clone());
        self.pods.sort_by_cached_key(|pod| Reverse(key(pod)));
        let newest = self.newest.into_iter();
        let newest = newest.map(|(owner, (_, newest))| (owner, OwnedPods { pods: vec![], newest }));
        let mut owners: BTreeMap<_, _> = newest.collect();
        for RunningPod { uid, name, settings, owner, .. } in self.pods {
            let gate = answers.remove(&uid).unwrap_or(GateAnswer::Unasked);
            let pod = LivePod { name, settings, gate };
            owners.entry(owner).and_modify(|owned| owned.pods.push(pod));
        }
        owners
    }
}
