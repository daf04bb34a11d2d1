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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::tests::{self, DIGEST, try_render};
    use crate::{Kind, render};

    fn rendered(kind: Kind, more: &str) -> Result<String, String> {
        let files = try_render(kind, &format!("module: oci://h/r:t\nnamespace: a\n{more}"))?;
        Ok(files[0].text.clone())
    }

    const CHAT: &str =
        "end: {}\nwebsockets: {module: 'oci://h/frames:t', routes: [{name: chat}, {name: news}]}\n";

    #[test]
    fn an_image_volume_has_both_modules() {
        let more = format!("delivery: image_volume\n{CHAT}");
        let text = rendered(Kind::EnvoyFilter, &more).expect(&more);
        assert!(text.contains("filename: /opt/laststream-frames/plugin.wasm"), "{text}");
        let sidecar = format!("{more}placement: {{sidecar: {{}}}}");
        for (kind, more) in [(Kind::ImageVolume, more), (Kind::ImageVolume, sidecar)] {
            let text = rendered(kind, &more).expect(&more);
            let parts = [format!("h/frames@{DIGEST}"), "/opt/laststream-frames".into()];
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
            assert!(text.contains(&format!("h/r@{DIGEST}")), "{text}");
        }
        let api =
            format!("delivery: image_volume\nplacement: {{gateway_api: {{gateway: b}}}}\n{CHAT}");
        let text = rendered(Kind::Overlay, &api).expect(&api);
        assert!(text.contains("name: laststream-frames"), "{text}");
    }

    #[test]
    fn an_envoy_without_a_mesh_has_a_route_for_each_prefix() {
        let more = "module: /m.wasm\nplacement: {envoy: {}}\nend: {}\n\
            websockets: {module: /f.wasm, routes: [{prefix: /ws}]}\n";
        let rendered = render(Kind::Envoy, &tests::policy(more), &|_, _| Err("unasked".into()));
        let document = tests::yaml(&rendered.expect(more).files[0]);
        let manager = &document["static_resources"]["listeners"][0]["filter_chains"][0]["filters"]
            [0]["typed_config"];
        let filters = manager["http_filters"].as_array().expect("filters");
        assert_eq!(
            (&filters[1]["name"], &filters[1]["disabled"]),
            (&json!("laststream-frames"), &json!(true))
        );
        let routes = manager["route_config"]["virtual_hosts"][0]["routes"].as_array();
        let routes = routes.expect("routes");
        assert_eq!(routes[0]["match"]["prefix"], "/ws");
        assert!(!routes[0]["typed_per_filter_config"]["laststream-frames"].is_null());
        assert!(routes[1]["typed_per_filter_config"].is_null());
    }

    #[test]
    fn unsupported_kinds_and_images_are_refused_with_the_fix() {
        let refused = rendered(Kind::WasmPlugin, CHAT).expect_err("a WasmPlugin");
        assert!(refused.contains("render envoyfilter"), "{refused}");
        let plain = "websockets: {module: 'oci://h/f:t', routes: [{prefix: /ws}]}\n\
            end: {}\nplacement: {envoy: {}}";
        let refused = try_render(Kind::Envoy, &format!("module: /m.wasm\n{plain}"));
        let refused = refused.expect_err("an image");
        assert!(refused.contains("websockets.module: is no file"), "{refused}");
        assert!(refused.contains("laststream module --frames --file"), "{refused}");
    }
}
