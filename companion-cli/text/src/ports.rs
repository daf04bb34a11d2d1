//! Ports of a pod that listeners of Istio and Envoy Gateway have.

/// The port of Istio's agent: it serves the statistics of Envoy, and its own commands.
pub const ISTIO_AGENT: u16 = 15020;

/// Istio's listeners and its agent: admin, capture, debugging, HBONE, agent, health, DNS,
/// statistics.
pub const ISTIO: &[u16] =
    &[15000, 15001, 15004, 15006, 15008, 15009, ISTIO_AGENT, 15021, 15053, 15090];

/// The ports that Istio's documentation gives to its metrics over mTLS, which a setting of the
/// proxy switches on from 1.31 on.
pub const ISTIO_METRICS: &[u16] = &[15091, 15092];

/// Envoy Gateway's listeners and its shutdown manager.
pub const ENVOY_GATEWAY: &[u16] = &[19000, 19001, 19002, 19003];
