//! LS356 to LS358: untrusted peers can claim https, because the restoring filter can fail, Envoy
//! keeps the header, or a trusted range is wide.

use laststream_filter::config::wire::{ForwardedProto, Scope};

use super::scheme_filters::{
    FORWARDED_PROTO, SupportingFilter, is_forwarded_proto, matcher_around, mutations,
    mutations_before, removes, restorers, restoring_modules, writers, written,
};
use crate::modules::Module;
use crate::plugin_configs::{WasmPlugin, wasm_plugins};
use crate::users::uses;
use laststream_policy::warnings::is_wide;
use manifest_lint::{
    Checks, Findings, Inputs, Node, Reach, connection_manager, ip_detections, of_kind, patch_of,
};

pub(super) const CHECKS: Checks =
    &[("LS356", fails_open), ("LS356", matchers_on_kept_header), ("LS358", wide_ranges)];

/// Whether the peer's own header is removed, or overwritten with http, before Envoy looks at it.
pub(super) fn is_removed(
    mutations: &[SupportingFilter<'_>],
    meets: impl Fn(&SupportingFilter<'_>) -> bool,
) -> bool {
    mutations.iter().any(|helper| meets(helper) && is_safe(helper, false))
}

/// Whether an early mutation leaves no header of the peer. At a sidecar it must leave http.
fn is_safe(helper: &SupportingFilter<'_>, at_sidecar: bool) -> bool {
    let mut items = helper.node.items();
    items.any(|item| {
        item.get("append").is_some_and(writes_http) || !at_sidecar && removes(item, FORWARDED_PROTO)
    })
}

/// Whether any resource of these files removes the header or overwrites it with http, for resources
/// whose listeners these files do not show.
pub(super) fn is_removed_somewhere(inputs: &Inputs) -> bool {
    let early = inputs.keyed("earlyRequestHeaders").filter_map(|headers| headers.get("remove"));
    inputs.keyed("remove").any(is_forwarded_proto)
        || inputs.keyed("append").any(writes_http)
        || early.flat_map(Node::items).any(is_forwarded_proto)
}

/// Whether an `append` leaves the header as http: it overwrites the header, or a mutation in front
/// of it removes the header.
fn writes_http(append: Node<'_>) -> bool {
    append.fields("header.key").is_some_and(is_forwarded_proto)
        && append.text_of("header.value") == Some("http")
        && (append.text_of("append_action") == Some("OVERWRITE_IF_EXISTS_OR_ADD")
            || is_removed_before(append))
}

/// Whether a mutation in front of this one, in the same list, removes the header.
fn is_removed_before(mutation: Node<'_>) -> bool {
    let mut before = mutation.parent().into_iter().flat_map(mutations_before);
    before.any(|item| removes(item, FORWARDED_PROTO))
}

/// Whether this connection manager keeps the x-forwarded-proto that the peer sent.
pub(super) fn keeps(manager: Node<'_>) -> bool {
    !uses_remote_address(manager) || has_hops(manager)
}

fn uses_remote_address(manager: Node<'_>) -> bool {
    manager.field("use_remote_address").is_some_and(Node::is_true)
}

pub(super) fn has_hops(node: Node<'_>) -> bool {
    let hops = node.field("xff_num_trusted_hops").and_then(Node::number);
    hops.is_some_and(|hops| hops > 0)
}

/// Whether these files set trusted hops anywhere, or patch `use_remote_address: false`. Either may
/// concern every gateway of the files.
fn trusted_hops(inputs: &Inputs) -> bool {
    let keys = ["numTrustedProxies", "numTrustedHops", "xff_num_trusted_hops", "xffNumTrustedHops"];
    let is_set = |node: Node<'_>| node.number().is_some_and(|hops| hops > 0);
    let kept = |node: Node<'_>| patch_of(node).is_some() && node.text() == Some("false");
    keys.iter().any(|key| inputs.keyed(key).any(is_set))
        || inputs.keyed_field("use_remote_address").any(kept)
}

/// Whether a filter of the mesh may be in listeners that keep the header: those of a sidecar, or
/// any listeners if [`trusted_hops`] holds.
fn stands_where_kept(inputs: &Inputs, filter: Node<'_>) -> bool {
    stands_at_sidecar(filter) || trusted_hops(inputs)
}

/// Whether a filter of the mesh may be in listeners of a sidecar.
pub(super) fn stands_at_sidecar(filter: Node<'_>) -> bool {
    let patch = patch_of(filter);
    patch.is_some_and(|patch| patch.context().starts_with("SIDECAR") || patch.context() == "ANY")
}

fn fails_open<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let mutations = mutations(inputs);
    for (module, proto) in restoring_modules(inputs) {
        let Some(policy) = module.fail_open() else { continue };
        let at_sidecar = may_stand_at_sidecar(inputs, module);
        let mut helpers = mutations.iter().filter(|helper| helper.applies_to(module));
        if (at_sidecar || may_be_kept(inputs, module, proto))
            && !helpers.any(|helper| is_safe(helper, at_sidecar))
        {
            findings.at(policy, if at_sidecar { NOT_OVERWRITTEN } else { NOT_REMOVED });
        }
    }
    let removed = is_removed_somewhere(inputs);
    let overwritten = inputs.keyed("append").any(writes_http);
    for (policy, config) in open_plugins(inputs) {
        let reads_kept = config.get("original_header").is_some_and(is_forwarded_proto);
        let scope = config.parent().and_then(|config| config.text_of("scope"));
        if scope == Some("inbound") && !overwritten {
            findings.at(policy, NOT_OVERWRITTEN);
        } else if !removed && (reads_kept || trusted_hops(inputs)) {
            findings.at(policy, NOT_REMOVED);
        }
    }
}

pub(super) const NOT_REMOVED: &str =
    "no early header mutation of these files removes `x-forwarded-proto`";

const NOT_OVERWRITTEN: &str = "no early header mutation of these files overwrites \
    `x-forwarded-proto`, and Envoy writes https in place of a removed one over mTLS";

/// WasmPlugins and EnvoyExtensionPolicies that let requests pass without the module: the node that
/// allows it, and `forwarded_proto`.
fn open_plugins(inputs: &Inputs) -> impl Iterator<Item = (Node<'_>, Node<'_>)> {
    let plugins = wasm_plugins(inputs).filter_map(|WasmPlugin { wasm, .. }| {
        Some((
            wasm.get("failStrategy").filter(|strategy| strategy.text() == Some("FAIL_OPEN"))?,
            wasm.get("pluginConfig")?,
        ))
    });
    let wasm =
        of_kind(inputs, "EnvoyExtensionPolicy").flat_map(|policy| policy.node.list("spec.wasm"));
    let policies = wasm.filter_map(|wasm| {
        Some((wasm.get("failOpen").filter(|open| open.is_true())?, wasm.get("config")?))
    });
    plugins
        .chain(policies)
        .filter_map(|(policy, config)| Some((policy, config.get("forwarded_proto")?)))
}

/// Whether Envoy may keep the peer's own header. A configuration that reads x-forwarded-proto
/// itself implies that.
fn may_be_kept(inputs: &Inputs, module: Module<'_>, proto: &ForwardedProto) -> bool {
    let says_so = proto.original_header.eq_ignore_ascii_case(FORWARDED_PROTO);
    let in_manager = connection_manager(module.typed).is_some_and(keeps);
    let in_mesh = matches!(module.reach(), Reach::Selector(_))
        && uses(inputs, module).into_iter().any(|filter| stands_where_kept(inputs, filter));
    says_so || in_manager || in_mesh
}

/// Whether the module counts inbound streams of a mesh, or may be in listeners of a sidecar.
fn may_stand_at_sidecar(inputs: &Inputs, module: Module<'_>) -> bool {
    let is_inbound = module.wire().is_some_and(|wire| wire.scope == Scope::Inbound);
    let is_of_mesh = patch_of(module.plugin).is_some();
    is_inbound && is_of_mesh || uses(inputs, module).into_iter().any(stands_at_sidecar)
}

fn matchers_on_kept_header<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let mutations = mutations(inputs);
    let writers: Vec<_> =
        writers(inputs).filter(|writer| matcher_around(writer.node).is_some()).collect();
    for writer in &writers {
        let is_kept = writer.manager.map_or_else(|| stands_where_kept(inputs, writer.node), keeps);
        let is_removed = || {
            if writer.is_placed() {
                is_removed(&mutations, |helper| helper.may_meet(writer))
            } else {
                is_removed_somewhere(inputs)
            }
        };
        if is_kept && !is_removed() {
            let message = "Envoy keeps what an untrusted client claims, and no early header \
                mutation removes it";
            findings.at(writer.node, message);
        } else if written(writer) == Some("https")
            && has_tls(writer)
            && !writers.iter().any(|other| written(other) == Some("http") && other.may_meet(writer))
        {
            findings.at(writer.node, "the listener has TLS, and no filter writes http");
        }
    }
}

