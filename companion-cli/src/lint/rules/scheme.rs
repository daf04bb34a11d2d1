//! LS35x: what restoring x-forwarded-proto needs around the module.

use laststream_filter::config::wire::{ForwardedProto, Preset};

use crate::lint::envoy_filter::patches_of;
use crate::lint::finding::{Found, Severity};
use crate::lint::given::Given;
use crate::lint::modules::{Module, ours};
use crate::lint::node::Node;
use crate::lint::rule::Rule;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "LS351",
        severity: Severity::Error,
        title: "nobody saves the x-forwarded-proto that the load balancer sent",
        why: "An Istio gateway overwrites x-forwarded-proto before any filter runs. The module reads what was sent from a header that an early header mutation fills; without it the load balancer says nothing and the fallback decides, or whatever a client writes into that header is believed.",
        fix: "Add a NETWORK_FILTER MERGE with `early_header_mutation_extensions` that removes the header and then appends `%REQ(x-forwarded-proto)%`. Where Envoy keeps the header, write `\"original_header\": \"x-forwarded-proto\"`.",
        check: not_saved,
    },
    Rule {
        code: "LS352",
        severity: Severity::Error,
        title: "a forged copy of the saved header survives",
        why: "A client may send the saved header itself. Only when it is removed before it is appended, and empty values are not kept, is what the module reads the peer's own x-forwarded-proto.",
        fix: "In `mutations`: first `remove` the header, then `append` it with OVERWRITE_IF_EXISTS_OR_ADD, without `keep_empty_value`.",
        check: forgeable,
    },
    Rule {
        code: "LS353",
        severity: Severity::Error,
        title: "nobody tells the module who the direct peer is",
        why: "Trust in addresses needs the connection's own peer, which a `set_filter_state` filter in front of the module writes. Without it nobody is trusted: every request keeps the scheme of the connection.",
        fix: "Put `envoy.filters.http.set_filter_state` in front, with the key of `trust.peer_key` and %DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%.",
        check: no_peer,
    },
    Rule {
        code: "LS354",
        severity: Severity::Error,
        title: "the filter that tells the direct peer comes after the module",
        why: "Filters run in their order: when the module looks, the filter state is not there yet, and nobody is trusted. Of two INSERT_FIRST in one resource the later one ends up in front.",
        fix: "Put `set_filter_state` in front: in a chain before the module, in an EnvoyFilter as a later INSERT_FIRST patch.",
        check: peer_too_late,
    },
];

const FORWARDED_PROTO: &str = "x-forwarded-proto";

/// laststream's filters that restore the scheme.
fn restorers(given: &Given) -> impl Iterator<Item = (Module<'_>, ForwardedProto)> {
    ours(given).filter_map(|module| Some((module, module.wire()?.forwarded_proto?)))
}

/// Where the configuration speaks of it.
fn section(module: Module<'_>) -> Node<'_> {
    let text = module.text().unwrap_or(module.plugin);
    text.embedded().and_then(|root| root.get("forwarded_proto")).unwrap_or(text)
}

fn wants_saved(proto: &ForwardedProto) -> bool {
    let by_preset = proto.presets.iter().any(|preset| *preset != Preset::Cloudfront);
    let by_source = proto.sources.iter().any(|source| source.header.eq_ignore_ascii_case(FORWARDED_PROTO));
    (by_preset || by_source) && !proto.original_header.eq_ignore_ascii_case(FORWARDED_PROTO)
}

/// Whether something stands where the module's proxies get it.
fn reaches(place: Node<'_>, module: Module<'_>) -> bool {
    match (crate::lint::envoy_filter::patch_of(place), module.patch()) {
        (Some(one), Some(two)) => one.may_meet(two),
        (None, None) => connection_manager(place).is_some_and(|manager| connection_manager(module.typed) == Some(manager)),
        _ => false,
    }
}

/// The connection manager around a node.
fn connection_manager(node: Node<'_>) -> Option<Node<'_>> {
    node.upwards().find(|node| node.get("@type").and_then(Node::text).is_some_and(|name| name.ends_with("HttpConnectionManager")))
}

/// Lists of early header mutations that write a header, with where they do.
fn savers<'g>(given: &'g Given, header: &str) -> Vec<(Node<'g>, Node<'g>)> {
    let lists = given.keyed("mutations").filter(|list| {
        list.upwards().any(|node| matches!(node.key_text(), Some("early_header_mutation_extensions" | "earlyHeaderMutationExtensions")))
    });
    lists
        .filter_map(|list| Some((list, list.items().find(|item| appended(*item).is_some_and(|name| name.eq_ignore_ascii_case(header)))?)))
        .collect()
}

fn appended(mutation: Node<'_>) -> Option<&str> {
    mutation.fields("append.header.key").and_then(Node::text)
}

fn not_saved<'g>(given: &'g Given, found: &mut Found<'g>) {
    for (module, proto) in restorers(given).filter(|(_, proto)| wants_saved(proto)) {
        if !savers(given, &proto.original_header).iter().any(|(list, _)| reaches(*list, module)) {
            found.at(section(module), format!("no early header mutation of these files writes `{}`", proto.original_header));
        }
    }
}

