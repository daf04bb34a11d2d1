//! Istio's defaults, and its classes of Gateways that are handled in their own way.

use crate::time_span::TimeSpan;

/// The namespace whose resources apply to the whole mesh, unless it was renamed.
pub const ROOT_NAMESPACE: &str = "istio-system";

/// The variable of Istio's agent that names a file with a part of the bootstrap.
pub const BOOTSTRAP_OVERRIDE: &str = "ISTIO_BOOTSTRAP_OVERRIDE";

/// The drain time of proxies without a setting.
pub const ISTIO_DRAIN: TimeSpan = TimeSpan::seconds(45);

pub const WAYPOINTS: &str = "istio-waypoint";

/// Gateways and waypoints that are agentgateway, which is not an Envoy: it reads no EnvoyFilter and
/// runs no Wasm.
pub const AGENTGATEWAYS: [&str; 2] = ["istio-agentgateway", "istio-agentgateway-waypoint"];
