//! The effects of a changed object on Envoy's listeners, derived from how istiod translates the
//! object into Envoy's configuration.

use std::collections::BTreeSet;

use super::envoy_gateway;
use super::pairs::{Pair, same};
use super::part::{Effect, EffectAt};
use super::reached::ENVOY_GATEWAY;
use super::waypoints;
use crate::{Node, is_loopback, named, patch_of};

/// The fields of a WasmPlugin, or of `wasm` in a TrafficExtension, that are only in the Wasm
/// filter's configuration, which Envoy gets by discovery.
const DISCOVERED: &str = "url sha256 imagePullPolicy imagePullSecret verificationKey \
    pluginConfig pluginName failStrategy vmConfig";

pub(super) fn of<'g>(pair: &Pair<'g>) -> Vec<EffectAt<'g>> {
    let object = pair.latest;
    let is_mesh_config = object.kind == "ConfigMap" && object.name().starts_with("istio");
    if !pair.differs("spec") && !pair.comes_or_goes() && !is_mesh_config {
        return Vec::new();
    }
    let whole = |effect: Effect| {
        vec![(effect, pair.latest_field("spec").unwrap_or(object.node), pair.words())]
    };
    let is_istio = object.group().ends_with("istio.io");
    match object.kind {
        _ if object.group() == ENVOY_GATEWAY => envoy_gateway::of(pair),
        "EnvoyFilter" => patches(pair),
        "AuthorizationPolicy" | "RequestAuthentication" => whole(Effect::ReplacesInbound),
        "PeerAuthentication" => whole(Effect::Tls),
        "Telemetry" | "TCPRoute" | "TLSRoute" => whole(Effect::Replaces),
        "WasmPlugin" => whole(plugin(pair, "spec", DISCOVERED)),
        "TrafficExtension" => whole(traffic_extension(pair)),
        "Gateway" if is_istio && only_plain_hosts_differ(pair) => whole(Effect::NothingDrains),
        "Gateway" | "Sidecar" if is_istio => whole(Effect::Replaces),
        "Gateway" => gateway_listeners(pair).map(whole).unwrap_or_default(),
        "ServiceEntry" => ports(pair, fields_of_service_entry(pair)),
        "Service" => ports(pair, &["ports"]),
        "VirtualService" => virtual_service(pair),
        "HTTPRoute" | "GRPCRoute" => whole(waypoints::of_route(pair)),
        "DestinationRule" => whole(waypoints::of_destination_rule(pair)),
        "ProxyConfig" if is_istio => whole(Effect::NextStart),
        "ConfigMap" if is_mesh_config => mesh(pair),
        _ => Vec::new(),
    }
}

/// Whether a Gateway differs only in hosts of servers without TLS. Those hosts are virtual hosts in
/// routes, not part of a listener.
fn only_plain_hosts_differ(pair: &Pair<'_>) -> bool {
    !pair.differs("spec.selector")
        && items_are_alike(pair.field("spec.servers"), |key, server| {
            key == "hosts" && server.get("tls").is_none()
        })
}

