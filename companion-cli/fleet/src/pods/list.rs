//! Lists pods of the API server: their facts, or also the whole objects.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::Api;
use kube::api::ListParams;
use serde::Deserialize as _;
use serde_json::Value;

use crate::api::call::Call;
use crate::api::client::Cluster;
use crate::api::error::FleetError;
use crate::api::kinds::PODS;
use crate::api::objects::trimmed;
use crate::pods::facts::{PodFacts, Ports};

/// The number of names that are looked up at a time.
const AT_A_TIME: usize = 16;

/// The pods that a command asks.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The names of the pods, if they are asked by name.
    pub names: Vec<String>,
    /// Whether pods of all namespaces are asked, instead of those of the cluster's own.
    pub everywhere: bool,
    pub labels: Option<String>,
    pub node: Option<String>,
    pub ports: Ports,
}

impl Selection {
    /// The names that none of these pods has.
    fn missing(&self, pods: &[PodFacts]) -> Vec<String> {
        let is_missing = |name: &&String| !pods.iter().any(|pod| pod.name == **name);
        self.names.iter().filter(is_missing).cloned().collect()
    }

    /// The error if no pod is selected. A node or a whole cluster may have none; a namespace or a
    /// selector without a pod is a slip.
    fn slip(&self, namespace: &str) -> Option<String> {
        match &self.labels {
            _ if self.node.is_some() => None,
            Some(labels) => {
                let place = match self.everywhere {
                    true => "-A".to_owned(),
                    false => format!("-n {namespace}"),
                };
                Some(format!(
                    "no pod that runs has the labels `{labels}`: compare them with `kubectl get \
                     pods {place} --show-labels`"
                ))
            }
            None if self.everywhere => None,
            None => Some(format!(
                "namespace `{namespace}` has no pod that runs, or does not exist: name another one \
                 with `-n`, or all with `-A`"
            )),
        }
    }
}

impl Cluster {
    /// The names of the cluster's namespaces.
    pub async fn namespaces(&self) -> Result<Vec<String>, FleetError> {
        let namespaces: Api<Namespace> = Api::all(self.client());
        let params = ListParams::default();
        let list = namespaces.list_metadata(&params);
        let list = self.once(&Call::new("list", "namespaces"), list).await?;
        Ok(list.items.into_iter().filter_map(|namespace| namespace.metadata.name).collect())
    }

    /// The pods of a selection that have not ended, or those with its names.
    pub async fn pods(&self, selection: &Selection) -> Result<Vec<PodFacts>, FleetError> {
        if selection.names.is_empty() {
            return self.listed(selection, fields(selection)).await;
        }
        let names = selection.names.iter().collect::<BTreeSet<_>>();
        let pods = stream::iter(names)
            .map(|name| self.listed(selection, format!("metadata.name={name}")))
            .buffered(AT_A_TIME);
        pods.try_concat().await
    }

    /// The pods of a selection, and the names that none of them has.
    ///
    /// # Errors
    /// The API server does not list them, or the namespace or the selector has none.
    pub async fn targets(
        &self,
        selection: &Selection,
    ) -> Result<(Vec<PodFacts>, Vec<String>), FleetError> {
        let pods = self.pods(selection).await?;
        let missing = selection.missing(&pods);
        match selection.slip(self.namespace()) {
            Some(why) if pods.is_empty() && missing.is_empty() => {
                Err(FleetError::NothingFound(why))
            }
            _ => Ok((pods, missing)),
        }
    }

    async fn listed(
        &self,
        selection: &Selection,
        fields: String,
    ) -> Result<Vec<PodFacts>, FleetError> {
        let call = Call::new("list", "pods");
        let (pods, call): (Api<Pod>, _) = if selection.everywhere {
            (Api::all(self.client()), call)
        } else {
            (Api::namespaced(self.client(), self.namespace()), call.within(self.namespace()))
        };
        let page = async |params: &ListParams| pods.list(params).await;
        let facts = |pod| PodFacts::of(&pod, selection.ports);
        self.pages(&call, params(selection, &fields), page, facts).await
    }

    /// The result of `keep` for each pod of a selection that was not deleted, with all fields
    /// that the lint reads.
    ///
    /// # Errors
    /// The API server does not list them.
    pub async fn whole_pods<T>(
        &self,
        selection: &Selection,
        mut keep: impl FnMut(PodFacts, Value) -> Option<T>,
    ) -> Result<Vec<T>, FleetError> {
        let params = params(selection, &fields(selection));
        let namespace = (!selection.everywhere).then(|| self.namespace());
        let read = |pod: Value| {
            let facts = PodFacts::of(&Pod::deserialize(&pod).ok()?, selection.ports);
            if facts.terminating { None } else { keep(facts, trimmed(pod, PODS)) }
        };
        let pods =
            self.values(Call::new("list", PODS.resource), PODS, namespace, params, read).await?;
        Ok(pods.into_iter().flatten().collect())
    }
}

fn params(selection: &Selection, fields: &str) -> ListParams {
    let label_selector = selection.labels.clone();
    ListParams { label_selector, ..ListParams::default().fields(fields) }
}

/// The fields by which the API server selects pods that have not ended.
fn fields(selection: &Selection) -> String {
    let running = "status.phase!=Succeeded,status.phase!=Failed";
    match &selection.node {
        Some(node) => format!("{running},spec.nodeName={node}"),
        None => running.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_and_labels_must_have_a_pod_and_a_node_and_a_cluster_need_not() {
        let slip = |everywhere, labels: Option<&str>, node: Option<&str>| {
            let [labels, node] = [labels, node].map(|text| text.map(str::to_owned));
            Selection { everywhere, labels, node, ..Selection::default() }.slip("shop")
        };
        assert_eq!(slip(true, None, None), None);
        assert_eq!(slip(true, None, Some("n")), None);
        assert_eq!(slip(false, Some("app=web"), Some("n")), None);
        for (everywhere, labels, words) in [
            (false, None, "namespace `shop` has no pod that runs, or does not exist"),
            (
                false,
                Some("app=web"),
                "labels `app=web`: compare them with `kubectl get pods -n shop ",
            ),
            (true, Some("app=web"), "labels `app=web`: compare them with `kubectl get pods -A "),
        ] {
            let slip = slip(everywhere, labels, None).unwrap_or_default();
            assert!(slip.contains(words), "{slip}");
        }
    }
}
