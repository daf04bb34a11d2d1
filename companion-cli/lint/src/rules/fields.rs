//! LS307: fields that Envoy or Envoy Gateway drops without an error.

use std::collections::HashSet;

use super::envoy_gateway::patched;
use crate::bootstraps::bootstraps;
use crate::finding::{Checks, Findings};
use crate::inputs::Inputs;
use crate::modules::modules;
use crate::node::{MERGE, Node, camel};
use crate::objects::of_kind;

pub(super) const CHECKS: Checks = &[("LS307", unknown_fields)];

/// A line for each map: its root, the path to it, the words for it, and its fields. The names are
/// from Envoy 1.40 (envoy/config/{bootstrap,listener}/v3, envoy/extensions/wasm/v3/wasm.proto) and
/// from Kubernetes' Deployments and DaemonSets.
const FIELDS: &str = include_str!("fields.txt");
/// The first character of fields that only direct a merge.
const DIRECTIVE: char = '$';

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

/// Reports the keys of a map that are none of these fields, in neither spelling of protobuf.
/// `words` has nothing for a key that is no mistake.
pub(super) fn unknown<'g>(
    map: Node<'g>,
    fields: &str,
    findings: &mut Findings<'g>,
    words: impl Fn(&str) -> Option<String>,
) {
    let is_checked = |key: &str| key != MERGE && !key.starts_with(DIRECTIVE);
    for (key, value) in map.entries().filter(|(key, _)| is_checked(key)) {
        let is_known = |field: &str| field == key || camel(field) == key;
        let words = if fields.split(' ').any(is_known) { None } else { words(key) };
        words.into_iter().for_each(|words| findings.at(value.key().unwrap_or(value), words));
    }
}
