//! Changes of pods' annotations: which are due, and their writes.

use std::collections::BTreeMap;

use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::call::Call;
use super::client::Cluster;
use super::error::FleetError;
use super::pod::{DELETION_COST, OWN_COST, PodFacts};

/// The number of concurrent writes. Writes are few, and nothing waits for them.
const AT_A_TIME: usize = 8;

/// A change of a pod's annotations.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    pub pod: PodFacts,
    /// The new values. `null` removes an annotation.
    pub annotations: Value,
    /// Whether the reason is that there are fewer streams, which may be so for a moment only.
    pub lowers: bool,
    /// The change in words, and as fields of JSON.
    pub words: String,
    pub fields: Value,
}

impl Edit {
    /// The removal of the cost. `None` if the pod has none, or another program's.
    pub fn clearing(pod: &PodFacts) -> Option<Self> {
        let has_cost = pod.deletion_cost.is_some() && !pod.cost_is_foreign;
        has_cost.then(|| Self {
            pod: pod.clone(),
            annotations: json!({ DELETION_COST: null, OWN_COST: null }),
            lowers: false,
            words: format!("removed {DELETION_COST}, {OWN_COST}"),
            fields: json!({ "removed": [DELETION_COST, OWN_COST] }),
        })
    }
}

/// The number of looks in a row that must see fewer streams before a change that lowers, because
/// streams come and go, and each write goes to every watcher of the pod.
const LOOKS: u32 = 3;

/// Delays changes that lower until several looks in a row have asked for one.
#[derive(Debug, Default)]
pub struct Lowering {
    looks: BTreeMap<String, u32>,
}

impl Lowering {
    /// Selects the changes of one look that are due now.
    pub fn due(&mut self, edits: Vec<Edit>) -> Vec<Edit> {
        let before = std::mem::take(&mut self.looks);
        let mut due = Vec::new();
        for edit in edits {
            let looks = before.get(&edit.pod.uid).copied().unwrap_or_default() + 1;
            if !edit.lowers || looks >= LOOKS {
                due.push(edit);
            } else {
                self.looks.insert(edit.pod.uid, looks);
            }
        }
        due
    }
}

impl Cluster {
    /// Writes the changes. Returns those that were written, and the first failure. Pods that have
    /// gone meanwhile are skipped.
    pub async fn write(&self, edits: Vec<Edit>) -> (Vec<Edit>, Option<FleetError>) {
        let mut writes = stream::iter(edits)
            .map(|edit| async move { (self.write_one(&edit).await, edit) })
            .buffered(AT_A_TIME);
        let (mut written, mut failure) = (Vec::new(), None);
        while let Some((result, edit)) = writes.next().await {
            match result {
                Ok(()) => written.push(edit),
                Err(FleetError::NotFound(_)) => {}
                Err(error) => drop(failure.get_or_insert(error)),
            }
        }
        (written, failure)
    }

    async fn write_one(&self, Edit { pod, annotations, .. }: &Edit) -> Result<(), FleetError> {
        let call = Call::new("patch", "pods");
        let call = call.within(&pod.namespace).named(&pod.name);
        let pods: Api<Pod> = Api::namespaced(self.client(), &pod.namespace);
        // The API server compares the UID, so that a new pod with this name is not changed.
        let patch = json!({ "metadata": { "uid": pod.uid, "annotations": annotations } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        self.repeat(&call, || pods.patch_metadata(&pod.name, &params, &patch)).await.map(drop)
    }
}
