//! What restores x-forwarded-proto: laststream's filters, also those that a WasmPlugin or an
//! EnvoyExtensionPolicy stands for. The rules about them are in the other files.

use std::borrow::Cow;

use laststream_filter::config;
use laststream_filter::config::wire::{ForwardedProto, Preset, Scope};

use super::supporting::SupportingFilter;
use crate::lint::inputs::Inputs;
use crate::lint::modules::{Module, ours};
use crate::lint::node::Node;
use crate::lint::objects::{Object, object_of};
use crate::lint::plugin_configs::plugin_configs;
use crate::lint::reach::{Mesh, Reach};

/// What restores the scheme.
pub(super) struct Restorer<'g> {
    pub(super) holder: Holder<'g>,
    pub(super) scope: Scope,
    pub(super) proto: Cow<'g, ForwardedProto>,
    /// Where the configuration speaks of it.
    pub(super) place: Node<'g>,
}

/// What holds the module's configuration.
pub(super) enum Holder<'g> {
    /// laststream's filter.
    Filter(Module<'g>),
    /// A WasmPlugin, and the proxies that it is for.
    Plugin(Object<'g>, Reach),
    /// An EnvoyExtensionPolicy.
    Policy(Object<'g>),
}

/// All that restores the scheme in these files.
pub(super) fn restorers(inputs: &Inputs) -> impl Iterator<Item = Restorer<'_>> {
    let filters = restoring_modules(inputs).map(|(module, proto)| Restorer {
        holder: Holder::Filter(module),
        scope: module.wire().map(|wire| wire.scope).unwrap_or_default(),
        proto: Cow::Borrowed(proto),
        place: section(module),
    });
    filters.chain(plugin_configs(inputs).filter_map(|(config, text)| in_resource(config, &text)))
}

/// laststream's filters that restore the scheme.
pub(super) fn restoring_modules(
    inputs: &Inputs,
) -> impl Iterator<Item = (Module<'_>, &ForwardedProto)> {
    ours(inputs).filter_map(|module| Some((module, module.wire()?.forwarded_proto.as_ref()?)))
}

/// Where a filter's configuration speaks of it.
pub(super) fn section(module: Module<'_>) -> Node<'_> {
    module.part_or_all(&["forwarded_proto"])
}

/// A WasmPlugin or an EnvoyExtensionPolicy, by the configuration in it.
fn in_resource<'g>(config: Node<'g>, text: &str) -> Option<Restorer<'g>> {
    let wire = config::read_wire(text.as_bytes()).ok()?;
    let object = object_of(config)?;
    let holder = match object.kind {
        "WasmPlugin" => Holder::Plugin(object, Reach::Mesh(Mesh::of_plugin(object))),
        _ => Holder::Policy(object),
    };
    Some(Restorer {
        holder,
        scope: wire.scope,
        proto: Cow::Owned(wire.forwarded_proto?),
        place: config.get("forwarded_proto")?,
    })
}

impl<'g> Restorer<'g> {
    pub(super) fn name(&self) -> &'g str {
        match &self.holder {
            Holder::Filter(module) => module.name(),
            Holder::Plugin(object, _) | Holder::Policy(object) => object.name(),
        }
    }

    pub(super) fn trusts_peers(&self) -> bool {
        !self.proto.trust.peers.is_empty()
    }

    /// Whether it takes the scheme from the port in a PROXY protocol header.
    pub(super) fn reads_destination(&self) -> bool {
        self.proto.presets.contains(&Preset::Nlb)
    }

    /// Whether a filter or mutation may stand around it. A WasmPlugin gets what is around it from
    /// EnvoyFilters, an EnvoyExtensionPolicy from EnvoyPatchPolicies.
    pub(super) fn may_meet(&self, helper: &SupportingFilter<'g>) -> bool {
        match &self.holder {
            Holder::Filter(module) => helper.applies_to(*module),
            Holder::Plugin(_, reach) => helper.reach.may_meet(reach),
            Holder::Policy(policy) => is_patched_beside(helper.node, *policy),
        }
    }
}

/// Whether a node stands in an EnvoyPatchPolicy for the same Gateway as another policy.
pub(super) fn is_patched_beside(node: Node<'_>, policy: Object<'_>) -> bool {
    object_of(node)
        .is_some_and(|holder| holder.kind == "EnvoyPatchPolicy" && holder.may_share_target(policy))
}
