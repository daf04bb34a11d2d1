//! LS35x: what restoring x-forwarded-proto needs around the module.

use laststream_filter::config::wire::{ForwardedProto, ORIGINAL_HEADER, Preset};

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
        code: "LS351",
        severity: Severity::Error,
        title: "the x-forwarded-proto that the load balancer sent is not saved",
        why: "An Istio gateway overwrites x-forwarded-proto before any filter runs. The module \
            reads what was sent from a header that an early header mutation fills; without it the \
            load balancer says nothing and the fallback decides, or whatever a client writes into \
            that header is believed.",
        fix: "Add a NETWORK_FILTER MERGE with `early_header_mutation_extensions` that removes the \
            header and then appends `%REQ(x-forwarded-proto)%`. Where Envoy keeps the header, \
            write `\"original_header\": \"x-forwarded-proto\"`.",
        check: not_saved,
    },
    Rule {
        code: "LS352",
        severity: Severity::Error,
        title: "a forged copy of the saved header survives",
        why: "A client may send the saved header itself. Only when it is removed before it is \
            appended, and empty values are not kept, is what the module reads the peer's own \
            x-forwarded-proto.",
        fix: "In `mutations`: first `remove` the header, then `append` it, without \
            `keep_empty_value`.",
        check: forgeable,
    },
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

/// Envoy's own filters that read the saved header, where it can be seen what is around them.
fn readers(inputs: &Inputs) -> Vec<SupportingFilter<'_>> {
    let reads = |name: &Node<'_>| {
        name.text().is_some_and(|name| name.eq_ignore_ascii_case(ORIGINAL_HEADER))
    };
    let of_writer = |writer: &SupportingFilter<'_>, name: Node<'_>| {
        matcher_around(writer.node).is_some_and(|matcher| name.upwards().any(|up| up == matcher))
    };
    let names: Vec<Node<'_>> =
        inputs.keyed_field("header_name", "headerName").filter(reads).collect();
    let is_placed = |writer: &SupportingFilter<'_>| {
        matches!(writer.reach, Reach::Mesh(_)) || writer.manager.is_some()
    };
    writers(inputs)
        .filter(is_placed)
        .filter(|writer| names.iter().any(|name| of_writer(writer, *name)))
        .collect()
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

fn wants_saved(proto: &ForwardedProto) -> bool {
    let reads_it = |preset: &Preset| !matches!(preset, Preset::Cloudfront | Preset::Nlb);
    let by_preset = proto.presets.iter().any(reads_it);
    let by_source =
        proto.sources.iter().any(|source| source.header.eq_ignore_ascii_case(FORWARDED_PROTO));
    (by_preset || by_source) && !proto.original_header.eq_ignore_ascii_case(FORWARDED_PROTO)
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

/// Early header mutations.
pub(super) fn mutations(inputs: &Inputs) -> Vec<SupportingFilter<'_>> {
    let early = |node: Node<'_>| {
        matches!(
            node.key_text(),
            Some("early_header_mutation_extensions" | "earlyHeaderMutationExtensions")
        )
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

/// The mutation that writes a header.
fn append_of<'g>(list: Node<'g>, header: &str) -> Option<Node<'g>> {
    list.items().find(|item| appended(*item).is_some_and(|name| name.eq_ignore_ascii_case(header)))
}

fn appended(mutation: Node<'_>) -> Option<&str> {
    mutation.text_of("append.header.key")
}

fn not_saved<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let mutations = mutations(inputs);
    for (module, proto) in restorers(inputs).filter(|(_, proto)| wants_saved(proto)) {
        let saves = |helper: &SupportingFilter<'g>| {
            helper.applies_to(module) && append_of(helper.node, &proto.original_header).is_some()
        };
        if !mutations.iter().any(saves) {
            findings.at(
                section(module),
                format!(
                    "no early header mutation of these files writes `{}`",
                    proto.original_header
                ),
            );
        }
    }
    for reader in readers(inputs) {
        if !mutations.iter().any(|helper| {
            helper.may_meet(&reader) && append_of(helper.node, ORIGINAL_HEADER).is_some()
        }) {
            findings.at(
                reader.node,
                format!("no early header mutation of these files writes `{ORIGINAL_HEADER}`"),
            );
        }
    }
}

fn forgeable<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let restorers: Vec<_> = restorers(inputs).filter(|(_, proto)| wants_saved(proto)).collect();
    let readers = readers(inputs);
    for helper in mutations(inputs) {
        let modules = restorers
            .iter()
            .filter(|(module, _)| helper.applies_to(*module))
            .map(|(_, proto)| proto.original_header.as_str());
        let filters =
            readers.iter().filter(|reader| helper.may_meet(reader)).map(|_| ORIGINAL_HEADER);
        let read = modules
            .chain(filters)
            .find_map(|header| Some((append_of(helper.node, header)?, header)));
        let Some((append, header)) = read else { continue };
        let removes = |item: Node<'g>| {
            item.text_of("remove").is_some_and(|name| name.eq_ignore_ascii_case(header))
        };
        if !helper.node.items().take_while(|item| *item != append).any(removes) {
            findings.at(append, format!("`{header}` is not removed before"));
        } else if let Some(keeps) =
            append.fields("append.keep_empty_value").filter(|node| node.is_true())
        {
            findings.at(
                keeps,
                "an empty x-forwarded-proto leaves an empty header here, which says \
                nothing to the module",
            );
        }
    }
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
