//! Writes costs into the annotations of pods.

use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::api::call::Call;
use crate::api::client::Cluster;
use crate::api::error::FleetError;
use crate::costs::deletion_cost::CostChange;

/// The number of concurrent writes. Writes are few, and nothing waits for them.
const AT_A_TIME: usize = 8;

impl Cluster {
    /// Writes the changes. Returns those that were written, and the first failure. Pods that have
    /// gone meanwhile are skipped.
    pub async fn write_costs(
        &self,
        changes: Vec<CostChange>,
    ) -> (Vec<CostChange>, Option<FleetError>) {
        let mut writes = stream::iter(changes)
            .map(|change| async move { (self.write_cost(&change).await, change) })
            .buffered(AT_A_TIME);
        let (mut written, mut failure) = (Vec::new(), None);
        while let Some((result, change)) = writes.next().await {
            match result {
                Ok(()) => written.push(change),
                Err(FleetError::NotFound(_)) => {}
                Err(error) => drop(failure.get_or_insert(error)),
            }
        }
        (written, failure)
    }

    async fn write_cost(&self, change: &CostChange) -> Result<(), FleetError> {
        let pod = &change.pod;
        let call = Call::new("patch", "pods").within(&pod.namespace).named(&pod.name);
        let pods: Api<Pod> = Api::namespaced(self.client(), &pod.namespace);
        // The API server compares the UID, so that a new pod with this name is not changed.
        let annotations = change.annotations();
        let patch = json!({ "metadata": { "uid": pod.uid, "annotations": annotations } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        self.repeat(&call, || pods.patch_metadata(&pod.name, &params, &patch)).await.map(drop)
    }
}
