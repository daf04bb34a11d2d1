//! The inputs of the rules: all texts, and facts about them that are computed once.

use std::any::Any;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Deref;

use crate::change::part::Part;
use crate::crds::{Fault, Validators, Violation};
use crate::kustomize;
use crate::program::Program;
use crate::{
    Assume, Node, Reach, SourceError, SourceFile, Texts, index_of, is_string_value, number, objects,
};
use manifest_text::yaml::tree::NodeKind;

/// The greatest depth of texts within texts.
const DEEPEST_TEXT: u8 = 3;
/// Annotations whose text is YAML or JSON.
const ANNOTATIONS: [&str; 4] = [
    "proxy.istio.io/config",
    "proxy.istio.io/overrides",
    "sidecar.istio.io/userVolume",
    "sidecar.istio.io/userVolumeMount",
];
/// Keys of Istio's own ConfigMaps that hold YAML or JSON and have no file extension.
const CONFIG_KEYS: [&str; 4] = ["mesh", "meshNetworks", "values", "config"];

/// Keys of ConfigMaps that Istio merges over the objects that it makes for a Gateway.
pub const OVERLAY_KEYS: [&str; 5] =
    ["deployment", "service", "serviceAccount", "horizontalPodAutoscaler", "podDisruptionBudget"];

/// Filters by the name of the extension configuration that they wait for.
type Waiting = HashMap<String, Vec<(u32, u32, Reach)>>;

/// All input files, and facts that are computed from them.
#[derive(Debug)]
pub struct Inputs {
    texts: Texts,
    pub assume: Assume,
    pub(crate) program: &'static Program,
    /// The facts that the caller's rules compute once.
    pub computed: OnceCell<Box<dyn Any>>,
    /// The filters that wait for an extension configuration, by its name.
    waiting: OnceCell<Waiting>,
    /// The API server's refusals: the fault, the node's tree and number, the message.
    violations: OnceCell<Vec<(Fault, u32, u32, String)>>,
    /// What a cluster knows beside its objects; nothing about files.
    pub beside: Box<dyn Any>,
    /// The number of files from before a change, which come first; none if there is no change.
    pub(crate) old_files: Option<u32>,
    /// The parts of the change; empty if there is no change.
    pub(crate) changes: Vec<Part>,
}

/// The inputs have all methods of their texts.
impl Deref for Inputs {
    type Target = Texts;

    fn deref(&self) -> &Texts {
        &self.texts
    }
}

impl Inputs {
    pub fn read(
        program: &'static Program,
        sources: Vec<SourceFile>,
        assume: Assume,
    ) -> Result<Self, SourceError> {
        Ok(Self {
            texts: read_all(sources, program.annotations)?,
            assume,
            program,
            computed: OnceCell::new(),
            waiting: OnceCell::new(),
            violations: OnceCell::new(),
            beside: Box::new(()),
            old_files: None,
            changes: Vec::new(),
        })
    }

    /// The files before a change and after it. The parts of the change are not known yet.
    pub fn of_change(
        program: &'static Program,
        mut old: Vec<SourceFile>,
        new: Vec<SourceFile>,
        assume: Assume,
    ) -> Result<Self, SourceError> {
        let old_files = number(old.len());
        old.extend(new);
        Ok(Self { old_files: Some(old_files), ..Self::read(program, old, assume)? })
    }

    /// The faults of one kind that the API server refuses objects for.
    pub(crate) fn violations(&self, fault: Fault) -> impl Iterator<Item = (Node<'_>, &str)> {
        let all = self.violations.get_or_init(|| {
            let mut validators = Validators::default();
            let patches = kustomize::patch_files(self);
            let whole = objects(self).filter(|object| {
                !patches.contains(&self.file_of(object.node.tree))
                    && object.node.get("$patch").is_none()
            });
            let judged = whole.flat_map(|object| validators.judge(&self.assume, object));
            let fact = |Violation { fault, node, message }| (fault, node.tree, node.id, message);
            judged.map(fact).collect()
        });
        let wanted = all.iter().filter(move |found| found.0 == fault);
        wanted.map(|(_, tree, id, message)| (self.node(*tree, *id), message.as_str()))
    }

    /// The filters that subscribe to a configuration of this name, and the proxies that they reach.
    pub fn waiting_for<'g>(&'g self, name: &str) -> impl Iterator<Item = (Node<'g>, &'g Reach)> {
        let waiting = self.waiting.get_or_init(|| by_awaited_name(self));
        let places = waiting.get(name).map_or(&[][..], Vec::as_slice);
        places.iter().map(|(tree, id, reach)| (self.node(*tree, *id), reach))
    }
}

/// The texts of the files, and the texts within them.
pub fn read_all(sources: Vec<SourceFile>, annotations: &[&str]) -> Result<Texts, SourceError> {
    let mut texts = Texts::read(sources)?;
    let mut tree = 0;
    while texts.trees().contains(&tree) {
        for id in holders(&texts, tree, annotations) {
            texts.read_within(tree, id);
        }
        tree += 1;
    }
    texts.objects = index_of(&texts);
    Ok(texts)
}

/// The scalars of a tree whose text is YAML or JSON.
fn holders(texts: &Texts, tree: u32, annotations: &[&str]) -> Vec<u32> {
    if texts.depth(tree) >= DEEPEST_TEXT {
        return Vec::new();
    }
    let ids = 0..number(texts.tree(tree).nodes.len());
    ids.filter(|&id| holds_text(texts.node(tree, id), annotations)).collect()
}

fn holds_text(node: Node<'_>, annotations: &[&str]) -> bool {
    let (Some(raw), Some(key)) = (node.raw(), node.key_text()) else { return false };
    let NodeKind::Scalar(text, _) = &raw.kind else { return false };
    if key == "value" {
        let is_json = text.trim_start().starts_with('{');
        return is_bootstrap(node) || is_json && node.parent().is_some_and(is_string_value);
    }
    if ANNOTATIONS.iter().chain(annotations).any(|name| *name == key) || is_of_chart(node) {
        return true;
    }
    let named = CONFIG_KEYS.contains(&key)
        || OVERLAY_KEYS.contains(&key)
        || [".yaml", ".yml", ".json"].iter().any(|ending| key.ends_with(ending));
    let data =
        named.then(|| node.parent()).flatten().filter(|data| data.key_text() == Some("data"));
    data.and_then(Node::parent).and_then(|object| object.text_of("kind")) == Some("ConfigMap")
}

fn is_bootstrap(node: Node<'_>) -> bool {
    let object = node.has_keys(&["value", "bootstrap", "spec"]).then(|| node.upwards().nth(3));
    object.flatten().and_then(|object| object.text_of("kind")) == Some("EnvoyProxy")
}

/// Whether the node is the text of a chart's values in an Application of Argo CD.
fn is_of_chart(node: Node<'_>) -> bool {
    let mut kinds = node.upwards().filter_map(|node| node.text_of("kind"));
    node.has_keys(&["values", "helm"])
        && kinds.any(|kind| ["Application", "ApplicationSet"].contains(&kind))
}

fn by_awaited_name(texts: &Texts) -> Waiting {
    let mut by_name = Waiting::new();
    let filters = texts.keyed_field("config_discovery").filter_map(Node::parent);
    for (filter, name) in filters.filter_map(|filter| Some((filter, filter.text_of("name")?))) {
        let waiting = (filter.tree, filter.id, Reach::of(filter));
        by_name.entry(name.to_owned()).or_default().push(waiting);
    }
    by_name
}
