//! The running proxies that a part of a change reaches, and the streams that it would cut there.

use super::part::Effect;
use super::proxies::Proxies;
use super::running::{ProxyRole, RunningProxy};
use crate::{Inputs, Node, Object, ProxySelector, named, patch_of, users};

/// The API groups of the Gateway API, and of Envoy Gateway.
const GATEWAY_API: &str = "gateway.networking.k8s.io";
pub(super) const ENVOY_GATEWAY: &str = "gateway.envoyproxy.io";
/// The labels with the name of the Gateway that a pod was made for.
const GATEWAY_LABELS: [&str; 2] =
    ["gateway.networking.k8s.io/gateway-name", "gateway.envoyproxy.io/owning-gateway-name"];

/// The streams that a part of a change can cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    All,
    /// Those that come to the app or to a gateway.
    Inbound,
    Outbound,
}

/// The proxies that a part of a change reaches.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(super) proxies: Proxies,
    /// Whether they are in the namespace of the object.
    is_in_namespace: bool,
    /// None for any Gateway, and for proxies without one.
    gateways: Option<Vec<String>>,
    roles: &'static [ProxyRole],
    side: Side,
}

impl Reached {
    pub(super) fn of(object: Object<'_>, effect: Effect, node: Node<'_>, inputs: &Inputs) -> Self {
        let context = patch_of(node).map_or("", |patch| patch.context());
        let proxies = Proxies::of(object);
        // A Gateway of the Gateway API has its proxies in its own namespace.
        let is_of_namespace = proxies.is_of_namespace || object.group() == GATEWAY_API;
        Self {
            proxies,
            is_in_namespace: is_of_namespace && !goes_by_route(object),
            gateways: gateways(object, inputs).filter(|_| effect != Effect::WaypointRoutes),
            roles: roles(object, context, effect),
            side: match (context, effect) {
                ("SIDECAR_OUTBOUND", _) => Side::Outbound,
                ("SIDECAR_INBOUND", _) | (_, Effect::Tls | Effect::ReplacesInbound) => {
                    Side::Inbound
                }
                _ => Side::All,
            },
        }
    }

    pub(super) fn has(&self, proxy: &RunningProxy) -> bool {
        let gateway = GATEWAY_LABELS.iter().find_map(|label| proxy.labels.get(*label));
        let is_named = |names: &Vec<String>| gateway.is_some_and(|gateway| names.contains(gateway));
        let ProxySelector { namespace, labels, .. } = &self.proxies.selector;
        let is_near = |own: &String| !self.is_in_namespace || *own == proxy.namespace;
        self.roles.contains(&proxy.role)
            && namespace.as_ref().is_none_or(is_near)
            && self.gateways.as_ref().is_none_or(is_named)
            && labels.iter().all(|(key, value)| proxy.labels.get(key) == Some(value))
    }

    /// The proxies as text for a message: the Gateways, if they are known and the object names no
    /// targets.
    pub(super) fn describe(&self, node: Node<'_>, inputs: &Inputs) -> String {
        match &self.gateways {
            Some(names) if self.proxies.selector.targets.is_empty() => {
                let names = names.iter().map(|name| format!("Gateway `{name}`"));
                names.collect::<Vec<_>>().join(", ")
            }
            _ => self.proxies.describe(node, inputs),
        }
    }

    pub(super) fn has_scope(&self, scope: &str) -> bool {
        match self.side {
            Side::All => true,
            Side::Inbound => scope != "outbound",
            Side::Outbound => scope == "outbound",
        }
    }
}

/// Whether an object is a route, or is for one. A route may name a Gateway of another namespace.
fn goes_by_route(object: Object<'_>) -> bool {
    let mut kinds = object.policy_targets().filter_map(|target| target.text_of("kind"));
    object.kind.ends_with("Route") || kinds.any(|kind| kind.ends_with("Route"))
}

fn roles(object: Object<'_>, context: &str, effect: Effect) -> &'static [ProxyRole] {
    use ProxyRole::{EnvoyGateway, Gateway, Sidecar, Waypoint};
    match (object.group(), object.kind, context, effect) {
        (ENVOY_GATEWAY, ..) => &[EnvoyGateway],
        (.., "GATEWAY", _) => &[Gateway],
        (.., "WAYPOINT", _) | (.., Effect::WaypointRoutes) => &[Waypoint],
        (.., "SIDECAR_INBOUND" | "SIDECAR_OUTBOUND", _) | (.., Effect::Tls) => &[Sidecar],
        (GATEWAY_API, ..) => &[Gateway, EnvoyGateway],
        (_, "Gateway", ..) => &[Gateway],
        (_, "Sidecar", ..) => &[Sidecar],
        // istiod applies no EnvoyFilter to waypoints
        (_, "EnvoyFilter", ..) => &[Sidecar, Gateway],
        _ => &[Sidecar, Gateway, Waypoint],
    }
}

/// The names of the Gateways whose proxies get the object; none if they are not known.
fn gateways(object: Object<'_>, inputs: &Inputs) -> Option<Vec<String>> {
    let mut names = Vec::new();
    if object.kind == "Gateway" && object.group() == GATEWAY_API {
        names.push(object.name());
    } else if object.kind == "EnvoyProxy" {
        names.extend(users(object).map(Object::name));
    } else if object.node.list("spec.targetSelectors").next().is_some() {
        return None;
    }
    names.extend(parents(object));
    for target in object.policy_targets() {
        let name = target.text_of("name")?;
        match target.text_of("kind")? {
            "Gateway" => names.push(name),
            kind if kind.ends_with("Route") => {
                let routes = named(inputs, kind, name);
                let before = names.len();
                names.extend(routes.flat_map(parents));
                (names.len() > before).then_some(())?;
            }
            _ => return None,
        }
    }
    (!names.is_empty()).then(|| names.into_iter().map(str::to_owned).collect())
}

/// The names of the Gateways of a route.
fn parents<'g>(route: Object<'g>) -> impl Iterator<Item = &'g str> {
    let parents = route.node.list("spec.parentRefs").filter(|parent: &Node<'g>| {
        parent.get("kind").is_none_or(|kind| kind.text() == Some("Gateway"))
    });
    parents.filter_map(|parent| parent.text_of("name"))
}
