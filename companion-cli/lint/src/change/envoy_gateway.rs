//! The effects of a changed object of Envoy Gateway, by which part of Envoy's configuration its
//! translator writes each field into (`internal/xds/translator` of version 1.9.1).

use super::effects::Found;
use super::pairs::Pair;
use super::part::Effect;
use crate::node::Node;
use crate::objects::{Object, of_kind};

/// Fields that say where a policy counts.
const TARGETS: [&str; 4] = ["targetRef", "targetRefs", "targetSelectors", "mergeType"];

/// The effects of the fields below `spec`, by kind. `*` is any other field.
const FIELDS: &[(&str, &str, Effect)] = &[
    ("EnvoyExtensionPolicy", "*", Effect::GatewayFilters),
    ("SecurityPolicy", "apiKeyAuth", Effect::GatewayFilters),
    ("SecurityPolicy", "basicAuth", Effect::GatewayFilters),
    ("SecurityPolicy", "extAuth", Effect::GatewayFilters),
    ("SecurityPolicy", "jwt", Effect::GatewayFilters),
    ("SecurityPolicy", "*", Effect::FirstFilter),
    ("BackendTrafficPolicy", "requestBuffer", Effect::GatewayFilters),
    ("BackendTrafficPolicy", "responseOverride", Effect::GatewayFilters),
    ("BackendTrafficPolicy", "admissionControl", Effect::FirstFilter),
    ("BackendTrafficPolicy", "bandwidthLimit", Effect::FirstFilter),
    ("BackendTrafficPolicy", "compression", Effect::FirstFilter),
    ("BackendTrafficPolicy", "compressor", Effect::FirstFilter),
    ("BackendTrafficPolicy", "faultInjection", Effect::FirstFilter),
    ("BackendTrafficPolicy", "rateLimit", Effect::FirstFilter),
    ("BackendTrafficPolicy", "*", Effect::NothingDrains),
    ("ClientTrafficPolicy", "*", Effect::GatewayFilters),
    ("HTTPRouteFilter", "credentialInjection", Effect::GatewayFilters),
    ("HTTPRouteFilter", "*", Effect::NothingDrains),
    ("EnvoyProxy", "telemetry", Effect::GatewayFilters),
    ("EnvoyProxy", "filterOrder", Effect::GatewayFilters),
    ("EnvoyProxy", "geoIP", Effect::GatewayFilters),
    ("EnvoyProxy", "backendTLS", Effect::NothingDrains),
    ("EnvoyProxy", "luaValidation", Effect::NothingDrains),
    ("EnvoyProxy", "mergeBackends", Effect::NothingDrains),
    ("EnvoyProxy", "preserveRouteOrder", Effect::NothingDrains),
    ("EnvoyProxy", "routingType", Effect::NothingDrains),
    ("EnvoyProxy", "*", Effect::PodsReplaced),
];

/// The effects of an object of Envoy Gateway; none for other kinds.
pub(super) fn of<'g>(pair: &Pair<'g>) -> Vec<Found<'g>> {
    let Some(object) = pair.latest() else { return Vec::new() };
    if object.kind == "EnvoyPatchPolicy" {
        return vec![patches(pair, object)];
    }
    let sides = pair.field("spec");
    let mut keys: Vec<&str> =
        sides.into_iter().flatten().flat_map(Node::entries).map(|(key, _)| key).collect();
    keys.sort_unstable();
    keys.dedup();
    let is_moved = TARGETS.iter().any(|field| pair.differs(&format!("spec.{field}")));
    let fields = keys.into_iter().filter(|key| !TARGETS.contains(key));
    fields.filter_map(|field| of_field(pair, object, field, is_moved)).collect()
}

fn of_field<'g>(
    pair: &Pair<'g>,
    object: Object<'g>,
    field: &str,
    is_moved: bool,
) -> Option<Found<'g>> {
    let path = format!("spec.{field}");
    let [old, new] = pair.field(&path);
    let known = |name| FIELDS.iter().find(move |row| row.0 == object.kind && row.1 == name);
    let effect = known(field).or_else(|| known("*"))?.2;
    if !is_moved && !pair.differs(&path) {
        return None;
    }
    let is_there_before_and_after = !is_moved && old.is_some() && new.is_some();
    let effect = match effect {
        Effect::FirstFilter if is_there_before_and_after => Effect::NothingDrains,
        Effect::GatewayFilters if field == "telemetry" && only_metrics_differ(pair) => {
            Effect::PodsReplaced
        }
        effect => effect,
    };
    let what = format!("`{field}` of {} `{}` is {}", object.kind, object.name(), pair.verb());
    Some((effect, new.or(old)?, what))
}

/// Statistics are in the bootstrap, logs and traces in listeners.
fn only_metrics_differ(pair: &Pair<'_>) -> bool {
    let others = ["accessLog", "tracing", "requestID"];
    !others.iter().any(|field| pair.differs(&format!("spec.telemetry.{field}")))
}

/// The effect of patches of Envoy's own configuration, by their type.
fn patches<'g>(pair: &Pair<'g>, object: Object<'g>) -> Found<'g> {
    let sides = pair.field("spec.jsonPatches");
    let mut types = sides.into_iter().flatten().flat_map(Node::items);
    let is_of_listener =
        types.any(|patch| patch.text_of("type").is_none_or(|name| name.ends_with(".Listener")));
    let effect = if is_of_listener { Effect::GatewayFilters } else { Effect::NothingDrains };
    let [old, new] = sides;
    let what = format!("{} `{}` is {}", object.kind, object.name(), pair.verb());
    (effect, new.or(old).unwrap_or(object.node), what)
}

/// Fields of an HTTPRoute's rules that need a filter in the listener.
const ROUTE_FILTERS: [&str; 2] = ["CORS", "ExtensionRef"];

/// The effect of a route of the Gateway API at a Gateway. Envoy Gateway adds a filter to the
/// listener for the first route that needs it, and removes it after the last one.
pub(super) fn of_route(pair: &Pair<'_>) -> Effect {
    let [old, new] = pair.field("spec.rules").map(|rules| rules.map(needed).unwrap_or_default());
    let is_of_istio = |gateway: Object<'_>| {
        let class = gateway.node.text_of("spec.gatewayClassName").unwrap_or_default();
        class.starts_with("istio")
    };
    let texts = pair.latest().map(|route| route.node.texts);
    let gateways = texts.into_iter().flat_map(|texts| of_kind(texts, "Gateway"));
    let is_elsewhere = gateways.map(is_of_istio).collect::<Vec<_>>();
    let is_of_istio = !is_elsewhere.is_empty() && is_elsewhere.into_iter().all(|is_it| is_it);
    if old == new || is_of_istio { Effect::NothingDrains } else { Effect::FirstFilter }
}

/// The kinds of filters that the rules need in the listener.
fn needed(rules: Node<'_>) -> Vec<&str> {
    let filters = rules.items().flat_map(|rule| rule.list("filters"));
    let kinds = filters.filter_map(|filter| filter.text_of("type"));
    let mut all: Vec<&str> = kinds.filter(|kind| ROUTE_FILTERS.contains(kind)).collect();
    let mut persistence = rules.items().filter_map(|rule| rule.get("sessionPersistence"));
    all.extend(persistence.next().map(|_| "sessionPersistence"));
    all.sort_unstable();
    all.dedup();
    all
}
