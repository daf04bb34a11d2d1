//! The configuration for `gate.notify`.

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
