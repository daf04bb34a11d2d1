//! Routes that gateways and sidecars get by discovery, but that are part of a waypoint's filter
//! chains.

use super::envoy_gateway;
use super::pairs::{Pair, same};
use super::part::Effect;
use crate::Node;

/// The effect of a VirtualService. Waypoints get those of the mesh, not those of gateways.
pub(super) fn of_virtual_service(pair: &Pair<'_>) -> Effect {
    let is_for_mesh = |spec: Node<'_>| {
        let gateways: Vec<_> = spec.list("gateways").filter_map(Node::text).collect();
        gateways.is_empty() || gateways.contains(&"mesh")
    };
    effect(pair.field("spec").into_iter().flatten().any(is_for_mesh))
}

/// The effect of a route. Waypoints get routes whose parent is a Service, not a Gateway. A parent
/// without `kind` is a Gateway.
pub(super) fn of_route(pair: &Pair<'_>) -> Effect {
    let specs = pair.field("spec").into_iter().flatten();
    let mut kinds = specs.flat_map(|spec| spec.all("parentRefs[].kind")).filter_map(Node::value);
    if kinds.any(|kind| kind != "Gateway") {
        Effect::WaypointRoutes
    } else {
        envoy_gateway::of_route(pair)
    }
}

/// The effect of a DestinationRule. Its `consistentHash` policies are part of routes; its other
/// settings are part of clusters.
pub(super) fn of_destination_rule(pair: &Pair<'_>) -> Effect {
    let [old, new] = pair.field("spec").map(|spec| spec.map(hashes).unwrap_or_default());
    let is_same = old.len() == new.len()
        && old.iter().zip(&new).all(|(old, new)| same(Some(*old), Some(*new)));
    let moves = ["spec.host", "spec.exportTo", "spec.workloadSelector"];
    let is_moved = !old.is_empty() && moves.iter().any(|path| pair.differs(path));
    effect(is_moved || !is_same)
}

fn hashes(spec: Node<'_>) -> Vec<Node<'_>> {
    let policies = spec.list("subsets").chain([spec]).filter_map(|of| of.get("trafficPolicy"));
    let settings = policies.flat_map(|policy| policy.list("portLevelSettings").chain([policy]));
    settings.filter_map(|settings| settings.get("loadBalancer")?.get("consistentHash")).collect()
}

fn effect(is_in_chains: bool) -> Effect {
    if is_in_chains { Effect::WaypointRoutes } else { Effect::NothingDrains }
}
