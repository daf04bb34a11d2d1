//! The HTTP connection manager: codecs, trust in headers, filters, routes.

use serde_json::{Value, json};

use super::filters::router;
use super::route::Route;
use super::{extension, push, set};

const KIND: &str =
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
const EARLY_MUTATION: &str =
    "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation";

#[derive(Clone)]
pub struct Hcm(Value);

impl Hcm {
    /// Stats are under `http.<stat_prefix>.`. HTTP/1.0, HTTP/2 and its extended CONNECT are
    /// allowed.
    pub fn new(stat_prefix: &str) -> Self {
        let host = json!({ "name": "all", "domains": ["*"], "routes": [] });
        Self(json!({
            "stat_prefix": stat_prefix,
            "codec_type": "AUTO",
            "http_protocol_options": {
                "accept_http_10": true, "default_host_for_http_10": "test.local",
            },
            "http2_protocol_options": { "allow_connect": true },
            "route_config": { "name": format!("{stat_prefix}-routes"), "virtual_hosts": [host] },
            "http_filters": [],
        }))
    }

    /// Adds a filter in front of the router, in the order of the calls.
    pub fn filter(mut self, filter: Value) -> Self {
        push(&mut self.0, "/http_filters", filter);
        self
    }

    /// The first route that matches wins.
    pub fn route(mut self, route: Route) -> Self {
        push(&mut self.0, "/route_config/virtual_hosts/0/routes", route.build());
        self
    }

    /// `ALL` or `EXTERNAL_ONLY`.
    pub fn require_tls(self, which: &str) -> Self {
        self.with("/route_config/virtual_hosts/0/require_tls", json!(which))
    }

    pub fn use_remote_address(self, yes: bool, trusted_hops: u32) -> Self {
        self.with("/use_remote_address", json!(yes))
            .with("/xff_num_trusted_hops", json!(trusted_hops))
    }

    /// Allows WebSocket upgrades and CONNECT.
    pub fn upgrades(self) -> Self {
        self.with(
            "/upgrade_configs",
            json!([{ "upgrade_type": "websocket" }, { "upgrade_type": "CONNECT" }]),
        )
    }

    /// Allows WebSocket upgrades and CONNECT with their own filters, to which the router is added.
    pub fn upgrades_with(self, filters: &[Value]) -> Self {
        let filters: Vec<Value> = filters.iter().cloned().chain([router()]).collect();
        let config = |kind: &str| json!({ "upgrade_type": kind, "filters": filters });
        self.with("/upgrade_configs", json!([config("websocket"), config("CONNECT")]))
    }

    /// Header mutations before Envoy itself touches a header, such as `{"remove": "x"}` or
    /// `{"append": {"header": {…}}}`.
    pub fn early_mutations(self, mutations: Value) -> Self {
        let name = "envoy.http.early_header_mutation.header_mutation";
        let mutation = extension(name, EARLY_MUTATION, json!({ "mutations": mutations }));
        self.with("/early_header_mutation_extensions", json!([mutation]))
    }

    pub fn with(mut self, pointer: &str, value: Value) -> Self {
        set(&mut self.0, pointer, value);
        self
    }

    /// The network filter.
    pub fn build(self) -> Value {
        extension("envoy.filters.network.http_connection_manager", KIND, self.filter(router()).0)
    }
}
