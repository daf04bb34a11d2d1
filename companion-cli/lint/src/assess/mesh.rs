//! The settings that all proxies share: the mesh's defaults, and which namespaces have sidecars.

use std::collections::{HashMap, HashSet};

use laststream_assess::Gate;

use crate::modules::{gated_pods, gates, starts_by_agent};
use laststream_filter::config::wire;
use manifest_lint::inputs::Inputs;
use manifest_lint::node::Node;
use manifest_lint::objects::{Object, of_kind};
use manifest_lint::pods::Pod;
use manifest_lint::reach::Reach;

/// How the pods of a namespace get a proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Namespace {
    pub(super) is_injected: bool,
    pub(super) is_ambient: bool,
}

/// The most ProxyConfigs, and the most gates of Gateways, that are looked at for each proxy.
const MOST: usize = 32;

pub(super) struct Mesh<'g> {
    pub(super) inputs: &'g Inputs,
    /// The maps with the defaults of all proxies.
    pub(super) defaults: Vec<Node<'g>>,
    /// Whether the settings of the mesh are among the inputs, also if they have no defaults.
    pub(super) is_known: bool,
    /// The stop hook that the mesh gives to all sidecars, in place of Istio's own.
    pub(super) hook: Option<Node<'g>>,
    /// Whether sidecars are native unless their pods say otherwise; none if it is not known.
    pub(super) is_native: Option<bool>,
    pub(super) proxy_configs: Vec<Object<'g>>,
    namespaces: HashMap<&'g str, Namespace>,
    gates: HashMap<Node<'g>, Gate>,
}

impl<'g> Mesh<'g> {
    pub(super) fn of(inputs: &'g Inputs) -> Self {
        let mut meshes = inputs.keyed("meshConfig").filter(|node| node.is_map());
        let has_mesh = |map: Object<'_>| map.node.fields("data.mesh").is_some();
        let mut lifecycles = inputs
            .keyed("lifecycle")
            .filter(|node| node.has_keys(&["lifecycle", "proxy", "global"]));
        let gated = gated_pods(inputs).into_iter().rev();
        Self {
            inputs,
            defaults: inputs.keyed("defaultConfig").filter(|node| node.is_map()).collect(),
            is_known: meshes.next().is_some() || of_kind(inputs, "ConfigMap").any(has_mesh),
            hook: lifecycles.find_map(|node| node.get("preStop")),
            is_native: native_by_default(inputs),
            proxy_configs: of_kind(inputs, "ProxyConfig").take(MOST).collect(),
            namespaces: namespaces(inputs),
            gates: gated.map(|(_, gate, pod)| (pod.template, read_gate(&gate))).collect(),
        }
    }

    pub(super) fn namespace(&self, name: Option<&str>) -> Namespace {
        name.and_then(|name| self.namespaces.get(name)).copied().unwrap_or_default()
    }

    /// The gate that these inputs have for a pod.
    pub(super) fn gate(&self, pod: Pod<'g>) -> Option<Gate> {
        self.gates.get(&pod.template).copied()
    }
}

pub(super) fn read_gate(gate: &wire::Gate) -> Gate {
    Gate { deadline: gate.deadline_ms, is_started_by_agent: starts_by_agent(gate) }
}

/// The gates with the criteria by which they select pods.
pub(super) fn selecting(inputs: &Inputs) -> impl Iterator<Item = (&Reach, Gate)> {
    gates(inputs).map(|(module, gate)| (module.reach(), read_gate(&gate))).take(MOST)
}

fn namespaces(inputs: &Inputs) -> HashMap<&str, Namespace> {
    let label = |object: Object<'_>, name: &str| {
        Some(object.node.fields("metadata.labels")?.get(name)?.text()?.to_owned())
    };
    let facts = |object: Object<'_>| Namespace {
        is_injected: label(object, "istio-injection").as_deref() == Some("enabled")
            || label(object, "istio.io/rev").is_some()
                && label(object, "istio-injection").as_deref() != Some("disabled"),
        is_ambient: label(object, "istio.io/dataplane-mode").as_deref() == Some("ambient"),
    };
    of_kind(inputs, "Namespace").map(|object| (object.name(), facts(object))).collect()
}

/// Whether sidecars are native by default: by the variable of istiod, or by the version.
fn native_by_default(inputs: &Inputs) -> Option<bool> {
    const VARIABLE: &str = "ENABLE_NATIVE_SIDECARS";
    let keys = inputs.keyed(VARIABLE);
    let is_one = |variable: &Node<'_>| variable.text_of("name") == Some(VARIABLE);
    let variables = inputs.keyed("env").flat_map(Node::items).filter(is_one);
    let values = keys.chain(variables.filter_map(|variable| variable.get("value")));
    // Istio's charts have such files for older versions, which take effect only if named.
    let is_older = |node: &Node<'_>| {
        let source = node.texts.source(node.tree);
        source.is_some_and(|source| source.name.contains("compatibility-version-"))
    };
    let values = values.filter(|value| !is_older(value));
    let values: HashSet<&str> = values.filter_map(Node::text).collect();
    match values.into_iter().collect::<Vec<_>>().as_slice() {
        ["true"] => return Some(true),
        ["false"] => return Some(false),
        _ => {}
    }
    let istio = inputs.assume.istio?;
    Some(istio >= (1, 27) && inputs.assume.kubernetes.is_none_or(|version| version >= (1, 33)))
}
