//! Wasm filters in Envoy's configuration, and the configurations of laststream's own.

use laststream_filter::config::wire::{Configuration, Role};
use laststream_filter::config::{self, Refused};

use manifest_lint::{Node, Patch, Reach, Texts, is_string_value, patch_of};

const WASM: &str = "envoy.extensions.filters.http.wasm.v3.Wasm";

/// Facts about a Wasm filter that are computed once.
#[derive(Debug)]
pub(super) struct FilterFacts {
    tree: u32,
    typed: u32,
    plugin: u32,
    reach: Reach,
    is_ours: bool,
    wire: Option<Configuration>,
}

impl FilterFacts {
    /// The facts about the Wasm filters of all files.
    pub(super) fn all(texts: &Texts) -> Vec<Self> {
        texts.keyed("@type").filter_map(|name| Self::of(name.parent()?, name.text()?)).collect()
    }

    fn of(typed: Node<'_>, name: &str) -> Option<Self> {
        let plugin = if name.ends_with(WASM) {
            typed.field("config")?
        } else {
            typed.text_of("type_url").filter(|name| name.ends_with(WASM))?;
            typed.fields("value.config")?
        };
        let mut filter = Self {
            tree: typed.tree,
            typed: typed.id,
            plugin: plugin.id,
            reach: Reach::of(typed),
            is_ours: false,
            wire: None,
        };
        let module = Module { typed, plugin, known: &filter };
        let (is_ours, wire) = (module.names_us(), module.read());
        (filter.is_ours, filter.wire) = (is_ours, wire);
        Some(filter)
    }
}

/// A Wasm filter.
#[derive(Clone, Copy)]
pub(super) struct Module<'g> {
    /// The map with the type.
    pub(super) typed: Node<'g>,
    /// `config` within: Envoy's plugin configuration.
    pub(super) plugin: Node<'g>,
    known: &'g FilterFacts,
}

impl<'g> Module<'g> {
    pub(super) fn of(texts: &'g Texts, known: &'g FilterFacts) -> Self {
        let node = |id| texts.node(known.tree, id);
        Self { typed: node(known.typed), plugin: node(known.plugin), known }
    }

    /// The map that has the filter's name.
    pub(super) fn filter(self) -> Node<'g> {
        self.typed.parent().unwrap_or(self.typed)
    }

    pub(super) fn name(self) -> &'g str {
        self.filter().text_of("name").unwrap_or_default()
    }

    pub(super) fn patch(self) -> Option<Patch<'g>> {
        patch_of(self.typed)
    }

    /// The patch, when the filter reaches Envoy by extension discovery, which Istio's agent
    /// rewrites.
    pub(super) fn extension(self) -> Option<Patch<'g>> {
        self.patch().filter(|patch| patch.apply_to() == "EXTENSION_CONFIG")
    }

    pub(super) fn vm(self) -> Option<Node<'g>> {
        self.plugin.field("vm_config")
    }

    pub(super) fn vm_id(self) -> &'g str {
        self.vm().and_then(|vm| vm.text_of("vm_id")).unwrap_or_default()
    }

    /// The node of the VM's id, or else what it would be in.
    pub(super) fn vm_id_place(self) -> Node<'g> {
        let vm = self.vm().unwrap_or(self.plugin);
        vm.field("vm_id").unwrap_or(vm)
    }

    pub(super) fn remote(self) -> Option<Node<'g>> {
        self.vm()?.fields("code.remote")
    }

    pub(super) fn uri(self) -> Option<Node<'g>> {
        self.remote()?.fields("http_uri.uri")
    }

    pub(super) fn uri_text(self) -> &'g str {
        self.uri().and_then(Node::text).unwrap_or_default()
    }

    /// The local file with the code.
    pub(super) fn filename(self) -> Option<Node<'g>> {
        self.vm()?.fields("code.local.filename")
    }

    /// The local file or the URI of the code.
    fn code(self) -> &'g str {
        let local = self.filename().and_then(Node::text);
        local.unwrap_or_else(|| self.uri_text())
    }

    pub(super) fn is_ours(self) -> bool {
        self.known.is_ours
    }

    /// Whether a name or id of the filter, or the path of its code, contains `laststream`.
    fn names_us(self) -> bool {
        let plugin = ["name", "root_id"].iter().filter_map(|field| self.plugin.text_of(field));
        plugin
            .chain([self.name(), self.vm_id(), self.code()])
            .any(|text| text.contains("laststream"))
    }

    /// The Any that holds the module's configuration.
    pub(super) fn configuration(self) -> Option<Node<'g>> {
        self.plugin.field("configuration")
    }

    /// The scalar with the module's configuration; none if the configuration is not a StringValue.
    pub(super) fn text(self) -> Option<Node<'g>> {
        self.configuration().filter(|any| is_string_value(*any))?.get("value")
    }

    /// The node of a part of the configuration, if the part is written.
    fn part(self, path: &[&str]) -> Option<Node<'g>> {
        let root = self.text().unwrap_or(self.plugin).embedded()?;
        path.iter().try_fold(root, |node, key| node.get(key))
    }

    /// The node of a part of the configuration, or else of the whole configuration.
    pub(super) fn part_or_all(self, path: &[&str]) -> Node<'g> {
        self.part(path).unwrap_or_else(|| self.text().unwrap_or(self.plugin))
    }

    /// The configuration as the module reads it; none if its shape is wrong.
    pub(super) fn wire(self) -> Option<&'g Configuration> {
        self.known.wire.as_ref()
    }

    fn read(self) -> Option<Configuration> {
        let text = match self.configuration() {
            Some(_) => self.text()?.text()?,
            None => "",
        };
        config::read_wire(text.as_bytes()).ok()
    }

    /// The verdict of the module's own parser on the configuration.
    pub(super) fn verdict(self) -> Option<Result<config::Config, Refused>> {
        Some(config::parse(self.text()?.text()?.as_bytes()))
    }

    /// The setting by which requests pass without the module.
    pub(super) fn fail_open(self) -> Option<Node<'g>> {
        let policy = self.plugin.field("failure_policy");
        let legacy = || self.plugin.field("fail_open").filter(|open| open.is_true());
        policy.filter(|policy| policy.text() == Some("FAIL_OPEN")).or_else(legacy)
    }

    pub(super) fn is_gate(self) -> bool {
        self.wire().is_some_and(|wire| wire.role == Role::Gate)
    }

    /// The text of the VM's own configuration.
    pub(super) fn vm_configuration(self) -> &'g str {
        self.vm().and_then(|vm| vm.text_of("configuration.value")).unwrap_or_default()
    }

    pub(super) fn shares_code(self, other: Self) -> bool {
        self.code() == other.code()
    }

    pub(super) fn reach(self) -> &'g Reach {
        &self.known.reach
    }

    /// Whether one Envoy may have both filters.
    pub(super) fn may_meet(self, other: Self) -> bool {
        self.known.reach.may_meet(&other.known.reach)
    }
}