fn forgeable<'g>(given: &'g Given, found: &mut Found<'g>) {
    let mut seen = Vec::new();
    for (module, proto) in restorers(given).filter(|(_, proto)| wants_saved(proto)) {
        for (list, append) in savers(given, &proto.original_header).into_iter().filter(|(list, _)| reaches(*list, module)) {
            if seen.contains(&(append.tree, append.id)) {
                continue;
            }
            seen.push((append.tree, append.id));
            let removed = list
                .items()
                .take_while(|item| *item != append)
                .any(|item| item.text_of("remove").is_some_and(|name| name.eq_ignore_ascii_case(&proto.original_header)));
            let keeps = append.fields("append.keep_empty_value").filter(|node| node.is_true());
            if !removed {
                found.at(append, format!("`{}` is not removed before", proto.original_header));
            } else if let Some(keeps) = keeps {
                found.at(keeps, "an empty x-forwarded-proto leaves an empty header here, which says nothing to the module");
            }
        }
    }
}

/// Where filter state of a key is written.
fn tellers<'g>(given: &'g Given, key: &str) -> Vec<Node<'g>> {
    given.keyed_field("object_key", "objectKey").filter(|node| node.text() == Some(key)).collect()
}

fn wants_peer(proto: &ForwardedProto) -> bool {
    !proto.trust.peers.is_empty()
}

fn no_peer<'g>(given: &'g Given, found: &mut Found<'g>) {
    for (module, proto) in restorers(given).filter(|(_, proto)| wants_peer(proto)) {
        if !tellers(given, &proto.trust.peer_key).into_iter().any(|teller| reaches(teller, module)) {
            found.at(section(module), format!("no `set_filter_state` of these files writes `{}`", proto.trust.peer_key));
        }
    }
}

fn peer_too_late<'g>(given: &'g Given, found: &mut Found<'g>) {
    for (module, proto) in restorers(given).filter(|(_, proto)| wants_peer(proto)) {
        let tellers: Vec<_> = tellers(given, &proto.trust.peer_key).into_iter().filter(|teller| reaches(*teller, module)).collect();
        let late = |teller: &Node<'g>| comes_after(given, *teller, module).unwrap_or(false);
        if let Some(teller) = tellers.first().filter(|_| tellers.iter().all(late)) {
            found.at(*teller, format!("`{}` has looked for `{}` already", module.name(), proto.trust.peer_key));
        }
    }
}

/// Whether the module runs before the teller; none where that is not to be seen.
fn comes_after<'g>(given: &'g Given, teller: Node<'g>, module: Module<'g>) -> Option<bool> {
    let (Some(own), Some(_)) = (crate::lint::envoy_filter::patch_of(teller), module.patch()) else {
        let position = |node: Node<'g>| {
            let item = node
                .upwards()
                .find(|node| node.parent().is_some_and(|list| matches!(list.key_text(), Some("http_filters" | "httpFilters"))))?;
            item.raw().map(|raw| raw.index)
        };
        return Some(position(teller)? > position(module.typed)?);
    };
    let puts = patches_of(given, "HTTP_FILTER").find(|patch| {
        patch.filter.node == own.filter.node && patch.value().and_then(|value| value.text_of("name")) == Some(module.name())
    })?;
    let both_first = own.operation() == "INSERT_FIRST" && puts.operation() == "INSERT_FIRST";
    let both_before = own.operation() == "INSERT_BEFORE" && puts.operation() == "INSERT_BEFORE";
    let later = own.node.raw()?.index > puts.node.raw()?.index;
    match (both_first, both_before) {
        (true, _) => Some(!later),
        (_, true) => Some(later),
        _ => None,
    }
}