fn has_tls(writer: &SupportingFilter<'_>) -> bool {
    writer.manager.is_some_and(|manager| {
        manager
            .upwards()
            .any(|up| up.field("filters").is_some() && up.field("transport_socket").is_some())
    })
}

fn wide_ranges<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for restorer in restorers(inputs) {
        let place = restorer.place;
        let peers = place.fields("trust.peers");
        let ranges = restorer.proto.trust.peers.iter().enumerate();
        for (index, range) in ranges.filter(|(_, range)| is_wide(range) || range.ends_with("/0")) {
            let item = peers.and_then(|peers| peers.items().nth(index));
            findings.at(item.unwrap_or(place), format!("`{range}` is trusted"));
        }
    }
    let mut report = |node: Node<'g>, range: Option<String>| {
        if let Some(range) = range.filter(|range| is_wide(range)) {
            findings.at(node, format!("`{range}` is trusted"));
        }
    };
    const RANGES: &str = "filter_chain_match.direct_source_prefix_ranges";
    let configs = inputs.keyed_field("forward_proto_config");
    let chains = configs.filter_map(|node| node.upwards().find_map(|up| up.fields(RANGES)));
    let cidrs = inputs.keyed_field("xff_trusted_cidrs").filter_map(|cidrs| cidrs.get("cidrs"));
    for range in chains.chain(cidrs).flat_map(Node::items) {
        report(range, range.field("address_prefix").and_then(range_of));
    }
    for (_, detection) in ip_detections(inputs) {
        let ranges = detection.list("xForwardedFor.trustedCIDRs");
        ranges.for_each(|range| report(range, range.text().map(str::to_owned)));
    }
    for matcher in writers(inputs).filter_map(|writer| matcher_around(writer.node)) {
        let inside = |node: &Node<'g>| node.upwards().any(|up| up == matcher);
        let addresses = inputs.keyed_field("address_prefix").filter(inside);
        addresses.for_each(|address| report(address, range_of(address)));
        let beginnings = inputs.keyed("prefix").filter(inside);
        beginnings.for_each(|beginning| report(beginning, range_of_octet(beginning)));
    }
}

/// The range of which this is the `address_prefix`.
fn range_of(address: Node<'_>) -> Option<String> {
    let length = address.parent()?.field("prefix_len")?.number()?;
    Some(format!("{}/{length}", address.text()?))
}

/// The range of all addresses with this beginning: one number and a dot are of a /8.
fn range_of_octet(beginning: Node<'_>) -> Option<String> {
    let octet: u8 = beginning.text()?.strip_suffix('.')?.parse().ok()?;
    Some(format!("{octet}.0.0.0/8"))
}
