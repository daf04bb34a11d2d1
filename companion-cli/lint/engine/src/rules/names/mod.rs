//! LS12x: names across all files. If one name occurs twice, Envoy refuses the whole update.

use std::collections::{HashMap, HashSet};

use manifest_text::ports;

use crate::{
    Checks, Findings, Inputs, Node, Patch, ProxySelector, is_connection_manager, patch_of, patches,
    patches_of,
};

pub(super) const CHECKS: Checks = &[
    ("LS121", |inputs, findings| report_twice("EXTENSION_CONFIG", |_, _| true, inputs, findings)),
    ("LS121", |inputs, findings| report_twice("LISTENER", Patch::contexts_meet, inputs, findings)),
    ("LS123", nameless),
    ("LS124", unmatched_extension),
    ("LS126", port_taken),
];

fn added_to<'g>(inputs: &'g Inputs, kind: &'static str) -> impl Iterator<Item = Patch<'g>> {
    patches_of(inputs, kind).filter(|patch| patch.operation() == "ADD")
}

/// The number of equal names that are compared pair by pair. More would not add information.
const MOST_OF_A_NAME: usize = 64;

/// Reports what two patches add under one name, if `meet` holds for them.
fn report_twice<'g>(
    kind: &'static str,
    meet: fn(Patch<'g>, Patch<'g>) -> bool,
    inputs: &'g Inputs,
    findings: &mut Findings<'g>,
) {
    let mut by_name: HashMap<&str, Vec<(Patch<'g>, Node<'g>, ProxySelector)>> = HashMap::new();
    for patch in added_to(inputs, kind) {
        let Some(node) = patch.value().and_then(|value| value.field("name")) else { continue };
        let Some(name) = node.value() else { continue };
        let earlier = by_name.entry(name).or_default();
        let mesh = ProxySelector::of(patch);
        let meets = |(other, _, reach): &&(Patch<'g>, Node<'g>, ProxySelector)| {
            mesh.may_meet(reach) && meet(patch, *other)
        };
        if let Some((other, place, _)) = earlier.iter().find(meets) {
            let there = shown(*place);
            let of = if other.filter.node == patch.filter.node {
                "this resource".into()
            } else {
                format!("`{}`", other.filter.name())
            };
            findings.at(node, format!("`{name}` is also added by {of} ({there})"));
        }
        if earlier.len() < MOST_OF_A_NAME {
            earlier.push((patch, node, mesh));
        }
    }
}

fn shown(node: Node<'_>) -> String {
    let source = node.texts.source(node.tree);
    source.map(|source| source.place(node.position().line)).unwrap_or_default()
}

/// What patches add under a name that Envoy requires.
const NAMED: [&str; 5] =
    ["LISTENER", "LISTENER_FILTER", "NETWORK_FILTER", "HTTP_FILTER", "EXTENSION_CONFIG"];

fn nameless<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let is_nameless =
        |node: &Node<'g>| node.is_map() && node.text_of("name").is_none_or(str::is_empty);
    for patch in patches(inputs) {
        let adds = !["MERGE", "MERGE_AND_REPLACE_LIST", "REMOVE"].contains(&patch.operation());
        let needs_name = adds && NAMED.contains(&patch.apply_to());
        if let Some(value) = patch.value().filter(|value| needs_name && is_nameless(value)) {
            findings.at(value, "what is added has no `name`");
        }
    }
    let is_of_envoy = |list: &Node<'g>| list.parent().is_some_and(is_connection_manager);
    let lists = inputs.keyed_field("http_filters").filter(is_of_envoy);
    for filter in lists.flat_map(Node::items).filter(is_nameless) {
        findings.at(filter, "the HTTP filter has no `name`");
    }
}

/// Extension configurations that no filter asks for, and patches that ask for a missing one.
fn unmatched_extension<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let configs = patches_of(inputs, "EXTENSION_CONFIG").filter_map(Patch::value);
    let configs: Vec<_> = configs.filter_map(|value| value.field("name")).collect();
    let filters = inputs.keyed_field("config_discovery").filter_map(Node::parent);
    let filters: Vec<_> = filters.filter_map(|filter| filter.field("name")).collect();
    let texts = |nodes: &[Node<'g>]| nodes.iter().filter_map(|name| name.text()).collect();
    let (there, asked_for): (HashSet<_>, HashSet<_>) = (texts(&configs), texts(&filters));
    let missing =
        |name: Node<'g>, among: &HashSet<&str>| name.text().filter(|text| !among.contains(text));
    for name in configs {
        if let Some(text) = missing(name, &asked_for) {
            findings.at(name, format!("no filter asks for `{text}`"));
        }
    }
    for name in filters.into_iter().filter(|name| patch_of(*name).is_some()) {
        if let Some(text) = missing(name, &there) {
            findings.at(name, format!("no EXTENSION_CONFIG of these files is called `{text}`"));
        }
    }
}

/// Settings of a proxy that give Istio a port for metrics over mTLS.
const METRICS_PORTS: [&str; 2] = ["ENVOY_SECURE_METRICS_PORT", "ENVOY_SECURE_MERGED_METRICS_PORT"];

fn port_taken<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let settings = METRICS_PORTS.iter().flat_map(|key| inputs.keyed(key));
    let metrics: HashMap<u64, Node<'g>> =
        settings.filter_map(|setting| Some((setting.number()?, setting))).collect();
    for patch in added_to(inputs, "LISTENER") {
        let port =
            patch.value().and_then(|value| value.fields("address.socket_address.port_value"));
        let Some((node, number)) = port.and_then(|port| Some((port, port.number()?))) else {
            continue;
        };
        if ports::ISTIO.iter().any(|port| u64::from(*port) == number) {
            findings.at(node, format!("{number} is Istio's own"));
        } else if let Some(setting) = metrics.get(&number) {
            let setting = setting.key_text().unwrap_or_default();
            findings.at(node, format!("{number} is the port of `{setting}`"));
        }
    }
}
