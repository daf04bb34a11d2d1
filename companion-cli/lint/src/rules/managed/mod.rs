//! LS588: what the Istio add-on of AKS blocks, by its pages.

use manifest_lint::rules::overlay::pod_specs;
use manifest_lint::{Checks, Findings, Inputs, Node, objects, of_kind};

pub(super) const CHECKS: Checks = &[("LS588", blocked_by_aks)];

/// The beginning of the add-on's revisions, such as `asm-1-27`.
const REVISION: &str = "asm-";
const KINDS: [&str; 2] = ["WasmPlugin", "ProxyConfig"];
const OF_PODS: [&str; 2] = ["terminationGracePeriodSeconds", "volumes"];
const OF_CONTAINERS: [&str; 2] = ["lifecycle", "env"];

fn blocked_by_aks<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let is_aks = |revision: &str| revision.starts_with(REVISION);
    if !objects(inputs).any(|object| object.revision().is_some_and(is_aks)) {
        return;
    }
    let mut block = |node: Node<'g>, fields: &[&str]| {
        for field in fields.iter().filter_map(|field| node.get(field)) {
            let name = field.key_text().unwrap_or_default();
            findings.at(field.key().unwrap_or(field), format!("`{name}` is not allowed there"));
        }
    };
    for pod in pod_specs(inputs) {
        block(pod, &OF_PODS);
        pod.list("containers").for_each(|container| block(container, &OF_CONTAINERS));
    }
    for object in KINDS.iter().flat_map(|kind| of_kind(inputs, kind)) {
        block(object.node, &["kind"]);
    }
}
