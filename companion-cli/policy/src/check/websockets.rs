//! Checks where WebSockets are ended with a close frame: the placement, the module, the routes.

use super::Checker;
use super::site::Site;
use crate::file::{File, Placement, WebsocketRoute, Websockets};

impl Checker {
    pub(super) fn websockets(&mut self, websockets: &Websockets, file: &File, site: Site<'_>) {
        if let Some(why) = why_not(site.placement) {
            self.problem("websockets", why);
            return;
        }
        if !site.has_gate {
            self.problem("websockets", "are ended by the gate, and there is none: take it out");
        }
        if site.has_gate && file.end.is_none() {
            self.problem(
                "websockets",
                "get a close frame where the gate ends them, and without a section `end` it ends \
                    none: add one, such as `end: {websocket: end}`",
            );
        }
        if websockets.module.is_empty() {
            self.problem(
                "websockets.module",
                "is required: push it with `laststream push --module builtin-frames \
                    HOST/REPOSITORY:TAG`",
            );
        } else if file.module.as_ref() == Some(&websockets.module) {
            self.problem(
                "websockets.module",
                "is the module of the counters: the frame filter is another file, which \
                    `laststream push --module builtin-frames` publishes under a name of its own",
            );
        }
        self.websocket_routes(&websockets.routes, matches!(site.placement, Placement::Envoy(_)));
    }

    fn websocket_routes(&mut self, routes: &[WebsocketRoute], is_plain: bool) {
        if routes.is_empty() {
            self.problem("websockets.routes", "names no route: name those of the WebSockets");
        }
        for (index, route) in routes.iter().enumerate() {
            if let Some(why) = wrong_route(route, is_plain) {
                self.problem(&format!("websockets.routes[{index}]"), why);
            }
            if routes.iter().filter(|other| *other == route).count() > 1 {
                self.problem(&format!("websockets.routes[{index}]"), "is there twice");
            }
        }
    }
}

/// The reason why a placement cannot have the frame filter, which must be off except on some
/// routes, and share its VM id with the gate.
fn why_not(placement: &Placement) -> Option<&'static str> {
    match placement {
        Placement::Waypoint(_) => Some(
            "are nothing for a waypoint: it takes WasmPlugins only, which are on for every route. \
                Its WebSockets are reset (1006)",
        ),
        Placement::EnvoyGateway(_) => Some(
            "are nothing for Envoy Gateway: it gives each Wasm filter a VM id of its own, so the \
                gate could not reach the frame filter. Its WebSockets are reset (1006)",
        ),
        _ => None,
    }
}

fn wrong_route(route: &WebsocketRoute, is_plain: bool) -> Option<&'static str> {
    let is_path = |path: &str| path.starts_with('/') && !path.contains(['?', '#']);
    match (&route.name, &route.prefix) {
        (None, Some(prefix)) if is_plain && is_path(prefix) => None,
        (None, Some(_)) if is_plain => Some("is no prefix of a path: write it as `/ws`"),
        (Some(name), None) if !is_plain && !name.is_empty() => None,
        _ if is_plain => Some("needs a `prefix` and nothing else, such as `{prefix: /ws}`"),
        _ => Some(
            "needs a `name` and nothing else: that of an `http` entry of the VirtualService, such \
                as `{name: chat}`",
        ),
    }
}
