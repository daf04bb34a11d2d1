//! Listeners on ephemeral ports: plain, TLS, QUIC, behind PROXY protocol.

use serde_json::{Map, Value, json};

use super::hcm::Hcm;
use super::{extension, push, set, socket_address};
use crate::certificates::{Authority, Identity};

const TLS: &str = "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";
const QUIC: &str = "envoy.extensions.transport_sockets.quic.v3.QuicDownstreamTransport";
const PROXY_PROTOCOL: &str = "envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol";
const TLS_INSPECTOR: &str = "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector";

#[derive(Clone)]
pub struct Listener(Value);

impl Listener {
    pub fn new(name: &str, hcm: Hcm) -> Self {
        let chain = json!({ "filters": [hcm.build()] });
        Self(json!({
            "name": name, "address": socket_address("127.0.0.1", 0), "listener_filters": [],
            "filter_chains": [chain],
        }))
    }

    /// Puts a network filter in front of all others of the only chain.
    pub fn first(mut self, filter: Value) -> Self {
        let filters = self.0.pointer_mut("/filter_chains/0/filters").and_then(Value::as_array_mut);
        filters.expect("the filters of a chain").insert(0, filter);
        self
    }

    /// HTTP/3 over UDP. The identity is the server's.
    pub fn quic(name: &str, hcm: Hcm, identity: &Identity) -> Self {
        let mut listener = Self::new(name, hcm.with("/codec_type", json!("HTTP3")));
        let context =
            json!({ "downstream_tls_context": { "common_tls_context": certificates(identity) } });
        set(
            &mut listener.0,
            "/filter_chains/0/transport_socket",
            extension("envoy.transport_sockets.quic", QUIC, context),
        );
        set(&mut listener.0, "/address/socket_address/protocol", json!("UDP"));
        set(&mut listener.0, "/udp_listener_config/quic_options", json!({}));
        listener
    }

    /// TLS with ALPN for HTTP/2 and HTTP/1.1.
    pub fn tls(self, identity: &Identity) -> Self {
        self.tls_context(certificates(identity), json!({}))
    }

    /// TLS that demands a client certificate of that authority.
    pub fn mutual_tls(self, identity: &Identity, clients: &Authority) -> Self {
        let mut common = certificates(identity);
        common["validation_context"] = json!({ "trusted_ca": { "inline_string": clients.pem() } });
        self.tls_context(common, json!({ "require_client_certificate": true }))
    }

    fn tls_context(mut self, mut common: Value, mut context: Value) -> Self {
        common["alpn_protocols"] = json!(["h2", "http/1.1"]);
        context["common_tls_context"] = common;
        set(
            &mut self.0,
            "/filter_chains/0/transport_socket",
            extension("envoy.transport_sockets.tls", TLS, context),
        );
        self.listener_filter(extension(
            "envoy.filters.listener.tls_inspector",
            TLS_INSPECTOR,
            json!({}),
        ))
    }

    /// Every connection begins with a PROXY protocol header, version 1 or 2.
    pub fn proxy_protocol(self) -> Self {
        self.listener_filter(proxy_protocol(json!({})))
    }

    /// Like [`Self::proxy_protocol`], but a connection may also come without a header.
    pub fn maybe_proxy_protocol(self) -> Self {
        let optional = json!({ "allow_requests_without_proxy_protocol": true });
        self.listener_filter(proxy_protocol(optional))
    }

    /// A filter chain for some connections, in front of the one for all others: the same connection
    /// manager with more fields.
    pub fn limited_chain(mut self, matches: Value, manager: Map<String, Value>) -> Self {
        let mut limited = self.0["filter_chains"][0].clone();
        self.0["default_filter_chain"] = self.0["filter_chains"][0].take();
        limited["filter_chain_match"] = matches;
        if let Some(fields) = limited["filters"][0]["typed_config"].as_object_mut() {
            fields.extend(manager);
        }
        self.0["filter_chains"] = json!([limited]);
        self
    }

    /// Adds a listener filter, in the order of the calls.
    pub(crate) fn listener_filter(mut self, filter: Value) -> Self {
        push(&mut self.0, "/listener_filters", filter);
        self
    }

    /// `INBOUND` or `OUTBOUND`.
    pub fn direction(self, direction: &str) -> Self {
        self.with("/traffic_direction", json!(direction))
    }

    /// A small buffer keeps the bytes of a slow reader in Envoy visible.
    pub fn buffer_limit(self, bytes: u32) -> Self {
        self.with("/per_connection_buffer_limit_bytes", json!(bytes))
    }

    /// A fixed port instead of an ephemeral one, to keep it when the listener changes.
    pub fn port(self, port: u16) -> Self {
        self.with("/address/socket_address/port_value", json!(port))
    }

    pub fn with(mut self, pointer: &str, value: Value) -> Self {
        set(&mut self.0, pointer, value);
        self
    }

    pub fn build(self) -> Value {
        self.0
    }
}

/// The listener filter that reads PROXY protocol headers.
pub fn proxy_protocol(config: Value) -> Value {
    extension("envoy.filters.listener.proxy_protocol", PROXY_PROTOCOL, config)
}

fn certificates(identity: &Identity) -> Value {
    let chain = json!({ "inline_string": identity.certificate_pem });
    json!({
        "tls_certificates": [
            { "certificate_chain": chain, "private_key": { "inline_string": identity.key_pem } },
        ],
    })
}
