//! Checks where WebSockets are ended with a close frame: the placement, the module, the routes.

use crate::checker::Checker;
use crate::file::{File, WebsocketRoute, Websockets};
use crate::placement::{Controller, Site};

impl Checker {
    pub(super) fn websockets(&mut self, websockets: &Websockets, file: &File, site: Site<'_>) {
        if let Some(why) = site.facts.no_websockets {
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
        let has_prefixes = site.facts.controller == Controller::None;
        self.websocket_routes(&websockets.routes, has_prefixes);
    }

    fn websocket_routes(&mut self, routes: &[WebsocketRoute], has_prefixes: bool) {
        if routes.is_empty() {
            self.problem("websockets.routes", "names no route: name those of the WebSockets");
        }
        for (index, route) in routes.iter().enumerate() {
            if let Some(why) = wrong_route(route, has_prefixes) {
                self.problem(&format!("websockets.routes[{index}]"), why);
            }
            if routes.iter().filter(|other| *other == route).count() > 1 {
                self.problem(&format!("websockets.routes[{index}]"), "is there twice");
            }
        }
    }
}

fn wrong_route(route: &WebsocketRoute, has_prefixes: bool) -> Option<&'static str> {
    let is_path = |path: &str| path.starts_with('/') && !path.contains(['?', '#']);
    match (&route.name, &route.prefix) {
        (None, Some(prefix)) if has_prefixes && is_path(prefix) => None,
        (None, Some(_)) if has_prefixes => Some("is no prefix of a path: write it as `/ws`"),
        (Some(name), None) if !has_prefixes && !name.is_empty() => None,
        _ if has_prefixes => Some("needs a `prefix` and nothing else, such as `{prefix: /ws}`"),
        _ => Some(
            "needs a `name` and nothing else: that of an `http` entry of the VirtualService, such \
                as `{name: chat}`",
        ),
    }
}
