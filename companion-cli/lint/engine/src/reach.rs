//! The proxies that a resource reaches, as far as manifests show: enough to prove that two
//! resources never reach the same proxy.

use crate::{Node, Object, Overlaid, Patch, Pod, ROOT_NAMESPACE, near, patch_of};

/// The proxies that a part of Envoy's configuration reaches.
#[derive(Debug, PartialEq, Eq)]
pub enum Reach {
    Selector(ProxySelector),
    /// The one Envoy whose configuration has the part: the document's tree, and its root there.
    Envoy {
        tree: u32,
        root: u32,
    },
}

/// What is selected: a pod by its labels, or the pods of an overlay's Gateways.
pub enum Selected<'g> {
    Pod { namespace: Option<&'g str>, labels: Vec<(&'g str, &'g str)> },
    Gateways(Overlaid<'g>),
}

impl<'g> Selected<'g> {
    pub fn of(pod: Pod<'g>) -> Self {
        match pod.is_overlay() {
            true => Self::Gateways(Overlaid::by(pod)),
            false => Self::Pod { namespace: pod.namespace(), labels: pod.labels() },
        }
    }
}

/// The criteria by which a resource selects proxies.
#[derive(Debug, PartialEq, Eq)]
pub struct ProxySelector {
    name: (String, String),
    /// The tree and the number of its object.
    place: (u32, u32),
    pub namespace: Option<String>,
    pub labels: Vec<(String, String)>,
    /// The kind and name of each.
    pub targets: Vec<(String, String)>,
    version: Option<String>,
    /// The revision of Istio whose control plane reads the resource. All revisions read one without
    /// it.
    revision: Option<String>,
}

impl Reach {
    pub fn of(node: Node<'_>) -> Self {
        match patch_of(node) {
            Some(patch) => Self::Selector(ProxySelector::of(patch)),
            None => Self::Envoy { tree: node.tree, root: node.upwards().last().unwrap_or(node).id },
        }
    }

    /// Whether both parts are in one resource, or in one Envoy's configuration.
    pub fn is_of_resource(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Selector(one), Self::Selector(two)) => one.place == two.place,
            _ => self == other,
        }
    }

    /// Whether one Envoy may get both parts.
    pub fn may_meet(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Selector(one), Self::Selector(two)) => one.may_meet(two),
            _ => self == other,
        }
    }
}

impl ProxySelector {
    pub fn of(patch: Patch<'_>) -> Self {
        let version = patch.proxy_version().and_then(Node::text).map(str::to_owned);
        Self { version, ..Self::selected(patch.filter, patch.filter.selector()) }
    }

    /// The criteria of a WasmPlugin or a ProxyConfig.
    pub fn of_plugin(plugin: Object<'_>) -> Self {
        Self::selected(plugin, plugin.node.fields("spec.selector.matchLabels"))
    }

    pub fn selected<'g>(resource: Object<'g>, selector: Option<Node<'g>>) -> Self {
        let text =
            |node: Option<Node<'g>>| node.and_then(Node::text).unwrap_or_default().to_owned();
        let labels = selector.into_iter().flat_map(Node::entries);
        Self {
            name: (resource.kind.to_owned(), resource.name().to_owned()),
            place: (resource.node.tree, resource.node.id),
            namespace: resource.namespace().map(str::to_owned),
            labels: labels.map(|(key, value)| (key.to_owned(), text(Some(value)))).collect(),
            targets: resource
                .policy_targets()
                .map(|target| (text(target.get("kind")), text(target.get("name"))))
                .collect(),
            version: None,
            revision: resource.revision().map(str::to_owned),
        }
    }

    /// Whether the resource may be for proxies of this namespace.
    fn reaches(&self, namespace: Option<&str>) -> bool {
        let home = self.namespace.as_deref();
        home == Some(ROOT_NAMESPACE) || near(home, namespace)
    }

    /// Whether the resource selects a pod of this namespace with these labels. One with targets
    /// selects no such pod.
    pub fn selects(&self, namespace: Option<&str>, labels: &[(&str, &str)]) -> bool {
        self.reaches(namespace)
            && self.targets.is_empty()
            && self
                .labels
                .iter()
                .all(|(key, value)| labels.contains(&(key.as_str(), value.as_str())))
    }

    pub fn may_select(&self, pods: &Selected<'_>) -> bool {
        match pods {
            Selected::Pod { namespace, labels } => self.selects(*namespace, labels),
            Selected::Gateways(overlaid) => self.may_select_gateway(overlaid),
        }
    }

    /// Whether the resource may select a pod that Istio makes for one of these Gateways.
    pub fn may_select_gateway(&self, overlaid: &Overlaid<'_>) -> bool {
        let by_target = |(kind, name): &(String, String)| match kind.as_str() {
            "Gateway" => overlaid.may_be_named(name),
            "GatewayClass" => overlaid.may_be_of(name),
            _ => false,
        };
        let by_label = |(key, value): &(String, String)| match key.as_str() {
            "gateway.networking.k8s.io/gateway-name" => overlaid.may_be_named(value),
            "gateway.networking.k8s.io/gateway-class-name" => overlaid.may_be_of(value),
            _ => false,
        };
        self.reaches(overlaid.namespace)
            && (self.targets.is_empty() || self.targets.iter().any(by_target))
            && self.labels.iter().all(by_label)
    }

    /// Whether both are the same resource, given twice: a cluster can have only one of them.
    fn replaces(&self, other: &Self) -> bool {
        self.place != other.place && self.name == other.name && self.namespace == other.namespace
    }

    /// Whether one proxy may get both, judged by namespaces, labels, targets, versions and
    /// revisions.
    pub fn may_meet(&self, other: &Self) -> bool {
        if self.replaces(other) {
            return false;
        }
        let spaces =
            self.reaches(other.namespace.as_deref()) || other.reaches(self.namespace.as_deref());
        let differ = |key: &String, value: &String| {
            other.labels.iter().any(|(there, text)| there == key && text != value)
        };
        let targets = self.targets.is_empty()
            || other.targets.is_empty()
            || self.targets.iter().any(|target| other.targets.contains(target));
        let versions = self.version.as_ref().zip(other.version.as_ref());
        let revisions = self.revision.as_ref().zip(other.revision.as_ref());
        let versions = [versions, revisions].into_iter().flatten().all(|(one, two)| one == two);
        spaces && targets && versions && !self.labels.iter().any(|(key, value)| differ(key, value))
    }
}
