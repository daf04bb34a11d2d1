//! The settings that all proxies share: the mesh's defaults, and which namespaces have sidecars.

use std::collections::{BTreeMap, HashMap, HashSet};

use laststream_assess::ProxyGate;

use super::facts::{CHART_DEFAULTS, Facts, facts};
use super::nearness;
use crate::modules::{gated_pods, gates, starts_by_agent};
use laststream_filter::config::wire;
use manifest_lint::{Inputs, Node, Object, Pod, Reach, object_of, of_kind};

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
    settings: Vec<FileSettings<'g>>,
    /// The stop hook that the mesh gives to all sidecars, in place of Istio's own.
    pub(super) hook: Option<Node<'g>>,
    /// Whether sidecars are native unless their pods say otherwise; none if it is not known.
    pub(super) is_native: Option<bool>,
    pub(super) proxy_configs: Vec<Object<'g>>,
    /// By name, each with its place.
    namespaces: HashMap<&'g str, Vec<(Node<'g>, Namespace)>>,
    gates: HashMap<Node<'g>, ProxyGate>,
}

impl<'g> Mesh<'g> {
    pub(super) fn of(inputs: &'g Inputs) -> Self {
        let mut lifecycles = inputs
            .keyed("lifecycle")
            .filter(|node| node.has_keys(&["lifecycle", "proxy", "global"]));
        let gated = gated_pods(inputs).into_iter().rev();
        Self {
            inputs,
            settings: FileSettings::all(inputs),
            hook: lifecycles.find_map(|node| node.get("preStop")),
            is_native: native_by_default(inputs),
            proxy_configs: of_kind(inputs, "ProxyConfig").take(MOST).collect(),
            namespaces: namespaces(inputs),
            gates: gated.map(|(_, gate, pod)| (pod.template, read_gate(&gate))).collect(),
        }
    }

    /// The defaults for a proxy in this place: those of the nearest files. If these differ, or say
    /// nothing where others do, Istio's own remain, and are not sure.
    pub(super) fn defaults(&self, place: Node<'g>) -> Defaults<'g> {
        let near = |file: &FileSettings<'g>| nearness(place, file.place);
        let most = self.settings.iter().map(near).max();
        let mut nearest = self.settings.iter().filter(|file| Some(near(file)) == most);
        let Some(first) = nearest.next() else { return Defaults::default() };
        let is_like = |file: &FileSettings<'g>| file.facts == first.facts;
        let is_silent = first.facts == Facts::default();
        if !nearest.all(is_like) || is_silent && !self.settings.iter().all(is_like) {
            return Defaults::default();
        }
        Defaults { configs: first.configs.clone(), is_known: true }
    }

    /// The namespace of a pod: that of its own file. Of others with its name any may be a patch by
    /// which Istio injects; else the nearest counts.
    pub(super) fn namespace(&self, pod: Pod<'g>) -> Namespace {
        let all = pod.namespace().and_then(|name| self.namespaces.get(name));
        let near = |place: Node<'g>| nearness(pod.template, place);
        let is_beside = |place: Node<'g>| {
            self.inputs.file_of(place.tree) == self.inputs.file_of(pod.template.tree)
        };
        let nearest = all.and_then(|all| all.iter().max_by_key(|(place, _)| near(*place)));
        let Some((place, facts)) = nearest else { return Namespace::default() };
        let mut all = all.into_iter().flatten();
        let is_patched = !is_beside(*place) && all.any(|(_, facts)| facts.is_injected);
        if is_patched { Namespace { is_injected: true, is_ambient: false } } else { *facts }
    }

    /// The gate that these inputs have for a pod.
    pub(super) fn gate(&self, pod: Pod<'g>) -> Option<ProxyGate> {
        self.gates.get(&pod.template).copied()
    }
}

/// The defaults of all proxies of a mesh.
#[derive(Default)]
pub(super) struct Defaults<'g> {
    pub(super) configs: Vec<Node<'g>>,
    /// Whether the settings of the mesh are among the inputs, also if they have no defaults.
    pub(super) is_known: bool,
}

/// The settings of a mesh in one file.
struct FileSettings<'g> {
    place: Node<'g>,
    /// The maps with the defaults of all proxies.
    configs: Vec<Node<'g>>,
    facts: Facts<'g>,
}

impl<'g> FileSettings<'g> {
    fn all(inputs: &'g Inputs) -> Vec<Self> {
        let meshes = inputs.keyed("meshConfig").filter(|node| node.is_map());
        let maps = of_kind(inputs, "ConfigMap").filter_map(|map| map.node.fields("data.mesh"));
        let configs = inputs.keyed("defaultConfig").filter(|node| node.is_map());
        let mut files: BTreeMap<u32, (Node<'g>, Vec<Node<'g>>)> = BTreeMap::new();
        for node in meshes.chain(maps).chain(configs).filter(|node| !is_of_schema(*node)) {
            let (_, configs) =
                files.entry(inputs.file_of(node.tree)).or_insert_with(|| (node, Vec::new()));
            configs.extend(Some(node).filter(|it| it.key_text() == Some("defaultConfig")));
        }
        let file = |(place, configs): (Node<'g>, Vec<Node<'g>>)| {
            let facts = facts(&configs);
            Self { place, configs, facts }
        };
        files.into_values().map(file).collect()
    }
}

/// Whether a map is of a CRD, or of the values that a chart has by itself.
fn is_of_schema(node: Node<'_>) -> bool {
    let is_default = |it: &Node<'_>| it.key_text() == Some(CHART_DEFAULTS);
    node.upwards().any(|it| is_default(&it))
        || object_of(node).is_some_and(|object| object.kind == "CustomResourceDefinition")
}

pub(super) fn read_gate(gate: &wire::Gate) -> ProxyGate {
    ProxyGate { deadline: gate.deadline_ms, is_started_by_agent: starts_by_agent(gate) }
}

/// The gates with the criteria by which they select pods.
pub(super) fn selecting(inputs: &Inputs) -> impl Iterator<Item = (&Reach, ProxyGate)> {
    gates(inputs).map(|(module, gate)| (module.reach(), read_gate(&gate))).take(MOST)
}

fn namespaces(inputs: &Inputs) -> HashMap<&str, Vec<(Node<'_>, Namespace)>> {
    let label = |object: Object<'_>, name: &str| {
        Some(object.node.fields("metadata.labels")?.get(name)?.text()?.to_owned())
    };
    let facts = |object: Object<'_>| Namespace {
        is_injected: label(object, "istio-injection").as_deref() == Some("enabled")
            || label(object, "istio.io/rev").is_some()
                && label(object, "istio-injection").as_deref() != Some("disabled"),
        is_ambient: label(object, "istio.io/dataplane-mode").as_deref() == Some("ambient"),
    };
    let mut all: HashMap<&str, Vec<_>> = HashMap::new();
    for object in of_kind(inputs, "Namespace") {
        all.entry(object.name()).or_default().push((object.node, facts(object)));
    }
    all
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
