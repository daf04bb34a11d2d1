//! Checks where the module goes: placement, directions, namespace.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Checker;
use crate::file::{Direction, EnvoyGateway, GatewayApi, Gateways, Placement, Waypoint};
use laststream_base::classes::{AGENTGATEWAYS, WAYPOINTS};
use laststream_base::versions::{self, Release};

impl Checker {
    /// Checks the placement, and fills in defaults.
    pub(super) fn placement(&mut self, placement: &mut Placement, name: &str) {
        match placement {
            Placement::Gateway(gateway) => self.gateway(gateway),
            Placement::GatewayApi(api) => self.gateway_api(api),
            Placement::Sidecar(sidecar) => {
                self.labels("placement.sidecar.selector", &sidecar.selector);
                self.directions(&mut sidecar.directions);
                self.dns_subdomain(
                    "placement.sidecar.workload",
                    sidecar.workload.get_or_insert_with(|| name.to_owned()),
                );
            }
            Placement::Waypoint(waypoint) => self.waypoint(waypoint),
            Placement::EnvoyGateway(gateway) => self.envoy_gateway(gateway),
            Placement::Envoy(envoy) => {
                for (path, address, usual) in [
                    ("placement.envoy.listen", &mut envoy.listen, "127.0.0.1:10000"),
                    ("placement.envoy.app", &mut envoy.app, "127.0.0.1:8080"),
                    ("placement.envoy.admin", &mut envoy.admin, "127.0.0.1:9901"),
                ] {
                    self.address(path, address.get_or_insert_with(|| usual.into()));
                }
            }
        }
    }

    fn gateway(&mut self, gateway: &mut Gateways) {
        self.labels("placement.gateway.selector", &gateway.selector);
        if gateway.selector.is_empty() {
            gateway.selector = BTreeMap::from([("istio".into(), "ingressgateway".into())]);
        }
    }

    fn gateway_api(&mut self, api: &GatewayApi) {
        const PATH: &str = "placement.gateway_api";
        self.gateway_or_class(PATH, api.gateway.as_deref(), api.class.as_deref());
        if api.class.as_deref() == Some(WAYPOINTS) {
            self.problem(
                &format!("{PATH}.class"),
                format!(
                    "waypoints take no EnvoyFilter: write `placement: {{waypoint: {{class: \
                        {WAYPOINTS}}}}}`"
                ),
            );
        }
        if api.class.as_deref().is_some_and(|class| AGENTGATEWAYS.contains(&class)) {
            self.problem(
                &format!("{PATH}.class"),
                "is agentgateway, which is not an Envoy: it reads no EnvoyFilter and runs no Wasm",
            );
        }
        for (field, spec, example) in [
            ("autoscaler", &api.autoscaler, "{maxReplicas: 5}"),
            ("disruption_budget", &api.disruption_budget, "{minAvailable: 1}"),
        ] {
            if spec.as_ref().is_some_and(|spec| !spec.is_object()) {
                let message = format!("is not a map, such as `{example}`");
                self.problem(&format!("{PATH}.{field}"), message);
            }
        }
        // If the API server rejects one of these two, istiod only logs it.
        if let Some(Value::Object(autoscaler)) = &api.autoscaler {
            let least = autoscaler.get("minReplicas").map_or(Some(1), Value::as_u64);
            let most = autoscaler.get("maxReplicas").and_then(Value::as_u64);
            if !least.zip(most).is_some_and(|(least, most)| (1..=most).contains(&least)) {
                let message = "needs `maxReplicas`, and `minReplicas` from 1 to it";
                self.problem(&format!("{PATH}.autoscaler"), message);
            }
        }
        if let Some(Value::Object(budget)) = &api.disruption_budget
            && budget.contains_key("minAvailable") == budget.contains_key("maxUnavailable")
        {
            let message = "needs either `minAvailable` or `maxUnavailable`";
            self.problem(&format!("{PATH}.disruption_budget"), message);
        }
    }

    fn waypoint(&mut self, waypoint: &Waypoint) {
        const PATH: &str = "placement.waypoint";
        self.gateway_or_class(PATH, waypoint.gateway.as_deref(), waypoint.class.as_deref());
        if waypoint.class.as_deref().is_some_and(|class| class != WAYPOINTS) {
            self.problem(
                &format!("{PATH}.class"),
                format!("Istio has one class of waypoints: write `{WAYPOINTS}`"),
            );
        }
    }

    /// Checks that the policy names either a Gateway or a class.
    fn gateway_or_class(&mut self, path: &str, gateway: Option<&str>, class: Option<&str>) {
        for (field, name) in [("gateway", gateway), ("class", class)] {
            if let Some(name) = name {
                self.dns_label(&format!("{path}.{field}"), name);
            }
        }
        match (gateway, class) {
            (None, None) => self.problem(path, "has neither `gateway` nor `class`: write one"),
            (Some(_), Some(_)) => self.problem(path, "has both `gateway` and `class`: keep one"),
            _ => {}
        }
    }

    fn envoy_gateway(&mut self, gateway: &mut EnvoyGateway) {
        self.dns_label("placement.envoy_gateway.gateway", &gateway.gateway);
        if gateway.listeners.is_empty() {
            gateway.listeners = vec!["http".into()];
        }
        for (index, listener) in gateway.listeners.iter().enumerate() {
            let path = format!("placement.envoy_gateway.listeners[{index}]");
            self.dns_label(&path, listener);
            if gateway.listeners.iter().take(index).any(|other| other == listener) {
                self.problem(&path, format!("`{listener}` is named twice: keep one"));
            }
        }
    }

    pub(super) fn istio(&mut self, text: Option<&str>) -> Option<Release> {
        let text = text?;
        let release = versions::release(text);
        release.map_err(|fix| self.problem("istio", format!("`{text}` is no version: {fix}"))).ok()
    }

    pub(super) fn directions(&mut self, directions: &mut Vec<Direction>) {
        if directions.is_empty() {
            *directions = vec![Direction::Inbound, Direction::Outbound];
        }
        let twice = |direction: Direction| {
            directions.iter().filter(|other| **other == direction).count() > 1
        };
        if twice(Direction::Inbound) || twice(Direction::Outbound) {
            self.problem(
                "placement.sidecar.directions",
                "names a direction twice: its streams would be counted twice",
            );
        }
    }

    pub(super) fn namespace(
        &mut self,
        namespace: Option<String>,
        placement: &Placement,
    ) -> Option<String> {
        let namespace = match (namespace, placement) {
            (None, placement) if placement.class().is_some() => Some("istio-system".into()),
            (None, Placement::Envoy(_)) => None,
            (None, _) => {
                self.problem(
                    "namespace",
                    "is required: the proxies' own, where the resources must be, too; a resource \
                        in Istio's root namespace reaches proxies of all namespaces",
                );
                None
            }
            (namespace, _) => namespace,
        };
        if let Some(namespace) = &namespace {
            self.dns_label("namespace", namespace);
        }
        namespace
    }
}
