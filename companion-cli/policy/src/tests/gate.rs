//! The gate's configuration.

use serde_json::{Value, json};

use super::read;
use crate::module_json;

fn gate(text: &str) -> Value {
    module_json::gate(&read(text).expect(text))["gate"].clone()
}

#[test]
fn notify_is_rendered_for_every_placement() {
    for placement in ["sidecar: {}", "gateway: {}", "envoy: {}"] {
        let notify = |more: &str| {
            gate(&format!(
                "namespace: a\nplacement: {{{placement}}}\ngate: {{notify: {{cluster: app, path: \
                    /drain{more}}}}}"
            ))["notify"]
                .clone()
        };
        assert_eq!(notify(""), json!({ "cluster": "app", "path": "/drain" }));
        assert_eq!(notify(", timeout: 500ms")["timeout_ms"], 500);
    }
}

#[test]
fn host_names_of_the_policy_are_the_gates() {
    let gate = gate("namespace: a\ngate: {hosts: [gate.shop.svc]}");
    assert_eq!(gate["hosts"], json!(["gate.shop.svc"]));
}
