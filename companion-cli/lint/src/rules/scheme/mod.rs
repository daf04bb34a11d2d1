//! LS353, LS355, LS366: the filters beside the module when it restores x-forwarded-proto, and
//! Envoy's composite filter in its place.

use laststream_filter::config::wire::Scope;
use regex::Regex;

use super::module::{fits, in_one_chain, share_chain};
use super::scheme_filters::{
    Holder, Restorer, SupportingFilter, action_around, format_of, is_composite, peer_info_filters,
    restorers, restoring_modules, section, writers, written,
};
use crate::modules::Module;
use crate::users::uses;
use manifest_lint::{Checks, Findings, Inputs, Node, Object, Patch, patch_of};

pub(super) const CHECKS: Checks = &[
    ("LS353", no_peer),
    ("LS353", peer_too_late),
    ("LS355", restored_twice),
    ("LS366", too_old),
    ("LS366", not_cleared),
];

fn restored_twice<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let writers: Vec<_> = writers(inputs).collect();
    let all: Vec<_> = restorers(inputs).collect();
    for restorer in &all {
        let shares = |writer: &&SupportingFilter<'g>| {
            restorer.may_meet(writer)
                && is_for(writer, restorer.scope)
                && !takes_the_place(writer, restorer)
        };
        if let Some(writer) = writers.iter().find(shares) {
            findings.at(writer.node, also_by(restorer.name()));
        }
    }
    let modules = restoring_modules(inputs).map(|(module, _)| module);
    for (other, module) in in_one_chain(inputs, modules) {
        findings.at(section(module), also_by(other.name()));
    }
    plugins_restore_twice(&all, findings);
    matchers_restore_twice(&writers, findings);
}

/// Whether the filter's patch replaces the module, so that no proxy has both.
fn takes_the_place(writer: &SupportingFilter<'_>, restorer: &Restorer<'_>) -> bool {
    let Some(patch) = patch_of(writer.node) else { return false };
    let name = patch.sub_filter().and_then(Node::text);
    patch.operation() == "REPLACE" && name == Some(restorer.name())
}

/// Whether a filter is for the listeners of this scope; true if its patch names no context.
fn is_for(writer: &SupportingFilter<'_>, scope: Scope) -> bool {
    let context = patch_of(writer.node).map_or("ANY", Patch::context);
    context == "ANY" || fits(scope, context)
}

fn also_by(name: &str) -> String {
    format!("`{name}` restores it, too")
}

/// The most plugins or matchers that are compared.
const MOST_COMPARED: usize = 64;

/// Reports WasmPlugins that share requests with an earlier restorer of the list. Two plugins that
/// are both limited to ports are left out, because the ports may differ.
fn plugins_restore_twice<'g>(all: &[Restorer<'g>], findings: &mut Findings<'g>) {
    for (index, plugin) in all.iter().enumerate().take(MOST_COMPARED) {
        let Holder::Plugin(object, reach) = &plugin.holder else { continue };
        let shares = |other: &&Restorer<'g>| {
            plugin.scope == other.scope
                && match &other.holder {
                    Holder::Filter(module) => !has_ports(*object) && reach.may_meet(module.reach()),
                    Holder::Plugin(other, theirs) => {
                        let may_differ = has_ports(*object) && has_ports(*other);
                        !may_differ && reach.may_meet(theirs)
                    }
                    Holder::Policy(_) => false,
                }
        };
        if let Some(other) = all.iter().take(index).find(shares) {
            findings.at(plugin.place, also_by(other.name()));
        }
    }
}

/// Whether a WasmPlugin is for some ports only.
fn has_ports(plugin: Object<'_>) -> bool {
    plugin.node.list("spec.match").any(|selector| selector.list("ports").next().is_some())
}

/// Reports matchers of two EnvoyFilters in one chain. Those within one EnvoyFilter come from one
/// policy and are left out.
fn matchers_restore_twice<'g>(writers: &[SupportingFilter<'g>], findings: &mut Findings<'g>) {
    let patched = |writer: &SupportingFilter<'g>| {
        let patch = patch_of(writer.node).filter(|_| written(writer) == Some("https"))?;
        Some((writer.node, patch.filter))
    };
    let patched: Vec<_> = writers.iter().filter_map(patched).take(MOST_COMPARED).collect();
    for (index, (writer, filter)) in patched.iter().enumerate() {
        let other = patched
            .iter()
            .take(index)
            .find(|(other, others)| others.node != filter.node && share_chain(*writer, *other));
        if let Some((_, other)) = other {
            findings.at(*writer, also_by(other.name()));
        }
    }
}

/// The filters that write the peer information for a restorer.
pub(super) fn own_peer_info_filters<'t, 'g>(
    tellers: &'t [SupportingFilter<'g>],
    restorer: &'t Restorer<'g>,
) -> impl Iterator<Item = Node<'g>> {
    let key = restorer.proto.trust.peer_key.as_str();
    let writes = move |helper: &&'t SupportingFilter<'g>| {
        helper.node.text() == Some(key) && restorer.may_meet(helper)
    };
    tellers.iter().filter(writes).map(|helper| helper.node)
}

fn no_peer<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let tellers = peer_info_filters(inputs);
    for restorer in restorers(inputs).filter(Restorer::trusts_peers) {
        let mut filters = own_peer_info_filters(&tellers, &restorer).peekable();
        if filters.peek().is_none() {
            let key = &restorer.proto.trust.peer_key;
            findings
                .at(restorer.place, format!("no `set_filter_state` of these files writes `{key}`"));
        }
        let first_word = |teller: &Node<'g>| format_of(*teller)?.split_ascii_whitespace().next();
        for teller in filters.filter(|teller| first_word(teller).is_some_and(|word| word != PEER)) {
            findings.at(teller, format!("it begins with something else than `{PEER}`"));
        }
    }
}

/// The only address of the peer that no header can change.
const PEER: &str = "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%";

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

fn peer_too_late<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let tellers = peer_info_filters(inputs);
    for restorer in restorers(inputs).filter(Restorer::trusts_peers) {
        let late = |teller: Node<'g>| comes_after(inputs, teller, &restorer).unwrap_or(false);
        let mut filters = own_peer_info_filters(&tellers, &restorer).peekable();
        let Some(first) = filters.peek().copied() else { continue };
        if filters.all(late) {
            let key = &restorer.proto.trust.peer_key;
            findings.at(first, format!("`{}` has looked for `{key}` already", restorer.name()));
        }
    }
}

/// Whether the module runs before the filter that writes the peer information; none if the order is
/// unknown.
fn comes_after<'g>(inputs: &'g Inputs, teller: Node<'g>, restorer: &Restorer<'g>) -> Option<bool> {
    match (&restorer.holder, patch_of(teller)) {
        (Holder::Filter(module), Some(own)) => is_patched_behind(inputs, own, *module),
        (Holder::Filter(module), None) => {
            Some(index_in_chain(teller)? > index_in_chain(module.typed)?)
        }
        // Istio puts WasmPlugins in front of the router before it applies patches.
        (Holder::Plugin(..), Some(own)) => {
            let beside = own.sub_filter()?.text()?;
            let is_last = own.operation() == "INSERT_BEFORE" && beside == ROUTER;
            is_last.then_some(true)
        }
        (Holder::Plugin(..), None) | (Holder::Policy(_), _) => None,
    }
}

const ROUTER: &str = "envoy.filters.http.router";

/// Whether the module runs before the filter, for patches of one resource; none if the order is
/// unknown.
fn is_patched_behind<'g>(inputs: &'g Inputs, own: Patch<'g>, module: Module<'g>) -> Option<bool> {
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
