//! LS307: fields that Envoy, Envoy Gateway or Istio drops without an error.

use std::collections::HashSet;

use super::envoy_gateway::patched;
use crate::modules::modules;
use manifest_lint::fields::unknown;
use manifest_lint::{Checks, Findings, Inputs, Node, bootstraps, of_kind};

pub(super) const CHECKS: Checks = &[("LS307", unknown_fields)];

/// A line for each map: its root, the path to it, the words for it, and its fields. The names are
/// those of Envoy 1.40 (envoy/config/{bootstrap,listener}/v3, envoy/extensions/wasm/v3/wasm.proto),
/// of Kubernetes' Deployments and DaemonSets, and of Istio 1.31 (mesh/v1alpha1/proxy.proto).
const FIELDS: &str = include_str!("fields.txt");

/// The annotation with the settings of a pod's agent, a ProxyConfig of mesh.istio.io.
const AGENT: &str = "proxy.istio.io/config";

fn unknown_fields<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for module in modules(inputs) {
        // Not a TypedStruct, which has the filter in its `value`.
        if module.typed.field("config") == Some(module.plugin) {
            unknown_below("wasm", module.typed, findings);
        }
        unknown_below("plugin", module.plugin, findings);
    }
    let mut trees = HashSet::new();
    for root in bootstraps(inputs).filter_map(|part| part.root.ok().flatten()) {
        if trees.insert(root.tree) {
            unknown_below("bootstrap", root, findings);
        }
    }
    for agent in inputs.keyed(AGENT).filter_map(Node::embedded) {
        unknown_below("agent", agent, findings);
    }
    for deployment in of_kind(inputs, "EnvoyProxy").filter_map(patched) {
        unknown_below("deployment", deployment, findings);
    }
}

fn unknown_below<'g>(root: &str, node: Node<'g>, findings: &mut Findings<'g>) {
    for line in FIELDS.lines() {
        let [of, path, what, fields] = line.split('\t').collect::<Vec<_>>()[..] else { continue };
        if of == root {
            for map in node.all(path) {
                let words = |key: &str| Some(format!("{what} has no field `{key}`: it is dropped"));
                unknown(map, fields, findings, words);
            }
        }
    }
}
