//! Wasm filters in Envoy's configuration, and what laststream's own say.

use laststream_filter::config::wire::{Configuration, Gate, Role, Scope};
use laststream_filter::config::{self, Refused};

use super::envoy_filter::{Patch, patch_of};
use super::given::{Given, is_string_value};
use super::node::Node;

const WASM: &str = "envoy.extensions.filters.http.wasm.v3.Wasm";

/// A Wasm filter.
#[derive(Clone, Copy)]
pub(super) struct Module<'g> {
    /// The map with the type.
    pub(super) typed: Node<'g>,
    /// `config` within: Envoy's plugin configuration.
    pub(super) plugin: Node<'g>,
}

impl<'g> Module<'g> {
    fn of(typed: Node<'g>, body: Node<'g>) -> Option<Self> {
        Some(Self { typed, plugin: body.field("config")? })
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

    /// The patch, when the filter reaches Envoy by extension discovery, which Istio's agent rewrites.
    pub(super) fn extension(self) -> Option<Patch<'g>> {
        self.patch().filter(|patch| patch.apply_to() == "EXTENSION_CONFIG")
    }

    pub(super) fn vm(self) -> Option<Node<'g>> {
        self.plugin.field("vm_config")
    }

    pub(super) fn vm_id(self) -> &'g str {
        self.vm().and_then(|vm| vm.text_of("vm_id")).unwrap_or_default()
    }

    /// Where the code is fetched from.
    pub(super) fn remote(self) -> Option<Node<'g>> {
        self.vm()?.fields("code.remote")
    }

    pub(super) fn uri(self) -> Option<Node<'g>> {
        self.remote()?.fields("http_uri.uri")
    }

    pub(super) fn uri_text(self) -> &'g str {
        self.uri().and_then(Node::text).unwrap_or_default()
    }

    /// What the code is, wherever it comes from.
    fn code(self) -> &'g str {
        let local = self.vm().and_then(|vm| vm.fields("code.local.filename")).and_then(Node::text);
        local.unwrap_or_else(|| self.uri_text())
    }

    /// Whether it is laststream.
    pub(super) fn is_ours(self) -> bool {
        let plugin = ["name", "root_id"].iter().filter_map(|field| self.plugin.text_of(field));
        plugin.chain([self.name(), self.vm_id(), self.code()]).any(|text| text.contains("laststream"))
    }

    /// The Any that holds the module's configuration.
    pub(super) fn configuration(self) -> Option<Node<'g>> {
        self.plugin.field("configuration")
    }

    /// The scalar with the module's configuration, where it is written as the module wants it.
    pub(super) fn text(self) -> Option<Node<'g>> {
        self.configuration().filter(|any| is_string_value(*any))?.get("value")
    }

    /// The configuration as the module reads it, when it takes it.
    pub(super) fn wire(self) -> Option<Configuration> {
        let text = match self.configuration() {
            Some(_) => self.text()?.text()?,
            None => "",
        };
        config::read_wire(text.as_bytes()).ok()
    }

    /// What the module says of its configuration.
    pub(super) fn verdict(self) -> Option<Result<config::Config, Refused>> {
        Some(config::parse(self.text()?.text()?.as_bytes()))
    }

    pub(super) fn is_gate(self) -> bool {
        self.wire().is_some_and(|wire| wire.role == Role::Gate)
    }

    /// What the VM's own configuration says.
    pub(super) fn vm_configuration(self) -> &'g str {
        self.vm().and_then(|vm| vm.fields("configuration.value")).and_then(Node::text).unwrap_or_default()
    }

    pub(super) fn shares_code(self, other: Self) -> bool {
        self.code() == other.code()
    }

    /// Whether one Envoy may have both.
    pub(super) fn may_meet(self, other: Self) -> bool {
        match (self.patch(), other.patch()) {
            (Some(one), Some(two)) => one.may_meet(two),
            (None, None) => self.typed.tree == other.typed.tree && self.document() == other.document(),
            _ => false,
        }
    }

    fn document(self) -> Option<u32> {
        self.typed.upwards().last().map(|root| root.id)
    }
}

/// The Wasm filters of all files.
pub(super) fn modules(given: &Given) -> impl Iterator<Item = Module<'_>> {
    given.keyed("@type").filter_map(|name| {
        let typed = name.parent()?;
        if name.text()?.ends_with(WASM) {
            return Module::of(typed, typed);
        }
        let wrapped = typed.field("type_url").and_then(Node::text).is_some_and(|name| name.ends_with(WASM));
        if wrapped { Module::of(typed, typed.field("value")?) } else { None }
    })
}

/// laststream's filters of all files.
pub(super) fn ours(given: &Given) -> impl Iterator<Item = Module<'_>> {
    modules(given).filter(|module| module.is_ours())
}

/// laststream's gates of all files, with what they are told.
pub(super) fn gates(given: &Given) -> impl Iterator<Item = (Module<'_>, Gate)> {
    ours(given).filter_map(|module| {
        let wire = module.wire().filter(|wire| wire.role == Role::Gate)?;
        Some((module, wire.gate.unwrap_or_else(default_gate)))
    })
}

/// laststream's counters of all files, with whose streams they count.
pub(super) fn counters(given: &Given) -> impl Iterator<Item = (Module<'_>, Scope)> {
    ours(given).filter_map(|module| {
        let wire = module.wire().filter(|wire| wire.role == Role::Stream)?;
        Some((module, wire.scope))
    })
}

fn default_gate() -> Gate {
    <Gate as config::Wire>::unwritten()
}
