//! LS366 to LS368: Envoy's composite filter in the place of the module.

use std::collections::HashSet;

use regex::Regex;

use super::scheme_helpers::{action_around, is_composite, peer_info_filters, writers};
use crate::envoy_filter::{Patch, patch_of, patches};
use crate::finding::{Findings, Rule, Severity};
use crate::inputs::Inputs;
use crate::listeners::uses;
use crate::modules::counters;
use crate::node::Node;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "LS366",
        severity: Severity::Error,
        title: "the composite filter is for proxies that do not have its matcher",
        why: "`matcher` of the composite filter came with Envoy 1.39, in Istio 1.31. Envoy 1.38 \
            accepts it and ignores it: every https request of the load balancer stays http, and an \
            app that redirects http does it for ever. An older Envoy refuses the listener.",
        fix: "Limit the patch with `match.proxy.proxyVersion`, as `laststream render envoyfilter` \
            does; all other proxies then keep the module.",
        check: too_old,
    },
    Rule {
        code: "LS367",
        severity: Severity::Error,
        title: "the composite filter writes x-forwarded-proto, and the route is not chosen again",
        why: "Envoy has chosen the route by the former value. `httpsRedirect` and `require_tls` \
            then redirect an https request to its own address, for ever, and routes by scheme are \
            the wrong ones.",
        fix: "In the action's `filter_chain`, put a `set_filter_state` with `clear_route_cache: \
            true` behind the filter that writes the header.",
        check: not_cleared,
    },
    Rule {
        code: "LS368",
        severity: Severity::Error,
        title: "a patch replaces one of laststream's filters, and others still need it",
        why: "For some proxies `render envoyfilter` replaces the module by the composite filter, \
            and the peer information by a module that only counts. With one of the two patches \
            alone requests are not counted, or the module trusts no peer and leaves http.",
        fix: "Keep all rendered patches with the same `proxyVersion`, or remove all of them.",
        check: half_replaced,
    },
];

/// The last versions of Istio before the matcher.
const TOO_OLD: [&str; 3] = ["1.28.9", "1.29.9", "1.30.9"];

fn too_old<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let mut reported = Vec::new();
    for writer in writers(inputs) {
        let Some(composite) = writer.node.upwards().find(|node| is_composite(*node)) else {
            continue;
        };
        let Some(patch) = patch_of(composite).filter(|_| !reported.contains(&composite)) else {
            continue;
        };
        reported.push(composite);
        let Some(version) = patch.proxy_version() else {
            findings.at(composite, "without `proxyVersion` every proxy gets it");
            continue;
        };
        let Some(pattern) = version.text().and_then(|text| Regex::new(text).ok()) else { continue };
        if let Some(old) = TOO_OLD.iter().find(|old| pattern.is_match(old)) {
            findings.at(version, format!("proxies of Istio {old} get it"));
        }
    }
}

fn not_cleared<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for writer in writers(inputs) {
        let Some(action) = action_around(writer.node) else { continue };
        let clears = |filter: Node<'g>| {
            filter.fields("typed_config.clear_route_cache").is_some_and(Node::is_true)
        };
        if !action.list("filter_chain.typed_config").any(clears) {
            findings.at(writer.node, "no filter of this action clears the route cache");
        }
    }
}

fn half_replaced<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let names = |nodes: &[Node<'g>]| -> HashSet<&'g str> {
        let patched = nodes.iter().copied().filter_map(patched_filter);
        patched.filter_map(|filter| filter.text_of("name")).collect()
    };
    let tellers: Vec<_> = peer_info_filters(inputs).iter().map(|teller| teller.node).collect();
    let counting: Vec<_> = counters(inputs).flat_map(|(module, _)| uses(inputs, module)).collect();
    let (tellers, modules) = (names(&tellers), names(&counting));
    let place = |patch: Patch<'g>| (patch.node.tree, patch.node.id);
    let counting: HashSet<_> = counting.into_iter().filter_map(patch_of).map(place).collect();
    for patch in patches(inputs).filter(|patch| replaced(*patch).is_some()) {
        let name = replaced(patch).and_then(Node::text).unwrap_or_default();
        let mut beside = Patch::all_of(patch.filter).filter(|other| is_same_change(patch, *other));
        let needed = if tellers.contains(&name) {
            let takes_module = |other: Patch<'g>| {
                replaced(other).and_then(Node::text).is_some_and(|name| modules.contains(&name))
            };
            (!beside.any(takes_module)).then_some("the module behind it needs the peer")
        } else if modules.contains(&name) {
            (!beside.any(|other| counting.contains(&place(other))))
                .then_some("nothing counts the requests of these proxies")
        } else {
            None
        };
        if let (Some(why), Some(place)) = (needed, replaced(patch)) {
            findings.at(place, why);
        }
    }
}

/// The filter that a patch adds, around one of its nodes.
fn patched_filter(node: Node<'_>) -> Option<Node<'_>> {
    patch_of(node)?.value()
}

/// The name of the HTTP filter that a patch replaces or removes.
fn replaced(patch: Patch<'_>) -> Option<Node<'_>> {
    let takes_away = matches!(patch.operation(), "REPLACE" | "REMOVE");
    patch.filter_match().filter(|_| takes_away)?.fields("subFilter.name")
}

/// Whether two patches of one EnvoyFilter are for the same versions and listeners.
fn is_same_change(one: Patch<'_>, other: Patch<'_>) -> bool {
    let version = |patch: Patch<'_>| patch.proxy_version().and_then(Node::text).map(str::to_owned);
    one.context() == other.context() && version(one) == version(other)
}
