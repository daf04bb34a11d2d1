//! Names and defaults in pods with a proxy.

pub const ISTIO_PROXY: &str = "istio-proxy";
/// The names of proxy containers: Istio's and Envoy Gateway's.
pub const PROXIES: [&str; 2] = [ISTIO_PROXY, "envoy"];

/// The default grace period of Kubernetes, in seconds.
pub const DEFAULT_GRACE: u64 = 30;

/// The labels of what Envoy Gateway makes for a Gateway in another namespace.
pub const ENVOY_GATEWAY: [&str; 2] =
    ["gateway.envoyproxy.io/owning-gateway-namespace", "gateway.envoyproxy.io/owning-gateway-name"];
