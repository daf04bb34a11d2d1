//! The frame filter for WebSockets: off in the filter chain, on for the routes that the policy
//! names.

use serde_json::json;

use super::parts::{self, Role, WASM_TYPE};
use laststream_base::yaml::Map;
use laststream_policy::{ModuleLocation, Policy};

/// The comment on the filter where it is off.
pub(super) const WHY_DISABLED: &str = "Off, except on the routes below. Never in \
    upgrade_configs[].filters: that list replaces the whole chain for WebSockets, authorization \
    included.";
/// Why it is on for a route.
pub(super) const WHY_ON: &str = "On for this route of WebSockets.";

/// The module as the frame filter.
pub(super) fn filter(name: &str, policy: &Policy, source: &ModuleLocation) -> Map {
    let role = Role { name, configuration: json!({ "role": "websocket" }), is_gate: false };
    parts::filter(&role, policy, source)
}

/// The same filter, off unless a route says otherwise.
pub(super) fn disabled(filter: Map) -> Map {
    filter.note(WHY_DISABLED).with("disabled", true)
}

/// `typed_per_filter_config` of a route with the filter. Envoy's own documents write `config: {}`,
/// but istiod refuses an object without a type there.
pub(super) fn on(name: &str) -> Map {
    let own_type = Map::of("@type", WASM_TYPE);
    let config = Map::of("@type", "type.googleapis.com/envoy.config.route.v3.FilterConfig")
        .note("Without it Envoy refuses the route: a Wasm filter has no configuration per route.")
        .with("is_optional", true)
        .note("Only the type: the filter is on, and keeps its own configuration.")
        .with("config", own_type);
    Map::of(name, config)
}
