//! LS366 to LS366: Envoy's composite filter in the place of the module.

use std::collections::HashSet;

use regex::Regex;

use super::scheme_filters::{action_around, is_composite, peer_info_filters, writers};
use crate::envoy_filter::{Patch, patch_of, patches};
use crate::finding::{Checks, Findings};
use crate::inputs::Inputs;
use crate::listeners::uses;
use crate::modules::counters;
use crate::node::Node;

pub(super) const CHECKS: Checks =
    &[("LS366", too_old), ("LS366", not_cleared), ("LS366", half_replaced)];

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
        let patched = nodes.iter().filter_map(|node| patch_of(*node)?.value());
        patched.filter_map(|filter| filter.text_of("name")).collect()
    };
    let tellers: Vec<_> = peer_info_filters(inputs).iter().map(|teller| teller.node).collect();
    let counting: Vec<_> = counters(inputs).flat_map(|(module, _)| uses(inputs, module)).collect();
    let (tellers, modules) = (names(&tellers), names(&counting));
    let counting: HashSet<_> =
        counting.into_iter().filter_map(patch_of).map(|patch| patch.node).collect();
    for patch in patches(inputs).filter(|patch| replaced(*patch).is_some()) {
        let name = replaced(patch).and_then(Node::text).unwrap_or_default();
        let mut beside = Patch::all_of(patch.filter).filter(|other| is_same_change(patch, *other));
        let need = if tellers.contains(&name) {
            let takes_module = |other: Patch<'g>| {
                replaced(other).and_then(Node::text).is_some_and(|name| modules.contains(&name))
            };
            (!beside.any(takes_module)).then_some("the module behind it needs the peer")
        } else if modules.contains(&name) {
            (!beside.any(|other| counting.contains(&other.node)))
                .then_some("nothing counts the requests of these proxies")
        } else {
            None
        };
        if let (Some(why), Some(place)) = (need, replaced(patch)) {
            findings.at(place, why);
        }
    }
}

/// The name of the HTTP filter that a patch replaces or removes.
fn replaced(patch: Patch<'_>) -> Option<Node<'_>> {
    let takes_away = matches!(patch.operation(), "REPLACE" | "REMOVE");
    patch.sub_filter().filter(|_| takes_away)
}

/// Whether two patches of one EnvoyFilter are for the same versions and listeners.
fn is_same_change(one: Patch<'_>, other: Patch<'_>) -> bool {
    let version = |patch: Patch<'_>| patch.proxy_version().and_then(Node::text).map(str::to_owned);
    one.context() == other.context() && version(one) == version(other)
}
