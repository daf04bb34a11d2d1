//! The gate as a program in a container beside Envoy's. `machine` has it outside of Kubernetes.

use laststream_base::yaml::{List, Map};
use laststream_policy::placement::PlainEnvoy;
use laststream_policy::{Policy, module_json};

use serde_json::Value;

use super::volume::Program;

/// The program in its image.
pub(super) const IMAGE_PROGRAM: &str = "/laststream";

/// The gate's container: an init container that goes on, so that kubelet starts it before Envoy,
/// and ends it after Envoy.
pub(super) fn sidecar(policy: &Policy, program: &Program<'_>, port: u16, admin: &str) -> Map {
    let args = List::of(format!("--envoy={admin}"))
        .item(format!("--listen=127.0.0.1:{port}"))
        .item(format!("--config-json={}", configuration(policy)));
    program
        .container("laststream-gate", List::of(IMAGE_PROGRAM).item("gate"))
        .note("Begins before Envoy, and ends after it (Kubernetes 1.29).")
        .with("restartPolicy", "Always")
        .with("args", args)
}

/// The gate's configuration on one line, without what the program itself knows.
pub(super) fn configuration(policy: &Policy) -> String {
    let mut configuration = module_json::gate(policy);
    if let Some(gate) = configuration["gate"].as_object_mut() {
        gate.remove("count");
        let admin = gate.get_mut("admin").and_then(Value::as_object_mut);
        if admin.is_some_and(|admin| admin.remove("cluster").is_some() && admin.is_empty()) {
            gate.remove("admin");
        }
    }
    configuration.to_string()
}

/// Envoy's admin interface, as the program is told of it.
pub(super) fn admin_of(envoy: &PlainEnvoy) -> &str {
    envoy.admin.as_deref().unwrap_or_default()
}
