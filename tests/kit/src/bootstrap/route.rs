//! Routes of a virtual host.

use serde_json::{Value, json};

use super::set;

#[derive(Clone)]
pub struct Route(Value);

impl Route {
    pub fn prefix(prefix: &str) -> Self {
        Self(json!({ "match": { "prefix": prefix } }))
    }

    /// Every CONNECT request, as a TCP tunnel to the cluster.
    pub fn connect(cluster: &str) -> Self {
        let tunnel = json!([{ "upgrade_type": "CONNECT", "connect_config": {} }]);
        Self(json!({ "match": { "connect_matcher": {} } }))
            .cluster(cluster)
            .with("/route/upgrade_configs", tunnel)
    }

    /// Matches only if the header has exactly this value.
    pub fn header(self, name: &str, value: &str) -> Self {
        self.with("/match/headers", json!([{ "name": name, "string_match": { "exact": value } }]))
    }

    pub fn cluster(self, cluster: &str) -> Self {
        self.with("/route/cluster", json!(cluster))
    }

    /// Envoy answers itself.
    pub fn direct(self, status: u16, body: &str) -> Self {
        self.with(
            "/direct_response",
            json!({ "status": status, "body": { "inline_string": body } }),
        )
    }

    /// The time-out of the whole request, such as `0.5s`; `0s` for none. Envoy's default is 15 s.
    pub fn timeout(self, timeout: &str) -> Self {
        self.with("/route/timeout", json!(timeout))
    }

    /// For example `retry("5xx,reset,connect-failure", 2)`.
    pub fn retry(self, on: &str, retries: u32) -> Self {
        let back_off = json!({ "base_interval": "0.005s", "max_interval": "0.01s" });
        self.with(
            "/route/retry_policy",
            json!({ "retry_on": on, "num_retries": retries, "retry_back_off": back_off }),
        )
    }

    /// Envoy follows the upstream's 302 itself.
    pub fn follow_redirects(self) -> Self {
        self.with("/route/internal_redirect_policy", json!({ "max_internal_redirects": 3 }))
    }

    pub fn name(self, name: &str) -> Self {
        self.with("/name", json!(name))
    }

    /// Configuration of one filter for this route, with its `@type`.
    pub(crate) fn filter_config(self, filter: &str, config: Value) -> Self {
        self.with(&format!("/typed_per_filter_config/{filter}"), config)
    }

    /// Takes one filter out of the chain for this route.
    pub fn without_filter(self, filter: &str) -> Self {
        let config = json!({
            "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": true,
        });
        self.filter_config(filter, config)
    }

    /// Puts one Wasm filter into the chain for this route, which is `disabled` otherwise. The
    /// `config` is as `laststream render` writes it, because istiod refuses `"config": {}`.
    pub fn with_filter(self, filter: &str) -> Self {
        let own_type = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm";
        let config = json!({
            "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig",
            "is_optional": true, "config": { "@type": own_type },
        });
        self.filter_config(filter, config)
    }

    pub fn with(mut self, pointer: &str, value: Value) -> Self {
        set(&mut self.0, pointer, value);
        self
    }

    pub fn build(self) -> Value {
        self.0
    }
}
