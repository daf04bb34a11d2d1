//! Objects of any kind as the API server has them, for `lint`. They are only read.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{GetParams, ListParams, ObjectList, Request};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::call::Call;
use super::client::Cluster;
use super::error::FleetError;
use super::pods::{PodFacts, Selection, fields, params};

/// A kind of objects that `lint` judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// The API group; empty for Kubernetes' core.
    pub group: &'static str,
    version: &'static str,
    /// The name of the kind in paths and rights.
    pub resource: &'static str,
    /// The name of the kind in objects.
    pub kind: &'static str,
    scope: Scope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// The objects have no namespace.
    Cluster,
    Namespace,
    /// Objects of Istio's root namespace count for all namespaces.
    Mesh,
}

const fn kind(
    [group, version]: [&'static str; 2],
    resource: &'static str,
    kind: &'static str,
    scope: Scope,
) -> Kind {
    Kind { group, version, resource, kind, scope }
}

impl Kind {
    /// Its `apiVersion`.
    fn api(self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The path of all its objects, or of those in a namespace.
    fn path(self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "api" } else { "apis" };
        let place = namespace.map(|name| format!("/namespaces/{name}")).unwrap_or_default();
        format!("/{root}/{}{place}/{}", self.api(), self.resource)
    }
}

const APPS: [&str; 2] = ["apps", "v1"];
const EXTENSIONS: [&str; 2] = ["extensions.istio.io", "v1alpha1"];
const NETWORKING: &str = "networking.istio.io";
const GATEWAY_API: [&str; 2] = ["gateway.networking.k8s.io", "v1"];
const ENVOY_GATEWAY: [&str; 2] = ["gateway.envoyproxy.io", "v1alpha1"];

/// The kinds that are listed. Each is one that a rule reads.
pub const KINDS: &[Kind] = &[
    DEPLOYMENTS,
    STATEFUL_SETS,
    DAEMON_SETS,
    ROLLOUTS,
    kind(["batch", "v1"], "cronjobs", "CronJob", Scope::Namespace),
    kind([NETWORKING, "v1alpha3"], "envoyfilters", "EnvoyFilter", Scope::Mesh),
    kind([NETWORKING, "v1beta1"], "proxyconfigs", "ProxyConfig", Scope::Mesh),
    kind([NETWORKING, "v1"], "gateways", "Gateway", Scope::Namespace),
    kind([NETWORKING, "v1"], "virtualservices", "VirtualService", Scope::Namespace),
    kind(EXTENSIONS, "trafficextensions", "TrafficExtension", Scope::Mesh),
    kind(EXTENSIONS, "wasmplugins", "WasmPlugin", Scope::Mesh),
    kind(GATEWAY_API, "gatewayclasses", "GatewayClass", Scope::Cluster),
    kind(GATEWAY_API, "gateways", "Gateway", Scope::Namespace),
    kind(GATEWAY_API, "httproutes", "HTTPRoute", Scope::Namespace),
    kind(GATEWAY_API, "grpcroutes", "GRPCRoute", Scope::Namespace),
    kind(ENVOY_GATEWAY, "envoyproxies", "EnvoyProxy", Scope::Namespace),
    kind(ENVOY_GATEWAY, "envoyextensionpolicies", "EnvoyExtensionPolicy", Scope::Namespace),
    kind(ENVOY_GATEWAY, "envoypatchpolicies", "EnvoyPatchPolicy", Scope::Namespace),
    kind(ENVOY_GATEWAY, "clienttrafficpolicies", "ClientTrafficPolicy", Scope::Namespace),
    kind(ENVOY_GATEWAY, "backendtrafficpolicies", "BackendTrafficPolicy", Scope::Namespace),
    kind(["karpenter.sh", "v1"], "nodepools", "NodePool", Scope::Cluster),
];

pub(super) const DEPLOYMENTS: Kind = kind(APPS, "deployments", "Deployment", Scope::Namespace);
pub(super) const STATEFUL_SETS: Kind = kind(APPS, "statefulsets", "StatefulSet", Scope::Namespace);
pub(super) const DAEMON_SETS: Kind = kind(APPS, "daemonsets", "DaemonSet", Scope::Namespace);
/// Rollouts of Argo Rollouts.
pub(super) const ROLLOUTS: Kind =
    kind(["argoproj.io", "v1alpha1"], "rollouts", "Rollout", Scope::Namespace);

/// ConfigMaps are read one by one, and listed in the root namespace with one of these labels: the
/// settings of the mesh, and the defaults of the classes of Gateways.
pub const CONFIG_MAPS: Kind = kind(["", "v1"], "configmaps", "ConfigMap", Scope::Namespace);
const CONFIG_LABELS: [&str; 2] = ["istio.io/rev", "gateway.istio.io/defaults-for-class"];

const PODS: Kind = kind(["", "v1"], "pods", "Pod", Scope::Namespace);
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
type Wanted<'a> = (Kind, Option<&'a str>, Option<&'a str>);

impl Cluster {
    /// The objects of all namespaces or of the cluster's own, and those of Istio's root namespace
    /// that count for these.
    ///
    /// # Errors
    /// The API server cannot be asked.
    pub async fn objects(&self, everywhere: bool, root: &str) -> Result<Objects, FleetError> {
        let groups = self.groups().await?;
        let own = (!everywhere).then(|| self.namespace());
        let mut wanted: Vec<Wanted<'_>> = Vec::new();
        for kind in
            KINDS.iter().filter(|kind| groups.as_ref().is_none_or(|all| all.contains(kind.group)))
        {
            wanted.push((*kind, own.filter(|_| kind.scope != Scope::Cluster), None));
            if kind.scope == Scope::Mesh && own.is_some_and(|own| own != root) {
                wanted.push((*kind, Some(root), None));
            }
        }
        wanted.extend(CONFIG_LABELS.map(|label| (CONFIG_MAPS, Some(root), Some(label))));
        let mut objects = Objects::default();
        let mut answers =
            stream::iter(wanted).map(|wanted| self.listed_objects(wanted)).buffered(AT_A_TIME);
        while let Some(answer) = answers.next().await {
            objects.add(answer)?;
        }
        let named = named_config_maps(&objects.objects);
        let mut answers = stream::iter(named)
            .map(|(space, name)| async move { self.config_map(&space, &name).await })
            .buffered(AT_A_TIME);
        while let Some(answer) = answers.next().await {
            objects.add(answer.map(|found| vec![found]))?;
        }
        Ok(objects)
    }

    /// The result of `keep` for each pod of a selection that was not deleted, with all of its
    /// fields.
    ///
    /// # Errors
    /// The API server does not list them.
    pub async fn whole_pods<T>(
        &self,
        selection: &Selection,
        mut keep: impl FnMut(PodFacts, Value) -> Option<T>,
    ) -> Result<Vec<T>, FleetError> {
        let params = params(selection, &fields(selection));
        let own = (!selection.everywhere).then(|| self.namespace());
        let read = |pod: Value| {
            let facts = PodFacts::of(&Pod::deserialize(&pod).ok()?, selection.ports);
            if facts.terminating { None } else { keep(facts, pod) }
        };
        let pods = self.values(Call::new("list", PODS.resource), PODS, own, params, read).await?;
        Ok(pods.into_iter().flatten().collect())
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

    async fn values<T>(
        &self,
        call: Call,
        kind: Kind,
        namespace: Option<&str>,
        params: ListParams,
        keep: impl FnMut(Value) -> T,
    ) -> Result<Vec<T>, FleetError> {
        let call = namespace.into_iter().fold(call, Call::within);
        let (client, path) = (self.client(), Request::new(kind.path(namespace)));
        let page = async |params: &ListParams| -> Result<ObjectList<Value>, kube::Error> {
            let request = path.list(params).map_err(kube::Error::BuildRequest)?;
            client.request(request).await
        };
        self.pages(&call, params, page, keep).await
    }

    async fn config_map(&self, namespace: &str, name: &str) -> Result<Value, FleetError> {
        let call = Call::new("get", CONFIG_MAPS.resource).within(namespace).named(name).of_lint();
        Ok(trimmed(self.read(&call, CONFIG_MAPS, namespace, name).await?, CONFIG_MAPS))
    }

    /// One object. A kind that the cluster does not have has no objects: for it the API server
    /// answers with a page instead of an object.
    pub(super) async fn read(
        &self,
        call: &Call,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Value, FleetError> {
        let (client, path) = (self.client(), Request::new(kind.path(Some(namespace))));
        let answer = self.repeat(call, || async {
            let request = path.get(name, &GetParams::default());
            client.request(request.map_err(kube::Error::BuildRequest)?).await
        });
        match answer.await {
            Err(FleetError::Api { status: 404, .. }) => Err(FleetError::NotFound(call.object())),
            answer => answer,
        }
    }
}

/// The object with its kind, which items of a list do not name, and without the fields that no user
/// has written.
fn trimmed(mut object: Value, kind: Kind) -> Value {
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
pub fn trim_metadata(metadata: &mut Map<String, Value>) {
    for field in ["managedFields", "resourceVersion", "uid", "generation", "selfLink"] {
        metadata.remove(field);
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
}

/// Namespaces and names of the ConfigMaps that Gateways and pods name.
fn named_config_maps(objects: &[Value]) -> BTreeSet<(String, String)> {
    let mut named = BTreeSet::new();
    for object in objects {
        let parameters = &object["spec"]["infrastructure"]["parametersRef"];
        let of_gateway = parameters["name"].as_str().filter(|_| parameters["kind"] == "ConfigMap");
        let annotations = &object["spec"]["template"]["metadata"]["annotations"];
        let names = of_gateway.into_iter().chain(annotations[BOOTSTRAP].as_str());
        let space = object["metadata"]["namespace"].as_str().unwrap_or_default();
        named.extend(names.map(|name| (space.to_owned(), name.to_owned())));
    }
    named
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

    #[test]
    fn paths_have_the_group_and_the_namespace() {
        assert_eq!(KINDS[0].path(Some("shop")), "/apis/apps/v1/namespaces/shop/deployments");
        assert_eq!(CONFIG_MAPS.path(None), "/api/v1/configmaps");
    }
}
