//! The effects of a changed object of Envoy Gateway, by which part of Envoy's configuration its
//! translator writes each field into (`internal/xds/translator` of version 1.9.1).

use std::collections::BTreeSet;

use super::pairs::{Pair, same};
use super::part::{Effect, EffectAt};
use crate::{Node, Object, of_kind};

/// Fields that say where a policy counts.
const TARGETS: [&str; 4] = ["targetRef", "targetRefs", "targetSelectors", "mergeType"];

/// The effects of the fields below `spec`, by kind. `*` is any other field.
const FIELDS: &[(&str, Effect, &str)] = &[
    ("EnvoyExtensionPolicy", Effect::GatewayFilters, "*"),
    ("SecurityPolicy", Effect::GatewayFilters, "apiKeyAuth basicAuth extAuth jwt"),
    ("SecurityPolicy", Effect::FirstFilter, "*"),
    ("BackendTrafficPolicy", Effect::GatewayFilters, "requestBuffer responseOverride"),
    ("BackendTrafficPolicy", Effect::FirstFilter, "admissionControl bandwidthLimit compression"),
    ("BackendTrafficPolicy", Effect::FirstFilter, "compressor faultInjection rateLimit"),
    ("BackendTrafficPolicy", Effect::NothingDrains, "*"),
    ("ClientTrafficPolicy", Effect::GatewayFilters, "*"),
    ("HTTPRouteFilter", Effect::GatewayFilters, "credentialInjection"),
    ("HTTPRouteFilter", Effect::NothingDrains, "*"),
    ("EnvoyProxy", Effect::GatewayFilters, "telemetry filterOrder geoIP"),
    ("EnvoyProxy", Effect::NothingDrains, "backendTLS luaValidation mergeBackends"),
    ("EnvoyProxy", Effect::NothingDrains, "preserveRouteOrder routingType"),
    ("EnvoyProxy", Effect::NextStart, "*"),
];

/// The effects of an object of Envoy Gateway; none for other kinds.
pub(super) fn of<'g>(pair: &Pair<'g>) -> Vec<EffectAt<'g>> {
    if pair.latest.kind == "EnvoyPatchPolicy" {
        return vec![patches(pair)];
    }
    let is_moved = TARGETS.iter().any(|field| pair.differs(&format!("spec.{field}")));
    let fields = pair.keys("spec").into_iter().filter(|key| !TARGETS.contains(key));
    fields.filter_map(|field| of_field(pair, field, is_moved)).collect()
}

fn of_field<'g>(pair: &Pair<'g>, field: &str, is_moved: bool) -> Option<EffectAt<'g>> {
    let path = format!("spec.{field}");
    let [old, new] = pair.field(&path);
    let known = |name: &str| {
        let mut rows = FIELDS.iter().filter(|(kind, ..)| *kind == pair.latest.kind);
        rows.find(|(.., fields)| fields.split(' ').any(|own| own == name))
    };
    let (_, effect, _) = *known(field).or_else(|| known("*"))?;
    // An empty map turns a feature on; null and an empty list do not.
    let has_part = |node: &Node<'g>| node.is_map() || !node.is_empty();
    let [old, new] = [old.filter(has_part), new.filter(has_part)];
    if !is_moved && same(old, new) {
        return None;
    }
    let kinds = |list: Option<Node<'g>>| list.into_iter().flat_map(Node::items);
    let kinds = |list| kinds(list).filter_map(|item| item.text_of("type")).collect::<BTreeSet<_>>();
    // One filter for each type of `compression`.
    let has_same_filters = kinds(old) == kinds(new) || !field.starts_with("compress");
    let is_there_before_and_after = !is_moved && old.is_some() && new.is_some() && has_same_filters;
    let effect = match effect {
        Effect::FirstFilter if is_there_before_and_after => Effect::NothingDrains,
        Effect::GatewayFilters if field == "telemetry" && only_metrics_differ(pair) => {
            Effect::NextStart
        }
        Effect::NextStart if field == "provider" && !pods_differ(pair) => Effect::NothingDrains,
        effect => effect,
    };
    Some((effect, new.or(old)?, format!("`{field}` of {}", pair.words())))
}

/// Whether a change of `provider` is a change of its pods.
fn pods_differ(pair: &Pair<'_>) -> bool {
    const PROVIDER: &str = "spec.provider.kubernetes";
    let differing = |path: &str, others: &[&str]| {
        let mut keys = pair.keys(path).into_iter().filter(|key| !others.contains(key));
        keys.any(|key| pair.differs(&format!("{path}.{key}")))
    };
    differing("spec.provider", &["kubernetes"])
        || differing(PROVIDER, &["envoyDeployment", "envoyHpa", "envoyPDB", "envoyService"])
        || differing(&format!("{PROVIDER}.envoyDeployment"), &["replicas"])
}

/// Statistics are in the bootstrap, logs and traces in listeners.
fn only_metrics_differ(pair: &Pair<'_>) -> bool {
    let others = ["accessLog", "tracing", "requestID"];
    !others.iter().any(|field| pair.differs(&format!("spec.telemetry.{field}")))
}

/// The effect of patches of Envoy's own configuration, by their type.
fn patches<'g>(pair: &Pair<'g>) -> EffectAt<'g> {
    const PATCHES: &str = "spec.jsonPatches";
    let mut types = pair.field(PATCHES).into_iter().flatten().flat_map(Node::items);
    let is_of_listener =
        types.any(|patch| patch.text_of("type").is_none_or(|name| name.ends_with(".Listener")));
    let effect = if is_of_listener { Effect::GatewayFilters } else { Effect::NothingDrains };
    (effect, pair.latest_field(PATCHES).unwrap_or(pair.latest.node), pair.words())
}

/// Fields of an HTTPRoute's rules that need a filter in the listener.
const ROUTE_FILTERS: [&str; 2] = ["CORS", "ExtensionRef"];

/// The effect of a route of the Gateway API at a Gateway. Envoy Gateway adds a filter to the
/// listener for the first route that needs it, and removes it after the last one.
pub(super) fn of_route(pair: &Pair<'_>) -> Effect {
    let [old, new] = pair.field("spec").map(|spec| spec.map(needed).unwrap_or_default());
    let is_of_istio = |gateway: Object<'_>| gateway.gateway_class().starts_with("istio");
    let mut gateways = of_kind(pair.latest.node.texts, "Gateway").peekable();
    let is_of_istio = gateways.peek().is_some() && gateways.all(is_of_istio);
    if old == new || is_of_istio { Effect::NothingDrains } else { Effect::FirstFilter }
}

/// The kinds of filters that the rules of a route need in the listener.
fn needed(spec: Node<'_>) -> BTreeSet<&str> {
    let kinds = spec.all("rules[].filters[].type").filter_map(Node::text);
    let kinds = kinds.filter(|kind| ROUTE_FILTERS.contains(kind));
    let persistence = spec.all("rules[].sessionPersistence");
    kinds.chain(persistence.map(|_| "sessionPersistence")).collect()
}
