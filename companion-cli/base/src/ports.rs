//! Ports of a pod: the gate's, and those that listeners of other programs have.

pub use manifest_text::ports::{ENVOY_GATEWAY, ISTIO, ISTIO_AGENT, ISTIO_METRICS};

/// The default port of the gate: no component of Istio, Envoy Gateway or Kubernetes listens there.
pub const GATE: u16 = 16091;
