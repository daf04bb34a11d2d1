//! LS353 to LS355: what restoring x-forwarded-proto needs around the module.

use laststream_filter::config::wire::ForwardedProto;

use crate::lint::envoy_filter::patch_of;
use crate::lint::finding::Rule;
use crate::lint::finding::{Findings, Severity};
use crate::lint::inputs::Inputs;
use crate::lint::listeners::{connection_manager, uses};
use crate::lint::modules::{Module, ours};
use crate::lint::node::Node;
use crate::lint::reach::Reach;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "LS353",
        severity: Severity::Error,
        title: "no filter tells the module the direct peer",
        why: "Trust in addresses needs the connection's own peer, which a `set_filter_state` \
            filter in front of the module writes. Without it no peer is trusted: every request \
            keeps the scheme of the connection. Any other address is what a header claims.",
        fix: "Put `envoy.filters.http.set_filter_state` in front, with the key of `trust.peer_key` \
            and %DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%.",
        check: no_peer,
    },
    Rule {
        code: "LS354",
        severity: Severity::Error,
        title: "the filter that tells the direct peer comes after the module",
        why: "Filters run in their order: when the module looks, the filter state is not there \
            yet, and no peer is trusted. Of two INSERT_FIRST in one resource the later one ends up \
            in front.",
        fix: "Put `set_filter_state` in front: in a chain before the module, in an EnvoyFilter as \
            a later INSERT_FIRST patch.",
        check: peer_too_late,
    },
    Rule {
        code: "LS355",
        severity: Severity::Error,
        title: "two filters restore x-forwarded-proto on the same requests",
        why: "Envoy's own matchers and the module decide one after the other, by two policies that \
            may differ, and the second one sees what the first has written. Each request pays for \
            both.",
        fix: "Render all of it from one policy. `engine` chooses the module or the matchers; the \
            other one is then left out.",
        check: restored_twice,
    },
];

/// Envoy's own filters that write it.
pub(super) fn writers(inputs: &Inputs) -> impl Iterator<Item = SupportingFilter<'_>> {
    let writes = |tag: &Node<'_>| {
        tag.text_of("header").is_some_and(|name| name.eq_ignore_ascii_case(FORWARDED_PROTO))
    };
    inputs.keyed_field("ip_tag_header", "ipTagHeader").filter(writes).map(SupportingFilter::new)
}

/// The filter that leaves another one out where its matcher says so.
pub(super) fn matcher_around(filter: Node<'_>) -> Option<Node<'_>> {
    filter.upwards().find(|node| node.field("xds_matcher").is_some())
}

pub(super) const FORWARDED_PROTO: &str = "x-forwarded-proto";

/// laststream's filters that restore the scheme.
pub(super) fn restorers(inputs: &Inputs) -> impl Iterator<Item = (Module<'_>, &ForwardedProto)> {
    ours(inputs).filter_map(|module| Some((module, module.wire()?.forwarded_proto.as_ref()?)))
}

/// Where the configuration speaks of it.
pub(super) fn section(module: Module<'_>) -> Node<'_> {
    module.part_or_all(&["forwarded_proto"])
}

/// A filter or mutation that the module needs around it, and the proxies that it reaches.
pub(super) struct SupportingFilter<'g> {
    /// The list of mutations, or the key of the filter state.
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
        let in_mesh = matches!(self.reach, Reach::Mesh(_));
        self.reach.may_meet(module.reach())
            && (in_mesh
                || self
                    .manager
                    .is_some_and(|manager| connection_manager(module.typed) == Some(manager)))
    }

    /// The same for another filter.
    pub(super) fn may_meet(&self, other: &Self) -> bool {
        let in_mesh = matches!(self.reach, Reach::Mesh(_));
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

/// Where filter state is written.
pub(super) fn peer_info_filters(inputs: &Inputs) -> Vec<SupportingFilter<'_>> {
    inputs.keyed_field("object_key", "objectKey").map(SupportingFilter::new).collect()
}

fn restored_twice<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (module, _) in restorers(inputs) {
        if let Some(writer) = writers(inputs).find(|writer| writer.applies_to(module)) {
            findings.at(writer.node, format!("`{}` restores it, too", module.name()));
        }
    }
}

fn wants_peer(proto: &ForwardedProto) -> bool {
    !proto.trust.peers.is_empty()
}

/// The filters that write the peer information for this module.
fn own_peer_info_filters<'t, 'g>(
    tellers: &'t [SupportingFilter<'g>],
    module: Module<'g>,
    proto: &ForwardedProto,
) -> impl Iterator<Item = Node<'g>> {
    let writes = move |helper: &&'t SupportingFilter<'g>| {
        helper.node.text() == Some(proto.trust.peer_key.as_str()) && helper.applies_to(module)
    };
    tellers.iter().filter(writes).map(|helper| helper.node)
}

fn no_peer<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let tellers = peer_info_filters(inputs);
    for (module, proto) in restorers(inputs).filter(|(_, proto)| wants_peer(proto)) {
        let mut own = own_peer_info_filters(&tellers, module, proto).peekable();
        if own.peek().is_none() {
            findings.at(
                section(module),
                format!("no `set_filter_state` of these files writes `{}`", proto.trust.peer_key),
            );
        }
        for teller in own.filter(|teller| first_word(*teller).is_some_and(|word| word != PEER)) {
            findings.at(teller, format!("it begins with something else than `{PEER}`"));
        }
    }
}

/// The only address that no header can change.
const PEER: &str = "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%";

fn first_word(teller: Node<'_>) -> Option<&str> {
    let format = teller.parent()?.fields("format_string.text_format_source.inline_string")?;
    format.text()?.split_ascii_whitespace().next()
}

fn peer_too_late<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let tellers = peer_info_filters(inputs);
    for (module, proto) in restorers(inputs).filter(|(_, proto)| wants_peer(proto)) {
        let late = |teller: Node<'g>| comes_after(inputs, teller, module).unwrap_or(false);
        let mut own = own_peer_info_filters(&tellers, module, proto).peekable();
        let Some(first) = own.peek().copied() else { continue };
        if own.all(late) {
            findings.at(
                first,
                format!("`{}` has looked for `{}` already", module.name(), proto.trust.peer_key),
            );
        }
    }
}

/// Whether the module runs before the filter that writes the peer information; none if the order is
/// unknown.
fn comes_after<'g>(inputs: &'g Inputs, teller: Node<'g>, module: Module<'g>) -> Option<bool> {
    let Some(own) = patch_of(teller) else {
        return Some(index_in_chain(teller)? > index_in_chain(module.typed)?);
    };
    let mut patches = uses(inputs, module).into_iter().filter_map(patch_of);
    let puts = patches
        .find(|patch| patch.apply_to() == "HTTP_FILTER" && patch.filter.node == own.filter.node)?;
    let later = own.node.raw()?.index > puts.node.raw()?.index;
    match (own.operation(), puts.operation()) {
        ("INSERT_FIRST", "INSERT_FIRST") => Some(!later),
        ("INSERT_BEFORE", "INSERT_BEFORE") => Some(later),
        _ => None,
    }
}

fn index_in_chain(node: Node<'_>) -> Option<u32> {
    let is_chain = |list: Node<'_>| matches!(list.key_text(), Some("http_filters" | "httpFilters"));
    let item = node.upwards().find(|node| node.parent().is_some_and(is_chain))?;
    item.raw().map(|raw| raw.index)
}
