//! Random valid policies: the module accepts the configurations rendered from them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{DIGEST, every_kind};
use crate::{Kind, render};

/// Valid policies, with arbitrary texts in header prefixes; an empty one is refused.
fn sensible() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        "\\PC+",
        "[ -~]{1,20}",
        proptest::sample::select(vec!["on", "1_000", "12:30:45", "~", "a\nb", "\u{85}", "}\"{"])
            .prop_map(String::from)
    ];
    let placement = proptest::sample::select(vec![
        json!({ "gateway": {} }),
        json!({ "gateway": { "selector": { "app": "yes" } } }),
        json!({ "gateway_api": { "gateway": "edge", "autoscaler": { "maxReplicas": 3 } } }),
        json!({ "gateway_api": { "class": "istio" } }),
        json!({ "sidecar": {} }),
        json!({ "sidecar": { "directions": ["inbound"], "native": true, "workload": "on" } }),
        json!({ "waypoint": { "gateway": "w" } }),
        json!({ "waypoint": { "class": "istio-waypoint" } }),
        json!({ "envoy_gateway": { "gateway": "g", "listeners": ["a", "b"] } }),
        json!({ "envoy": { "listen": "[::1]:1", "app": "10.0.0.1:80" } }),
    ]);
    let module = proptest::sample::select(vec![
        "oci://h/r:t",
        "oci://[::1]:5000/a/b:1",
        "/etc/on.wasm",
        "/a b: #.wasm",
    ]);
    let headers = proptest::collection::vec(text, 0..4);
    (placement, module, headers, 1_u64..600, any::<[bool; 4]>()).prop_map(
        |(placement, module, headers, seconds, [gate, proto, keep, retries])| {
            let headers: Vec<Value> =
                headers.into_iter().map(|text| json!({ "name": "x", "prefix": text })).collect();
            let (has_gate, in_istio) = (
                placement.get("envoy_gateway").is_none()
                    && (placement.get("waypoint").is_none() || !module.contains("://")),
                placement.get("envoy").or(placement.get("envoy_gateway")).is_none(),
            );
            let mut policy = json!({
                "namespace": "shop",
                "placement": placement,
                "module": module,
                "count": { "exclude": { "headers": headers } },
            });
            policy["drain"] = json!({ "exit_on_zero": keep && in_istio });
            if in_istio || has_gate {
                policy["drain"]["longest_request"] = format!("{seconds}s").into();
            }
            if !gate && has_gate {
                policy["gate"] = json!({ "enabled": false });
            }
            if proto && policy["placement"].get("waypoint").is_none() {
                policy["forwarded_proto"] = json!({
                    "presets": ["gcp"],
                    "trust": { "peers": ["10.0.0.0/8"] },
                    "original_header": "X-Odd",
                });
            }
            if retries {
                policy["retries"] = json!({ "host": "on", "attempts": 3 });
            }
            policy.to_string()
        },
    )
}

/// Collects every configuration text of the module.
fn configurations<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| configurations(item, found)),
        Value::Object(members) => {
            let is_wasm = members.get("vm_config").is_some();
            found.extend(
                members
                    .get("configuration")
                    .filter(|_| is_wasm)
                    .and_then(|configuration| configuration["value"].as_str()),
            );
            members.values().for_each(|member| configurations(member, found));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn valid_policies_are_rendered_and_the_module_accepts_them(policy in sensible()) {
        let read = super::read(&policy)
            .map_err(|refused| TestCaseError::fail(format!("{refused}\n{policy}")))?;
        let wanted: Value = serde_json::from_str(&policy).expect("JSON");
        for rendered in every_kind(&read, &|_, _| Ok(DIGEST.into())).into_iter().flatten() {
            for file in rendered.files {
                let documents: Vec<Value> = serde_saphyr::from_multiple(&file.text)
                    .map_err(|error| TestCaseError::fail(format!("{error}\n{}", file.text)))?;
                let mut configuration = Vec::new();
                documents.iter().for_each(|document| configurations(document, &mut configuration));
                for text in configuration {
                    let parsed = laststream_filter::config::parse(text.as_bytes());
                    prop_assert!(parsed.is_ok(), "{}", text);
                    let configuration: Value = serde_json::from_str(text).expect("JSON");
                    let is_gate = configuration["role"] == "gate";
                    prop_assert!(is_gate || configuration["count"] == wanted["count"], "{}", text);
                }
            }
        }
        let (is_file, placement) = (policy.contains(".wasm"), &wanted["placement"]);
        let fits = if placement.get("envoy").is_some() {
            is_file
        } else {
            placement.get("envoy_gateway").is_none() || !is_file
        };
        let rendered = render(Kind::All, &read, &|_, _| Ok(DIGEST.into()));
        prop_assert_eq!(rendered.is_ok(), fits, "{}", policy);
    }
}
