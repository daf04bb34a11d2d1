//! LS353, LS355, LS366: the filters beside the module when it restores x-forwarded-proto, and
//! Envoy's composite filter in its place.

use laststream_filter::config::wire::Scope;
use regex::Regex;

use super::module::{fits, in_one_chain};
use super::scheme_filters::{
    Holder, Restorer, SupportingFilter, format_of, is_composite, peer_info_filters, restorers,
    restoring_modules, section, writers,
};
use manifest_lint::{Checks, Findings, Inputs, Node, Object, Patch, patch_of};

pub(super) const CHECKS: Checks =
    &[("LS353", no_peer), ("LS355", restored_twice), ("LS366", too_old)];

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

/// The most plugins that are compared.
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
