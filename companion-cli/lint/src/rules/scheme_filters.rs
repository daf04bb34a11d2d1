//! Restorers of x-forwarded-proto: laststream's filters, also those of WasmPlugins and
//! EnvoyExtensionPolicies. The rules about them are in the other files.

use std::borrow::Cow;

use laststream_filter::config;
use laststream_filter::config::wire::{ForwardedProto, Preset, Scope};

use super::scheme_helpers::SupportingFilter;
use crate::inputs::Inputs;
use crate::modules::{Module, ours};
use crate::node::Node;
use crate::objects::{Object, object_of};
use crate::plugin_configs::plugin_configs;
use crate::reach::{ProxySelector, Reach};

/// A filter of laststream that restores the scheme.
pub(super) struct Restorer<'g> {
    pub(super) holder: Holder<'g>,
    pub(super) scope: Scope,
    pub(super) proto: Cow<'g, ForwardedProto>,
    /// The node of `forwarded_proto`, or else of the whole configuration.
    pub(super) place: Node<'g>,
}

/// The filter or resource that holds the module's configuration.
pub(super) enum Holder<'g> {
    /// laststream's filter.
    Filter(Module<'g>),
    /// A WasmPlugin, and the proxies that it is for.
    Plugin(Object<'g>, Reach),
    /// An EnvoyExtensionPolicy.
    Policy(Object<'g>),
}

/// All restorers of these files.
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

/// The node of `forwarded_proto` in a filter's configuration, or else of the whole configuration.
pub(super) fn section(module: Module<'_>) -> Node<'_> {
    module.part_or_all(&["forwarded_proto"])
}

/// The restorer of a WasmPlugin or an EnvoyExtensionPolicy with this configuration.
fn in_resource<'g>(config: Node<'g>, text: &str) -> Option<Restorer<'g>> {
    let wire = config::read_wire(text.as_bytes()).ok()?;
    let object = object_of(config)?;
    let holder = match object.kind {
        "WasmPlugin" | "TrafficExtension" => {
            Holder::Plugin(object, Reach::Selector(ProxySelector::of_plugin(object)))
        }
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

    /// Whether the restorer takes the scheme from the port in a PROXY protocol header.
    pub(super) fn reads_destination(&self) -> bool {
        self.proto.presets.contains(&Preset::Nlb)
    }

    /// Whether a filter or mutation may be beside the restorer. Beside a WasmPlugin it comes from
    /// an EnvoyFilter, beside an EnvoyExtensionPolicy from an EnvoyPatchPolicy.
    pub(super) fn may_meet(&self, helper: &SupportingFilter<'g>) -> bool {
        match &self.holder {
            Holder::Filter(module) => helper.applies_to(*module),
            Holder::Plugin(_, reach) => helper.reach.may_meet(reach),
            Holder::Policy(policy) => is_patched_beside(helper.node, *policy),
        }
    }
}

/// Whether a node is in an EnvoyPatchPolicy for the same Gateway as another policy.
pub(super) fn is_patched_beside(node: Node<'_>, policy: Object<'_>) -> bool {
    object_of(node)
        .is_some_and(|holder| holder.kind == "EnvoyPatchPolicy" && holder.may_share_target(policy))
}
