//! LS56x: ConfigMaps that Istio merges over the objects that it makes for a Gateway of the Gateway
//! API. Istio reports their errors only in istiod's log.

use std::collections::HashSet;

use crate::{
    CLASS_LABEL, Checks, Findings, Inputs, Node, OVERLAY_KEYS, Object, objects, of_kind,
    overlay_template,
};

pub const CHECKS: Checks =
    &[("LS561", not_merged), ("LS561", other_container), ("LS563", mixed_hook)];

/// The kinds of hook, of which a container has one at most.
const HOOKS: [&str; 4] = ["exec", "httpGet", "sleep", "tcpSocket"];
/// Lists that are merged by `name` in the spec of a pod.
const MERGED_BY_NAME: [&str; 3] = ["containers", "initContainers", "volumes"];

/// The ConfigMaps that a Gateway names, that are the default of a class, or that hold a Deployment.
fn overlays(inputs: &Inputs) -> impl Iterator<Item = Object<'_>> {
    let gateways = of_kind(inputs, "Gateway");
    let names: HashSet<&str> =
        gateways.filter_map(|gateway| gateway.parameters("ConfigMap")).collect();
    objects(inputs).filter(move |object| {
        let labels = object.node.fields("metadata.labels");
        let is_default = labels.is_some_and(|labels| labels.get(CLASS_LABEL).is_some());
        object.kind == "ConfigMap"
            && (is_default || names.contains(object.name()) || overlay_template(*object).is_some())
    })
}

fn not_merged<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let data = overlays(inputs).filter_map(|overlay| overlay.node.get("data"));
    for (key, value) in data.flat_map(Node::entries) {
        if !OVERLAY_KEYS.contains(&key) {
            findings.at(value.key().unwrap_or(value), format!("`{key}` is none of Istio's keys"));
        } else if value.embedded().is_none_or(|root| !root.is_map()) {
            findings.at(value, format!("`{key}` is not a map in YAML"));
        }
    }
    for pod in pod_specs(inputs) {
        for list in MERGED_BY_NAME.iter().filter_map(|name| pod.get(name)) {
            for item in list.items().filter(|item| item.get("name").is_none()) {
                findings.at(item, "the item has no `name`, by which it would be merged");
            }
        }
    }
}

/// The spec of the pods in each overlay's Deployment.
pub fn pod_specs(inputs: &Inputs) -> impl Iterator<Item = Node<'_>> {
    overlays(inputs).filter_map(|overlay| overlay_template(overlay)?.get("spec"))
}

fn containers(inputs: &Inputs) -> impl Iterator<Item = Node<'_>> {
    pod_specs(inputs).flat_map(|pod| pod.list("containers"))
}

fn other_container<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for container in containers(inputs).filter(|container| container.get("image").is_none()) {
        if let Some(name) = container.get("name").filter(|name| name.text() != Some("istio-proxy"))
        {
            let message = format!("`{}` has no image", name.text().unwrap_or_default());
            findings.at(name, message);
        }
    }
}

fn mixed_hook<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for container in containers(inputs) {
        let hook = container.fields("lifecycle.preStop");
        let Some(hook) = hook.filter(|hook| hook.is_map()) else { continue };
        if let Some(patch) = hook.get("$patch") {
            findings.at(patch, "without a hook in another layer, this one is lost");
        } else if let Some(missing) = HOOKS.iter().find(|kind| hook.get(kind).is_none()) {
            findings.at(hook, format!("another layer's `{missing}` stays beside it"));
        }
    }
}
