//! Pieces of Kubernetes objects that several kinds share.

use std::collections::BTreeMap;

use crate::files::{File, GATEWAY_PATCH, other};
use laststream_base::yaml::{self, Map, Node};
use laststream_policy::Policy;

pub(crate) fn texts(map: &BTreeMap<String, String>) -> Map {
    map.iter().map(|(key, value)| (key, value.as_str())).collect()
}

pub(crate) fn unless_empty(map: Map) -> Option<Map> {
    (map != Map::new()).then_some(map)
}

pub(crate) fn reference(kind: &str, name: &str) -> Map {
    Map::of("group", "gateway.networking.k8s.io").with("kind", kind).with("name", name)
}

/// An object with its usual parts.
pub(crate) fn object(api_version: &str, kind: &str, metadata: Map, spec: Map) -> Map {
    Map::of("apiVersion", api_version)
        .with("kind", kind)
        .with("metadata", metadata)
        .with("spec", spec)
}

/// The patch of a Gateway's `spec.infrastructure`.
pub(crate) fn gateway_patch(
    policy: &Policy,
    gateway: &str,
    more: &[String],
    infrastructure: Map,
) -> File {
    let how = format!(
        "A patch for the Gateway: {}. Or write these lines into its manifest.",
        patch_gateway(policy, gateway, GATEWAY_PATCH)
    );
    let about: Vec<String> = [how].into_iter().chain(more.iter().cloned()).collect();
    other(GATEWAY_PATCH, &about, Map::of("spec", Map::of("infrastructure", infrastructure)))
}

/// The command for the file of [`gateway_patch`].
pub(crate) fn patch_gateway(policy: &Policy, gateway: &str, file: &str) -> String {
    let place = in_namespace(policy.namespace.as_deref());
    format!("kubectl{place} patch gateway {gateway} --type merge --patch-file {file}")
}

/// The option `--namespace` of kubectl.
pub(crate) fn in_namespace(namespace: Option<&str>) -> String {
    namespace.map(|name| format!(" --namespace {name}")).unwrap_or_default()
}

/// A YAML document as a text in YAML.
pub(crate) fn block(map: &Map) -> Node {
    Node::Block(yaml::write_map(map).trim_end().to_owned())
}

/// `metadata` of an object.
pub(crate) fn metadata(policy: &Policy, name: &str) -> Map {
    labelled(policy, name, texts(&policy.file.labels))
}

pub(crate) fn labelled(policy: &Policy, name: &str, labels: Map) -> Map {
    Map::of("name", name)
        .with_some("namespace", policy.namespace.as_deref())
        .with_some("labels", unless_empty(labels))
}
