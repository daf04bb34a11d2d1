//! The configuration for `gate.notify` and `gate.config_change`.

use serde_json::{Value, json};

use super::read;
use crate::policy::module_json;

fn gate(text: &str) -> Value {
    module_json::gate(&read(text).expect(text))["gate"].clone()
}

#[test]
fn notify_and_config_change_are_off_by_default() {
    let gate = gate("namespace: a\nplacement: {sidecar: {}}");
    assert_eq!((&gate["notify"], &gate["config_change"]), (&Value::Null, &Value::Null));
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
fn the_gate_gets_the_shortest_drain_time_of_a_pod() {
    for (placement, more, expected) in [
        ("sidecar: {}", "", 45_000),
        ("sidecar: {}", "drain: {longest_request: 60s}", 45_000),
        ("gateway: {}", "", 45_000),
        ("envoy: {}", "", 600_000),
        ("envoy: {}", "drain: {longest_request: 1h}", 600_000),
    ] {
        let text = |change: &str| {
            let gate = format!("gate: {{config_change: {{{change}}}}}");
            format!("namespace: a\nplacement: {{{placement}}}\n{gate}\n{more}")
        };
        assert_eq!(gate(&text(""))["config_change"]["drain_ms"], expected, "{placement} {more}");
        assert_eq!(gate(&text("drain_time: 90s"))["config_change"]["drain_ms"], 90_000);
    }
}
