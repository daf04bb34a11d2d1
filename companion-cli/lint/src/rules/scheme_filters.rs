//! Restorers of x-forwarded-proto: laststream's filters, also those of WasmPlugins and
//! EnvoyExtensionPolicies; and Envoy's own filters and mutations that are beside them, or restore
//! it themselves. The rules about them are in the other files.

use std::borrow::Cow;

use laststream_filter::config;
use laststream_filter::config::wire::{ForwardedProto, Preset, Scope};

use crate::modules::{Module, ours};
use crate::plugin_configs::plugin_configs;
use manifest_lint::{
    Inputs, Node, Object, ProxySelector, Reach, connection_manager, is_type, object_of,
};

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

/// Envoy's own filters that write x-forwarded-proto behind a matcher: as the header of an IP tag,
/// or as a header mutation in an action of the composite filter.
pub(super) fn writers(inputs: &Inputs) -> impl Iterator<Item = SupportingFilter<'_>> {
    let tags = inputs.keyed_field("ip_tag_header");
    let tags = tags.filter(|tag| tag.get("header").is_some_and(is_forwarded_proto));
    let keys = inputs.keyed("key").filter(|key| is_forwarded_proto(*key));
    let mutations = keys.filter(|key| action_around(*key).is_some());
    tags.chain(mutations).map(SupportingFilter::new)
}

pub(super) fn is_forwarded_proto(name: Node<'_>) -> bool {
    name.text().is_some_and(|name| name.eq_ignore_ascii_case(FORWARDED_PROTO))
}

/// The filter around another one whose matcher decides whether that one runs.
pub(super) fn matcher_around(filter: Node<'_>) -> Option<Node<'_>> {
    filter.upwards().find(|node| node.field("xds_matcher").is_some() || is_composite(*node))
}

/// Whether this is the configuration of Envoy's composite filter.
pub(super) fn is_composite(config: Node<'_>) -> bool {
    is_type(config, "Composite")
}

/// The action of the composite filter that runs this filter.
pub(super) fn action_around(filter: Node<'_>) -> Option<Node<'_>> {
    filter.upwards().find(|node| is_type(*node, "ExecuteFilterAction"))
}

pub(super) const FORWARDED_PROTO: &str = "x-forwarded-proto";

/// A filter or mutation of Envoy's own, and the proxies that it reaches.
pub(super) struct SupportingFilter<'g> {
    /// The node that stands for it, such as the list of mutations or the key of the filter state.
    pub(super) node: Node<'g>,
    pub(super) reach: Reach,
    pub(super) manager: Option<Node<'g>>,
}

impl<'g> SupportingFilter<'g> {
    pub(super) fn new(node: Node<'g>) -> Self {
        Self { node, reach: Reach::of(node), manager: connection_manager(node) }
    }

    /// Whether it applies to the module: in a mesh on the same proxies, in a plain Envoy in the
    /// same chain.
    pub(super) fn applies_to(&self, module: Module<'g>) -> bool {
        self.reach.may_meet(module.reach()) && self.may_be_in(|| connection_manager(module.typed))
    }

    /// Whether both may be in one chain: in a mesh on the same proxies, in a plain Envoy in the
    /// same connection manager.
    pub(super) fn may_meet(&self, other: &Self) -> bool {
        self.reach.may_meet(&other.reach) && self.may_be_in(|| other.manager)
    }

    fn may_be_in(&self, manager: impl FnOnce() -> Option<Node<'g>>) -> bool {
        let in_mesh = matches!(self.reach, Reach::Selector(_));
        in_mesh || self.manager.is_some() && self.manager == manager()
    }

    /// Whether the files show what is beside it.
    pub(super) fn is_placed(&self) -> bool {
        matches!(self.reach, Reach::Selector(_)) || self.manager.is_some()
    }
}

/// Early header mutations, also those of JSON patches.
pub(super) fn mutations(inputs: &Inputs) -> Vec<SupportingFilter<'_>> {
    const EARLY: [&str; 2] = ["early_header_mutation_extensions", "earlyHeaderMutationExtensions"];
    let early = |node: Node<'_>| {
        let is_named = |name: &str| EARLY.contains(&name);
        node.key_text().is_some_and(is_named)
            || node.text_of("path").is_some_and(|path| path.split('/').any(is_named))
    };
    inputs
        .keyed("mutations")
        .filter(|list| list.upwards().any(early))
        .map(SupportingFilter::new)
        .collect()
}

/// Whether a mutation removes this header.
pub(super) fn removes(mutation: Node<'_>, header: &str) -> bool {
    mutation.text_of("remove").is_some_and(|name| name.eq_ignore_ascii_case(header))
}

/// The mutations in front of one, in the same list.
pub(super) fn mutations_before(mutation: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    let all = mutation.parent().into_iter().flat_map(Node::items);
    all.take_while(move |item| *item != mutation)
}

/// The filters that write filter state, by its key.
pub(super) fn peer_info_filters(inputs: &Inputs) -> Vec<SupportingFilter<'_>> {
    inputs.keyed_field("object_key").map(SupportingFilter::new).collect()
}

/// The format of the filter state with this key.
pub(super) fn format_of(key: Node<'_>) -> Option<&str> {
    key.parent()?.text_of("format_string.text_format_source.inline_string")
}

/// The value that the filter writes: the name of its first tag, or the value of its mutation.
pub(super) fn written<'g>(writer: &SupportingFilter<'g>) -> Option<&'g str> {
    let around = writer.node.parent()?;
    let tags = around.field("ip_tags").and_then(|tags| tags.items().next());
    tags.map_or_else(|| around.text_of("value"), |tag| tag.text_of("ip_tag_name"))
}
