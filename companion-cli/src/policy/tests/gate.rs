//! What the gate tells the app, and what it watches beside the drain.

use serde_json::{Value, json};

use super::read;
use crate::policy::module_json;

fn gate(text: &str) -> Value {
    module_json::gate(&read(text).expect(text))["gate"].clone()
}

#[test]
fn nothing_is_told_or_watched_unless_it_is_asked_for() {
    let gate = gate("namespace: a\nplacement: {sidecar: {}}");
    assert_eq!((&gate["notify"], &gate["config_change"]), (&Value::Null, &Value::Null));
}

#[test]
fn the_app_is_told_where_the_policy_names_its_cluster() {
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
fn the_gate_knows_the_least_drain_time_that_a_pod_may_have() {
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
