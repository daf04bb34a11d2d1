//! Upstream clusters: static endpoints, no limit that a load test would meet.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{extension, set, socket_address};

const PROTOCOLS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

/// HTTP/1 to the upstream; also right for TCP and CONNECT.
pub fn h1(name: &str, upstream: SocketAddr) -> Value {
    let many = 1_000_000;
    let limits = json!({
        "max_connections": many, "max_pending_requests": many, "max_requests": many,
        "max_retries": many,
    });
    let endpoint = json!({
        "endpoint": { "address": socket_address(&upstream.ip().to_string(), upstream.port()) },
    });
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": { "thresholds": [limits] },
        "load_assignment": { "cluster_name": name, "endpoints": [{ "lb_endpoints": [endpoint] }] },
    })
}

/// HTTP/2 with prior knowledge.
pub fn h2(name: &str, upstream: SocketAddr) -> Value {
    let protocol = json!({ "http2_protocol_options": { "allow_connect": true } });
    with_protocol(h1(name, upstream), json!({ "explicit_http_config": protocol }))
}

/// HTTP/1, with one request a connection.
pub fn h1_once(name: &str, upstream: SocketAddr) -> Value {
    let protocol = json!({
        "common_http_protocol_options": { "max_requests_per_connection": 1 },
        "explicit_http_config": { "http_protocol_options": {} },
    });
    with_protocol(h1(name, upstream), protocol)
}

fn with_protocol(mut cluster: Value, protocol: Value) -> Value {
    let options = extension("", PROTOCOLS, protocol)["typed_config"].take();
    cluster["typed_extension_protocol_options"] = json!({ PROTOCOLS: options });
    cluster
}

/// Any field set afterwards: `with(h1("app", address), "/circuit_breakers", …)`.
pub fn with(mut cluster: Value, pointer: &str, value: Value) -> Value {
    set(&mut cluster, pointer, value);
    cluster
}
