//! LS56x: ConfigMaps that Istio merges over the objects that it makes for a Gateway of the Gateway
//! API. Istio reports their errors only in istiod's log.

use std::collections::HashSet;

use crate::finding::{Findings, Rule, Severity};
use crate::inputs::{Inputs, OVERLAY_KEYS};
use crate::node::Node;
use crate::objects::{Object, objects, of_kind};
use crate::pods::CLASS_LABEL;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "LS561",
        severity: Severity::Error,
        title: "Istio cannot merge the overlay of a Gateway",
        why: "istiod merges each key of the ConfigMap over an object that it makes, as a strategic \
            merge patch. With an unknown key, a text that is not YAML, or an item without its \
            merge key it changes nothing, and only its log says so (`error rendering templates`): \
            the Gateway stays Programmed, and the former Deployment runs on, without the hook.",
        fix: "Use the keys deployment, service, serviceAccount, horizontalPodAutoscaler, \
            podDisruptionBudget; or render the ConfigMap: `laststream render overlay`.",
        check: not_merged,
    },
    Rule {
        code: "LS562",
        severity: Severity::Error,
        title: "the overlay changes a container that Istio does not make",
        why: "The container of a gateway and of a waypoint is `istio-proxy`. An item of another \
            name is a new container without an image: the API server refuses the Deployment, and \
            only istiod's log says so.",
        fix: "Write `name: istio-proxy`.",
        check: other_container,
    },
    Rule {
        code: "LS563",
        severity: Severity::Warning,
        title: "the overlay's stop hook is lost, or mixed with the hook of another layer",
        why: "Values of Istio's charts, the class's own overlay and this one are merged. Two hooks \
            of different kinds become one hook of two kinds. The API server refuses it, and \
            only istiod's log says so. With `$patch: replace` the hook is lost if no other layer \
            has one.",
        fix: "Write null for the other kinds: `preStop: {exec: …, httpGet: null, sleep: null, \
            tcpSocket: null}`.",
        check: mixed_hook,
    },
];

/// The kinds of hook, of which a container has one at most.
const HOOKS: [&str; 4] = ["exec", "httpGet", "sleep", "tcpSocket"];
/// Lists that are merged by `name` in the spec of a pod.
const MERGED_BY_NAME: [&str; 3] = ["containers", "initContainers", "volumes"];

/// The ConfigMaps that a Gateway names, that are the default of a class, or that hold a Deployment.
fn overlays(inputs: &Inputs) -> impl Iterator<Item = Object<'_>> {
    let named: HashSet<&str> = of_kind(inputs, "Gateway")
        .filter_map(|gateway| {
            let parameters = gateway.spec()?.fields("infrastructure.parametersRef")?;
            let is_map = parameters.text_of("kind") == Some("ConfigMap");
            parameters.text_of("name").filter(|_| is_map)
        })
        .collect();
    objects(inputs).filter(move |object| {
        let labels = object.node.fields("metadata.labels");
        let is_default = labels.is_some_and(|labels| labels.get(CLASS_LABEL).is_some());
        let template =
            || object.node.fields("data.deployment")?.embedded()?.fields("spec.template");
        object.kind == "ConfigMap"
            && (is_default || named.contains(object.name()) || template().is_some())
    })
}

fn data<'g>(overlay: Object<'g>) -> impl Iterator<Item = (&'g str, Node<'g>)> {
    overlay.node.get("data").into_iter().flat_map(Node::entries)
}

fn not_merged<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (key, value) in overlays(inputs).flat_map(data) {
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
pub(super) fn pod_specs(inputs: &Inputs) -> impl Iterator<Item = Node<'_>> {
    overlays(inputs)
        .flat_map(data)
        .filter(|(key, _)| *key == "deployment")
        .filter_map(|(_, value)| value.embedded()?.fields("spec.template.spec"))
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
