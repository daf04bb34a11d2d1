//! The objects that rules read, so that "nothing found" never means "nothing read".

use crate::{Inputs, Node, Object, Pod, is_gateway_chart_key, objects, whole_bootstraps};

/// The ends of the API groups whose objects rules read.
const GROUPS: [&str; 3] = ["istio.io", "gateway.networking.k8s.io", "gateway.envoyproxy.io"];
/// Other kinds that rules read.
const KINDS: [&str; 8] = [
    "Application",
    "ApplicationSet",
    "HelmRelease",
    "Kustomization",
    "Namespace",
    "NodePool",
    "Service",
    "TargetGroupBinding",
];
/// Values of the charts of Istio's control plane.
const VALUES: [&str; 5] = ["meshConfig", "pilot", "cni", "ztunnel", "proxy"];

/// The number of objects, bootstraps and files of values that rules read.
pub fn objects_of_rules(inputs: &Inputs) -> usize {
    let read = objects(inputs).filter(|object| is_read(*object)).count();
    let values = inputs.documents().filter(|root| is_values(*root)).count();
    read + values + whole_bootstraps(inputs).filter(|root| Object::new(*root).is_none()).count()
}

fn is_read(object: Object<'_>) -> bool {
    let holds_texts = || {
        let data = object.node.get("data").into_iter().flat_map(Node::entries);
        data.into_iter().any(|(_, text)| text.embedded().is_some())
    };
    GROUPS.iter().any(|group| object.group().ends_with(group))
        || KINDS.contains(&object.kind)
        || Pod::of(object).is_some()
        || object.kind == "ConfigMap" && holds_texts()
}

/// Whether a document is a file of values of one of Istio's charts.
fn is_values(root: Node<'_>) -> bool {
    let is_key = |key: &str| VALUES.contains(&key) || is_gateway_chart_key(key);
    root.carrier().is_none()
        && Object::new(root).is_none()
        && root.entries().any(|(key, _)| is_key(key))
}
