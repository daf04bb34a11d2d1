//! Objects of any kind as the API server has them, for `lint`. They are only read.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, stream};
use kube::api::ListParams;
use serde_json::{Map, Value};

use crate::api::call::Call;
use crate::api::client::Cluster;
use crate::api::error::FleetError;
use crate::api::kinds::{CONFIG_LABELS, CONFIG_MAPS, KINDS, ObjectKind, Scope};

/// The annotation that names a ConfigMap with a part of the bootstrap.
const BOOTSTRAP: &str = "sidecar.istio.io/bootstrapOverride";
/// The annotation in which kubectl keeps a copy of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The number of lists that are requested at a time.
const AT_A_TIME: usize = 4;

/// The objects of a cluster.
#[derive(Debug, Default)]
pub struct Objects {
    /// The objects, without the fields that the API server adds.
    pub objects: Vec<Value>,
    /// Why a part of them is missing, such as a right.
    pub refused: Vec<FleetError>,
}

impl Objects {
    /// Takes in one answer. A kind that the cluster does not have is no error: for it the API
    /// server answers with a page instead of an object.
    fn add(&mut self, answer: Result<Vec<Value>, FleetError>) -> Result<(), FleetError> {
        match answer {
            Ok(objects) => self.objects.extend(objects),
            Err(FleetError::NotFound(_) | FleetError::Api { status: 404, .. }) => {}
            Err(error) if error.is_final() => return Err(error),
            Err(error) => self.refused.push(error),
        }
        Ok(())
    }
}

/// A list to request: a kind, a namespace, a label.
type Wanted<'a> = (ObjectKind, Option<&'a str>, Option<&'a str>);

impl Cluster {
    /// The objects of all namespaces or of the cluster's own, and those of Istio's root namespace
    /// that count for these.
    ///
    /// # Errors
    /// The API server cannot be asked.
    pub async fn objects(&self, everywhere: bool, root: &str) -> Result<Objects, FleetError> {
        let groups = self.groups().await?;
        let namespace = (!everywhere).then(|| self.namespace());
        let mut lists: Vec<Wanted<'_>> = Vec::new();
        let is_there = |kind: &&ObjectKind| {
            kind.group.is_empty() || groups.as_ref().is_none_or(|all| all.contains(kind.group))
        };
        for kind in KINDS.iter().filter(is_there) {
            lists.push((*kind, namespace.filter(|_| kind.scope != Scope::Cluster), None));
            if kind.scope == Scope::Mesh && namespace.is_some_and(|namespace| namespace != root) {
                lists.push((*kind, Some(root), None));
            }
        }
        lists.extend(CONFIG_LABELS.map(|label| (CONFIG_MAPS, Some(root), Some(label))));
        let mut objects = Objects::default();
        let mut answers =
            stream::iter(lists).map(|lists| self.listed_objects(lists)).buffered(AT_A_TIME);
        while let Some(answer) = answers.next().await {
            objects.add(answer)?;
        }
        let config_maps = named_config_maps(&objects.objects);
        let mut answers = stream::iter(config_maps)
            .map(|(space, name)| async move { self.config_map(&space, &name).await })
            .buffered(AT_A_TIME);
        while let Some(answer) = answers.next().await {
            objects.add(answer.map(|found| vec![found]))?;
        }
        Ok(objects)
    }

    /// Kubernetes' version, major and minor; `None` if the API server does not say it.
    pub async fn version(&self) -> Option<(u32, u32)> {
        let client = self.client();
        let call = Call::new("get", "version").of_lint();
        let version = self.repeat(&call, || client.apiserver_version()).await.ok()?;
        let minor = version.minor.trim_end_matches('+'); // as some clouds write it
        Some((version.major.parse().ok()?, minor.parse().ok()?))
    }

