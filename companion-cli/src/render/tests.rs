//! What must hold for every EnvoyFilter, whatever the policy says.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Kind, render};
use crate::policy::{Overrides, Policy};

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The patches of a policy's EnvoyFilter, by what they are applied to.
fn patches(policy: &str) -> BTreeMap<String, Vec<Value>> {
    let policy = Policy::read(policy.as_bytes(), &Overrides::default()).unwrap_or_else(|refused| panic!("{refused}\n{policy}"));
    let rendered = render(Kind::EnvoyFilter, &policy, &|_| Ok(DIGEST.into())).expect("an EnvoyFilter");
    let object: Value = serde_saphyr::from_str(&rendered.files[0].text).expect("YAML");
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for patch in object["spec"]["configPatches"].as_array().expect("patches") {
        found.entry(patch["applyTo"].as_str().expect("applyTo").into()).or_default().push(patch["patch"]["value"].clone());
    }
    found
}

fn policies() -> Vec<String> {
    const PROTO: &str = "forwarded_proto: {presets: [gcp], trust: {peers: [10.0.0.0/8]}}";
    let mut all = Vec::new();
    for placement in [
        "",
        "placement: {sidecar: {}}",
        "placement: {sidecar: {directions: [inbound], native: true}}",
        "placement: {sidecar: {directions: [outbound]}}",
    ] {
        for more in ["", "gate: {enabled: false}", "failure_policy: closed", "failure_policy: open\nname: other", PROTO] {
            if !(placement.contains("[outbound]") && more == PROTO) {
                all.push(format!("module: oci://h/r:floating\nnamespace: shop\n{placement}\n{more}\n"));
            }
        }
    }
    all
}

#[test]
fn names_are_there_once_and_what_is_discovered_is_there() {
    for policy in policies() {
        let patches = patches(&policy);
        let name = |value: &Value| value["name"].as_str().expect("a name").to_owned();
        let mut configured: Vec<String> = patches["EXTENSION_CONFIG"].iter().map(name).collect();
        let gates = patches.get("LISTENER").into_iter().flatten();
        let in_gates = gates.clone().flat_map(|listener| {
            listener.pointer("/filter_chains/0/filters/0/typed_config/http_filters").and_then(Value::as_array).expect("filters")
        });
        let mut discovered: Vec<String> =
            patches["HTTP_FILTER"].iter().chain(in_gates).filter(|filter| filter.get("config_discovery").is_some()).map(name).collect();
        configured.sort();
        discovered.sort();
        assert_eq!(configured, discovered, "{policy}");
        configured.dedup();
        assert_eq!(configured.len(), discovered.len(), "{policy}");
        assert!(configured.iter().all(|name| name.contains(".shop.")), "{configured:?}");
        assert_eq!(gates.count(), usize::from(!policy.contains("enabled: false")), "{policy}");
    }
}

#[test]
fn the_gate_is_never_open_and_shares_nothing_but_the_name_of_its_vms() {
    for policy in policies() {
        let configs = patches(&policy).remove("EXTENSION_CONFIG").expect("extensions");
        let (gates, counters): (Vec<&Value>, Vec<&Value>) = configs
            .iter()
            .map(|extension| &extension["typed_config"]["config"])
            .partition(|config| config["name"].as_str().expect("a name").ends_with(".gate"));
        for gate in &gates {
            assert_eq!(gate["failure_policy"], "FAIL_RELOAD", "{policy}");
            for counter in &counters {
                assert_eq!(gate["vm_config"]["vm_id"], counter["vm_config"]["vm_id"], "{policy}");
                assert_ne!(gate["vm_config"]["configuration"], counter["vm_config"]["configuration"], "{policy}");
            }
        }
        for config in gates.iter().chain(&counters) {
            let remote = &config["vm_config"]["code"]["remote"];
            assert_eq!(remote["http_uri"]["uri"], format!("oci://h/r@{DIGEST}"), "a floating tag in {policy}");
            assert_eq!(format!("sha256:{}", remote["sha256"].as_str().expect("sha256")), DIGEST, "{policy}");
        }
    }
}