/// Whether two lists have the same items, but for the fields that are left out.
fn items_are_alike<'g>(
    lists: [Option<Node<'g>>; 2],
    is_left_out: impl Fn(&str, Node<'g>) -> bool,
) -> bool {
    let [Some(old), Some(new)] = lists else { return false };
    let has_all = |one: Node<'g>, other: Node<'g>| {
        one.entries().all(|(key, value)| is_left_out(key, one) || same(Some(value), other.get(key)))
    };
    old.items().count() == new.items().count()
        && old.items().zip(new.items()).all(|(old, new)| has_all(old, new) && has_all(new, old))
}

/// The effect of changed listeners of a Gateway of the Gateway API; none at a controller that is
/// neither Istio nor Envoy Gateway. Which routes a listener allows is not in Envoy.
fn gateway_listeners(pair: &Pair<'_>) -> Option<Effect> {
    if !pair.differs("spec.listeners") {
        return None;
    }
    if items_are_alike(pair.field("spec.listeners"), |key, _| key == "allowedRoutes") {
        return Some(Effect::NothingDrains);
    }
    let (texts, class) = (pair.latest.node.texts, pair.latest.gateway_class());
    let controllers = named(texts, "GatewayClass", class);
    let mut controllers =
        controllers.filter_map(|object| object.node.text_of("spec.controllerName"));
    match controllers.next() {
        Some(name) if name.starts_with(ENVOY_GATEWAY) => Some(Effect::GatewayFilters),
        Some(name) if !name.starts_with("istio.io/") => None,
        _ => Some(Effect::Replaces),
    }
}

/// The patches that are new, changed or removed, and those whose position among the unchanged ones
/// differs. A removed patch is left out if a new one has the same `applyTo` and effect.
fn patches<'g>(pair: &Pair<'g>) -> Vec<EffectAt<'g>> {
    let [old, new] = pair
        .field("spec.configPatches")
        .map(|list| list.into_iter().flat_map(Node::items).collect::<Vec<_>>());
    let moves = ["spec.workloadSelector", "spec.targetRefs", "spec.priority"];
    let all = moves.iter().any(|path| pair.differs(path));
    let is_in = |patch: &Node<'g>, list: &[Node<'g>]| {
        !all && list.iter().any(|other| same(Some(*patch), Some(*other)))
    };
    let kept = |list: &[Node<'g>], other: &[Node<'g>]| {
        list.iter().copied().filter(|patch| is_in(patch, other)).collect::<Vec<_>>()
    };
    let moved = moved(kept(&old, &new), kept(&new, &old));
    let fresh: Vec<_> = new.iter().copied().filter(|patch| !is_in(patch, &old)).collect();
    let kind = |patch: Node<'g>| (apply_to(patch), patch_effect(patch));
    let removed = old.iter().copied().filter(|patch| {
        !is_in(patch, &new) && !fresh.iter().any(|other| kind(*other) == kind(*patch))
    });
    let effect_at = |patch: Node<'g>, verb: &str| {
        let message = format!("the patch on {} is {verb}", apply_to(patch));
        Some((patch_effect(patch)?, patch, message))
    };
    let verb = if pair.old.is_none() { "new" } else { "new or changed" };
    let additions = fresh.iter().filter_map(|patch| effect_at(*patch, verb));
    let removals = removed.filter_map(|patch| effect_at(patch, "removed"));
    let moves = moved.iter().filter_map(|patch| effect_at(*patch, "moved"));
    additions.chain(removals).chain(moves).collect()
}

/// The patches of the new list whose position belongs to another patch in the old list. Positions
/// are compared for each `applyTo`, because istiod applies those patches in their order.
fn moved<'g>(mut old: Vec<Node<'g>>, mut new: Vec<Node<'g>>) -> Vec<Node<'g>> {
    old.sort_by_key(|patch| apply_to(*patch));
    new.sort_by_key(|patch| apply_to(*patch));
    let pairs = old.into_iter().zip(new);
    pairs.filter(|(old, new)| !same(Some(*old), Some(*new))).map(|(_, new)| new).collect()
}

fn apply_to(patch: Node<'_>) -> &str {
    patch.text_of("applyTo").unwrap_or_default()
}

/// The effect of a patch. Gateways and outbound listeners get their routes by discovery; the routes
/// of inbound listeners are part of the filter chains.
fn patch_effect(patch: Node<'_>) -> Option<Effect> {
    let context = patch_of(patch).map_or("ANY", |patch| patch.context());
    Some(match (apply_to(patch), context) {
        ("LISTENER", _) if adds_a_local_listener(patch) => Effect::NothingDrains,
        ("ROUTE_CONFIGURATION" | "VIRTUAL_HOST" | "HTTP_ROUTE", "GATEWAY" | "SIDECAR_OUTBOUND")
        | ("CLUSTER" | "EXTENSION_CONFIG", _) => Effect::NothingDrains,
        ("LISTENER" | "LISTENER_FILTER" | "FILTER_CHAIN" | "NETWORK_FILTER", _)
        | ("HTTP_FILTER" | "ROUTE_CONFIGURATION" | "VIRTUAL_HOST" | "HTTP_ROUTE", _) => {
            Effect::Replaces
        }
        _ => return None,
    })
}

/// Whether the patch adds a listener without streams of clients, such as the gate's.
fn adds_a_local_listener(patch: Node<'_>) -> bool {
    let patch = patch_of(patch).filter(|patch| patch.operation() == "ADD");
    let address = patch
        .and_then(|patch| patch.value())
        .and_then(|listener| listener.fields("address.socket_address.address"));
    address.is_some_and(is_loopback)
}