    /// The API groups of the cluster; `None` if the API server does not say which.
    async fn groups(&self) -> Result<Option<BTreeSet<String>>, FleetError> {
        let call = Call::new("get", "apis").of_lint();
        let client = self.client();
        match self.repeat(&call, || client.list_api_groups()).await {
            Ok(list) => Ok(Some(list.groups.into_iter().map(|group| group.name).collect())),
            Err(error) if error.is_final() => Err(error),
            Err(_) => Ok(None),
        }
    }

    async fn listed_objects(
        &self,
        (kind, namespace, label): Wanted<'_>,
    ) -> Result<Vec<Value>, FleetError> {
        let label_selector = label.map(str::to_owned);
        let params = ListParams { label_selector, ..ListParams::default() };
        let call = Call::new("list", kind.resource).of_lint();
        self.values(call, kind, namespace, params, |object| trimmed(object, kind)).await
    }

    async fn config_map(&self, namespace: &str, name: &str) -> Result<Value, FleetError> {
        let call = Call::new("get", CONFIG_MAPS.resource).within(namespace).named(name).of_lint();
        Ok(trimmed(self.read(&call, CONFIG_MAPS, namespace, name).await?, CONFIG_MAPS))
    }
}

/// The object with its kind, which items of a list do not name, and without the fields that no user
/// has written.
pub(crate) fn trimmed(mut object: Value, kind: ObjectKind) -> Value {
    let Some(fields) = object.as_object_mut() else { return object };
    fields.remove("status");
    fields.insert("apiVersion".to_owned(), kind.api().into());
    fields.insert("kind".to_owned(), kind.kind.into());
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        trim_metadata(metadata);
    }
    object
}

/// Removes the fields of `metadata` that no user has written.
fn trim_metadata(metadata: &mut Map<String, Value>) {
    for field in ["managedFields", "resourceVersion", "uid", "generation", "selfLink"] {
        metadata.remove(field);
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
}

/// Namespaces and names of the ConfigMaps that Gateways and pods name.
fn named_config_maps(objects: &[Value]) -> BTreeSet<(String, String)> {
    let mut config_maps = BTreeSet::new();
    for object in objects {
        let parameters = &object["spec"]["infrastructure"]["parametersRef"];
        let of_gateway = parameters["name"].as_str().filter(|_| parameters["kind"] == "ConfigMap");
        let annotations = &object["spec"]["template"]["metadata"]["annotations"];
        let names = of_gateway.into_iter().chain(annotations[BOOTSTRAP].as_str());
        let space = object["metadata"]["namespace"].as_str().unwrap_or_default();
        config_maps.extend(names.map(|name| (space.to_owned(), name.to_owned())));
    }
    config_maps
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_as_its_user_wrote_it() {
        let stored = json!({
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "u", "managedFields": [{}],
                "annotations": { "a": "b", LAST_APPLIED: "{}" },
            },
            "spec": { "replicas": 2 }, "status": { "replicas": 2 },
        });
        let written = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "web", "namespace": "shop", "annotations": { "a": "b" } },
            "spec": { "replicas": 2 },
        });
        assert_eq!(trimmed(stored, KINDS[0]), written);
    }

    #[test]
    fn config_maps_of_gateways_and_of_bootstraps_are_named() {
        let reference = json!({ "group": "", "kind": "ConfigMap", "name": "overlay" });
        let gateway = json!({
            "metadata": { "namespace": "edge" },
            "spec": { "infrastructure": { "parametersRef": reference } },
        });
        let template = json!({ "metadata": { "annotations": { BOOTSTRAP: "part" } } });
        let web = json!({ "metadata": { "namespace": "shop" }, "spec": { "template": template } });
        let proxy = json!({ "spec": { "infrastructure": { "parametersRef": {
            "kind": "EnvoyProxy", "name": "own" } } } });
        let named: Vec<_> = named_config_maps(&[gateway, web, proxy]).into_iter().collect();
        let names = [("edge", "overlay"), ("shop", "part")];
        assert_eq!(named, names.map(|(space, name)| (space.to_owned(), name.to_owned())));
    }
}
