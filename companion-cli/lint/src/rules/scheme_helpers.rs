//! Envoy's own filters and mutations that are beside the module when it restores x-forwarded-proto,
//! or restore it themselves. The rules about them are in `saved_header`, `scheme`, `trust` and
//! `clients`.

use crate::inputs::Inputs;
use crate::listeners::connection_manager;
use crate::modules::Module;
use crate::node::Node;
use crate::proxy_protocol::is_type;
use crate::reach::Reach;

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
        let in_mesh = matches!(self.reach, Reach::Selector(_));
        self.reach.may_meet(module.reach())
            && (in_mesh
                || self
                    .manager
                    .is_some_and(|manager| connection_manager(module.typed) == Some(manager)))
    }

    /// Whether both may be in one chain: in a mesh on the same proxies, in a plain Envoy in the
    /// same connection manager.
    pub(super) fn may_meet(&self, other: &Self) -> bool {
        let in_mesh = matches!(self.reach, Reach::Selector(_));
        self.reach.may_meet(&other.reach)
            && (in_mesh || (self.manager.is_some() && self.manager == other.manager))
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

/// The mutations in front of one, in the same list.
pub(super) fn mutations_before(mutation: Node<'_>) -> impl Iterator<Item = Node<'_>> {
    let all = mutation.parent().into_iter().flat_map(Node::items);
    all.take_while(move |item| *item != mutation)
}

/// The filters that write filter state, by its key.
pub(super) fn peer_info_filters(inputs: &Inputs) -> Vec<SupportingFilter<'_>> {
    inputs.keyed_field("object_key").map(SupportingFilter::new).collect()
}

/// The value that the filter writes: the name of its first tag, or the value of its mutation.
pub(super) fn written<'g>(writer: &SupportingFilter<'g>) -> Option<&'g str> {
    let around = writer.node.parent()?;
    let tags = around.field("ip_tags").and_then(|tags| tags.items().next());
    tags.map_or_else(|| around.text_of("value"), |tag| tag.text_of("ip_tag_name"))
}
