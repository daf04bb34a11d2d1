//! LS356, LS359, LS362: trust in PROXY protocol headers, and in headers with the client's address.

use laststream_filter::config::wire::Scope;

use super::scheme::own_peer_info_filters;
use super::scheme_filters::{
    Holder, Restorer, SupportingFilter, format_of, is_patched_beside, mutations, peer_info_filters,
    restorers, writers,
};
use super::trust::{
    NOT_REMOVED, has_hops, is_removed, is_removed_somewhere, keeps, stands_at_sidecar,
};
use crate::users::uses;
use manifest_lint::{
    Checks, Findings, Inputs, Node, Object, header_filters, ip_detections, is_type, listener,
    listener_filters, policy_setting, policy_settings, topology_settings,
};

pub(super) const CHECKS: Checks = &[
    ("LS359", no_destination),
    ("LS359", redirected),
    ("LS362", ports_of_every_peer),
    ("LS362", client_of_every_peer),
    ("LS356", kept_beside_detection),
    ("LS359", two_header_filters),
];

/// The first line of the filter state for `nlb`.
const ADDRESSES: &str = "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT% \
    %DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_DIRECT_LOCAL_ADDRESS%";

/// The restorers that take the scheme from a destination port.
fn port_readers(inputs: &Inputs) -> impl Iterator<Item = Restorer<'_>> {
    restorers(inputs).filter(Restorer::reads_destination)
}

fn no_destination<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let tellers = peer_info_filters(inputs);
    for restorer in port_readers(inputs) {
        let own = own_peer_info_filters(&tellers, &restorer);
        for teller in own.filter(|teller| !has_addresses(*teller)) {
            findings.at(teller, "no filter passes the connection's local addresses");
        }
        if !gets_headers(inputs, &restorer) {
            let message = "no listener filter of these files takes PROXY protocol headers";
            findings.at(restorer.place, message);
        }
    }
}

/// Whether the restorer's listeners take PROXY protocol headers.
fn gets_headers(inputs: &Inputs, restorer: &Restorer<'_>) -> bool {
    match &restorer.holder {
        Holder::Filter(module) => match listener(module.typed) {
            Some(listener) => takes_headers(listener),
            None => takes_headers_somewhere(inputs),
        },
        Holder::Plugin(..) => takes_headers_somewhere(inputs),
        Holder::Policy(policy) => {
            policy_settings(inputs).any(|(own, _)| own.may_share_target(*policy))
                || header_filters(inputs).any(|filter| is_patched_beside(filter, *policy))
        }
    }
}

/// Whether any file adds a filter for PROXY protocol headers. In a mesh a patch or a setting of the
/// control plane adds it.
fn takes_headers_somewhere(inputs: &Inputs) -> bool {
    header_filters(inputs).next().is_some() || topology_settings(inputs).next().is_some()
}

/// Whether the filter state with this key begins with the connection's addresses.
fn has_addresses(key: Node<'_>) -> bool {
    // The order matters: if the local addresses are exchanged, the listener's own port decides.
    format_of(key).is_some_and(|format| format.lines().next() == Some(ADDRESSES))
}

fn redirected<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for restorer in port_readers(inputs) {
        let is_inbound = restorer.scope != Scope::Gateway;
        let (at_sidecar, is_undone) = match &restorer.holder {
            Holder::Filter(module) => (
                is_inbound || uses(inputs, *module).into_iter().any(stands_at_sidecar),
                listener(module.typed).is_some_and(undoes_redirection),
            ),
            Holder::Plugin(plugin, _) => (is_inbound || is_for_servers(*plugin), false),
            Holder::Policy(_) => (false, false),
        };
        if at_sidecar {
            findings.at(restorer.place, "the listeners of a sidecar get redirected connections");
        } else if is_undone {
            findings.at(restorer.place, "the listener restores original destinations");
        }
    }
}

/// Whether a WasmPlugin is for listeners in front of an app. Gateways have no such listeners.
fn is_for_servers(plugin: Object<'_>) -> bool {
    plugin.node.list("spec.match").any(|selector| selector.text_of("mode") == Some("SERVER"))
}

fn undoes_redirection(listener: Node<'_>) -> bool {
    listener.field("use_original_dst").is_some_and(Node::is_true)
        || listener_filters(listener, "OriginalDst").next().is_some()
}

/// Whether the filter chain around a node takes only some peers.
fn is_limited(node: Node<'_>) -> bool {
    node.upwards().filter(|up| up.field("filters").is_some()).any(|chain| {
        chain.fields("filter_chain_match.direct_source_prefix_ranges").is_some_and(names_peers)
    })
}

