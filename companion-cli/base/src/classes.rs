//! Istio's classes of Gateways that are handled in their own way.

pub const WAYPOINTS: &str = "istio-waypoint";

/// Gateways and waypoints that are agentgateway, which is not an Envoy: it reads no EnvoyFilter and
/// runs no Wasm.
pub const AGENTGATEWAYS: [&str; 2] = ["istio-agentgateway", "istio-agentgateway-waypoint"];
