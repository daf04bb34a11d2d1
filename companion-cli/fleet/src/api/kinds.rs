//! The kinds of objects that are read, and the paths of the API server to them.

/// A kind of objects that `lint` judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectKind {
    /// The API group; empty for Kubernetes' core.
    pub group: &'static str,
    version: &'static str,
    /// The name of the kind in paths and rights.
    pub resource: &'static str,
    /// The name of the kind in objects.
    pub kind: &'static str,
    pub(crate) scope: Scope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
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
) -> ObjectKind {
    ObjectKind { group, version, resource, kind, scope }
}

impl ObjectKind {
    /// Its `apiVersion`.
    pub(crate) fn api(self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The path of all its objects, or of those in a namespace.
    pub(crate) fn path(self, namespace: Option<&str>) -> String {
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
pub const KINDS: &[ObjectKind] = &[
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
    kind(["", "v1"], "services", "Service", Scope::Namespace),
    kind(
        ["elbv2.k8s.aws", "v1beta1"],
        "targetgroupbindings",
        "TargetGroupBinding",
        Scope::Namespace,
    ),
];

pub(crate) const DEPLOYMENTS: ObjectKind =
    kind(APPS, "deployments", "Deployment", Scope::Namespace);
pub(crate) const STATEFUL_SETS: ObjectKind =
    kind(APPS, "statefulsets", "StatefulSet", Scope::Namespace);
pub(crate) const DAEMON_SETS: ObjectKind = kind(APPS, "daemonsets", "DaemonSet", Scope::Namespace);
/// Rollouts of Argo Rollouts.
pub(crate) const ROLLOUTS: ObjectKind =
    kind(["argoproj.io", "v1alpha1"], "rollouts", "Rollout", Scope::Namespace);

/// ConfigMaps are read one by one, and listed in the root namespace with one of these labels: the
/// settings of the mesh, and the defaults of the classes of Gateways.
pub const CONFIG_MAPS: ObjectKind = kind(["", "v1"], "configmaps", "ConfigMap", Scope::Namespace);
pub(crate) const CONFIG_LABELS: [&str; 2] = ["istio.io/rev", "gateway.istio.io/defaults-for-class"];

pub(crate) const PODS: ObjectKind = kind(["", "v1"], "pods", "Pod", Scope::Namespace);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_the_group_and_the_namespace() {
        assert_eq!(KINDS[0].path(Some("shop")), "/apis/apps/v1/namespaces/shop/deployments");
        assert_eq!(CONFIG_MAPS.path(None), "/api/v1/configmaps");
    }
}