/// The effect of the changed fields of a Wasm filter at `path`. Envoy gets the `discovered` fields
/// by discovery.
fn plugin(pair: &Pair<'_>, path: &str, discovered: &str) -> Effect {
    let mut keys =
        pair.keys(path).into_iter().filter(|key| !discovered.split(' ').any(|own| own == *key));
    let moves = keys.any(|key| pair.differs(&format!("{path}.{key}")));
    if pair.comes_or_goes() || moves { Effect::Replaces } else { Effect::NothingDrains }
}

/// The effect of a changed TrafficExtension. Its Lua is part of the filter chains.
fn traffic_extension(pair: &Pair<'_>) -> Effect {
    match plugin(pair, "spec", "wasm") {
        Effect::NothingDrains => plugin(pair, "spec.wasm", DISCOVERED),
        effect => effect,
    }
}

/// The fields of a ServiceEntry that are part of listeners. With a TLS port the hosts are among
/// them, because Envoy chooses its filter chains by server name; for other ports they are virtual
/// hosts.
fn fields_of_service_entry(pair: &Pair<'_>) -> &'static [&'static str] {
    let ports = pair.field("spec.ports").into_iter().flatten().flat_map(Node::items);
    let mut protocols = ports.filter_map(|port| port.text_of("protocol"));
    let is_tls = |protocol: &str| ["TLS", "HTTPS"].contains(&protocol.to_uppercase().as_str());
    if protocols.any(is_tls) {
        &["ports", "addresses", "location", "resolution", "exportTo", "hosts"]
    } else {
        &["ports", "addresses", "location", "resolution", "exportTo"]
    }
}

fn ports<'g>(pair: &Pair<'g>, fields: &[&str]) -> Vec<EffectAt<'g>> {
    let Some(old) = pair.old else { return Vec::new() };
    let is_changed = |field: &&&str| pair.new.is_none() || pair.differs(&format!("spec.{field}"));
    let Some(changed) = fields.iter().filter(is_changed).find(|field| !only_adds(pair, field))
    else {
        return Vec::new();
    };
    let node = pair.latest_field(&format!("spec.{changed}")).unwrap_or(old.node);
    let are = if pair.new.is_none() { "are removed" } else { "are changed" };
    let what = format!("`{changed}` of {} `{}` {are}", old.kind, old.name());
    vec![(Effect::Replaces, node, what)]
}

/// Whether a list only gains items. An added port gets a listener or filter chain of its own and
/// replaces none.
fn only_adds(pair: &Pair<'_>, field: &str) -> bool {
    let [before, after] = pair.field(&format!("spec.{field}"));
    if field == "exportTo" && before.is_none() {
        return false; // without `exportTo`, all namespaces see the object
    }
    let is_list = before.is_none_or(Node::is_list) && after.is_none_or(Node::is_list);
    let after: Vec<_> = after.into_iter().flat_map(Node::items).collect();
    let is_kept = |item| after.iter().any(|other| same(Some(item), Some(*other)));
    is_list && before.into_iter().flat_map(Node::items).all(is_kept)
}

fn virtual_service<'g>(pair: &Pair<'g>) -> Vec<EffectAt<'g>> {
    let mut found = Vec::new();
    let for_http = waypoints::of_virtual_service(pair);
    for (field, effect) in
        [("tcp", Effect::Replaces), ("tls", Effect::Replaces), ("http", for_http)]
    {
        let path = format!("spec.{field}");
        let is_concerned =
            pair.differs(&path) || pair.differs("spec.hosts") || pair.differs("spec.gateways");
        if let Some(node) = pair.latest_field(&path).filter(|_| is_concerned) {
            found.push((effect, node, format!("routes for {field} are {}", pair.verb())));
        }
    }
    found
}

/// The effects of the mesh settings that differ. Pods read `defaultConfig` only when they start.
fn mesh<'g>(pair: &Pair<'g>) -> Vec<EffectAt<'g>> {
    let [old, new] = pair.field("data.mesh").map(|node| node.and_then(Node::embedded));
    let keys = [old, new].into_iter().flatten().flat_map(Node::entries).map(|(key, _)| key);
    let keys: BTreeSet<&str> = keys.collect();
    let value = |side: Option<Node<'g>>, key: &str| side.and_then(|mesh| mesh.get(key));
    keys.into_iter()
        .filter(|key| !same(value(old, key), value(new, key)))
        .filter_map(|key| {
            let node = value(new, key).or_else(|| value(old, key))?;
            let effect = if key == "defaultConfig" { Effect::NextStart } else { Effect::Replaces };
            Some((effect, node, format!("`{key}` of the mesh's settings differs")))
        })
        .collect()
}