/// Whether a list of ranges leaves out some peers.
fn names_peers(ranges: Node<'_>) -> bool {
    let is_everyone = |range: Node<'_>| {
        range.field("prefix_len").and_then(Node::number).is_none_or(|length| length == 0)
    };
    ranges.items().next().is_some() && !ranges.items().any(is_everyone)
}

fn ports_of_every_peer<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let mutations = mutations(inputs);
    for node in inputs.keyed_field("forward_proto_config") {
        let place = SupportingFilter::new(node);
        if !is_limited(node) {
            findings.at(node, "its filter chain takes every peer");
        } else if place.manager.is_some_and(keeps)
            && !is_removed(&mutations, |helper| helper.may_meet(&place))
        {
            findings.at(node, "Envoy keeps the peer's own x-forwarded-proto here");
        }
    }
}

/// The extensions that detect the client's address: each one's list, and its configuration.
fn extensions(inputs: &Inputs) -> impl Iterator<Item = (Node<'_>, Node<'_>)> {
    inputs
        .keyed_field("original_ip_detection_extensions")
        .flat_map(|list| list.items().map(move |item| (list, item)))
        .filter_map(|(list, item)| Some((list, item.field("typed_config")?)))
}

const CHOSEN_BY_HEADER: &str = "the PROXY protocol header chooses the address that Envoy looks at";

fn takes_headers(listener: Node<'_>) -> bool {
    listener_filters(listener, "ProxyProtocol").next().is_some()
}

fn client_of_every_peer<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (list, config) in extensions(inputs) {
        let cidrs = config.field("xff_trusted_cidrs");
        let is_limited_list = cidrs.and_then(|cidrs| cidrs.get("cidrs")).is_some_and(names_peers);
        if is_type(config, "XffConfig") && !is_limited_list && !has_hops(config) {
            findings.at(cidrs.unwrap_or(config), "all peers are trusted");
        } else if is_type(config, "CustomHeaderConfig") && !is_limited(list) {
            findings.at(config, "the filter chain takes every peer");
        } else if listener(list).is_some_and(takes_headers) {
            findings.at(config, CHOSEN_BY_HEADER);
        }
    }
    for (policy, detection) in ip_detections(inputs) {
        let ranges = detection.get("xForwardedFor").and_then(|xff| xff.get("trustedCIDRs"));
        let everyone = |range: Node<'g>| range.text().is_none_or(|range| range.ends_with("/0"));
        if let Some(header) = detection.get("customHeader") {
            findings.at(header, "the policy applies to every peer");
        } else if let Some(range) = ranges.and_then(|ranges| ranges.items().find(|r| everyone(*r)))
        {
            findings.at(range, "all peers are trusted");
        } else if ranges.is_some() && policy_setting(policy).is_some() {
            findings.at(detection, CHOSEN_BY_HEADER);
        }
    }
}

fn kept_beside_detection<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let mutations = mutations(inputs);
    let restorers: Vec<_> = restorers(inputs).collect();
    let mut seen = None;
    for (list, _) in extensions(inputs) {
        let place = SupportingFilter::new(list);
        let restores = restorers.iter().any(|restorer| restorer.may_meet(&place))
            || writers(inputs).any(|writer| writer.may_meet(&place));
        let removed = is_removed(&mutations, |helper| helper.may_meet(&place));
        if restores && !removed && seen != Some(list) {
            findings.at(list, NOT_REMOVED);
        }
        seen = Some(list);
    }
    if is_removed_somewhere(inputs) {
        return;
    }
    let restores = |policy: &Object<'_>| {
        restorers.iter().any(|restorer| match &restorer.holder {
            Holder::Policy(other) => other.may_share_target(*policy),
            Holder::Filter(_) | Holder::Plugin(..) => false,
        })
    };
    let is_written = writers(inputs).next().is_some();
    for (_, detection) in ip_detections(inputs).filter(|(policy, _)| is_written || restores(policy))
    {
        findings.at(detection, NOT_REMOVED);
    }
}

const TAKEN_TWICE: &str = "another filter of this listener takes the load balancer's header";

fn two_header_filters<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let lists = inputs.keyed_field("listener_filters");
    for list in lists {
        let configs = list.items().filter_map(|filter| filter.field("typed_config"));
        for second in configs.filter(|config| is_type(*config, "ProxyProtocol")).skip(1) {
            findings.at(second, TAKEN_TWICE);
        }
    }
    for (policy, _) in policy_settings(inputs) {
        for filter in header_filters(inputs).filter(|filter| is_patched_beside(*filter, policy)) {
            findings.at(filter, format!("the ClientTrafficPolicy `{}` adds one", policy.name()));
        }
    }
}
