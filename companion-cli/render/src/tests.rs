//! Properties of every rendered EnvoyFilter.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use clap::ValueEnum as _;

use super::files::FILES_OF_ALL;
use super::{File, HookPlace, Kind, Rendered, lifecycle, render};
use laststream_policy::{Overrides, Policy, PolicyError, PolicyProblem, Resolve};

mod damaged;
mod rows;

pub(super) const DIGEST: &str =
    "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// Reads a policy; one without a namespace as with `--namespace istio-system`.
pub(super) fn read(text: &str) -> Result<Policy, PolicyError> {
    let is_elsewhere = text.contains("namespace") || text.contains("envoy");
    let namespace = (!is_elsewhere).then(|| "istio-system".to_owned());
    Policy::read(text.as_bytes(), &Overrides { namespace, ..Overrides::default() })
}

pub(super) fn policy(text: &str) -> Policy {
    read(text).unwrap_or_else(|refused| panic!("{refused}\n{text}"))
}

/// The files rendered from a policy whose image has the digest [`DIGEST`].
pub(super) fn rendered(kind: Kind, text: &str) -> Vec<File> {
    let rendered = render(kind, &policy(text), &|_, _| Ok(DIGEST.into()));
    rendered.unwrap_or_else(|refused| panic!("{refused}\n{text}")).files
}

/// All kinds, rendered from a policy, with the stop hook in each of its homes.
fn every_kind(policy: &Policy, resolve: Resolve<'_>) -> Vec<Result<Rendered, PolicyProblem>> {
    let hooks = HookPlace::value_variants().iter().map(|home| lifecycle(policy, *home));
    Kind::value_variants().iter().map(|kind| render(*kind, policy, resolve)).chain(hooks).collect()
}

pub(super) fn yaml(file: &File) -> Value {
    serde_saphyr::from_str(&file.text).expect("YAML")
}

/// The patches of a policy's EnvoyFilter, by what they are applied to.
fn patches(policy: &str) -> BTreeMap<String, Vec<Value>> {
    let object = yaml(&rendered(Kind::EnvoyFilter, policy)[0]);
    let mut patches: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for patch in object["spec"]["configPatches"].as_array().expect("patches") {
        patches
            .entry(patch["applyTo"].as_str().expect("applyTo").into())
            .or_default()
            .push(patch["patch"]["value"].clone());
    }
    patches
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
        for more in [
            "",
            "gate: {enabled: false}",
            "failure_policy: closed",
            "failure_policy: open\nname: other",
            PROTO,
        ] {
            if !(placement.contains("[outbound]") && more == PROTO) {
                all.push(format!(
                    "module: oci://h/r:floating\nnamespace: shop\n{placement}\n{more}\n"
                ));
            }
        }
    }
    all
}

/// If `render all` wrote a file that is not in the list, it would never be reported as stale.
#[test]
fn every_file_of_render_all_is_in_its_list() {
    assert!(FILES_OF_ALL.is_sorted(), "stale files are reported in this order");
    let manifests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../envoyfilter-manifests");
    let mut policies = vec![include_str!("../../policy/src/tests/everything.yaml").to_owned()];
    for entry in std::fs::read_dir(manifests).unwrap() {
        policies.extend(std::fs::read_to_string(entry.unwrap().path().join("policy.yaml")));
    }
    policies.extend(["job: {container: a, command: [b], program_image: c}", ""].map(|more| {
        format!("module: oci://h/r:t\nnamespace: a\nplacement: {{sidecar: {{}}}}\n{more}\n")
    }));
    policies.push("module: oci://h/r:t\nnamespace: a\ndrain: {starts: hook}\n".to_owned());
    let program = "placement: {envoy: {}}\ndelivery: program\nprogram_image: h/tools:1\n";
    policies.push(program.to_owned());
    let waypoint = "module: /a.wasm\nnamespace: a\nplacement: {waypoint: {gateway: w}}\n";
    policies.extend(["", "istio: '1.30'\n"].map(|istio| format!("{istio}{waypoint}")));
    let mut known = BTreeSet::new();
    for file in policies.iter().flat_map(|policy| rendered(Kind::All, policy)) {
        assert!(FILES_OF_ALL.contains(&&*file.name), "{}", file.name);
        known.insert(file.name);
    }
    let unseen: Vec<_> = FILES_OF_ALL.iter().filter(|name| !known.contains(**name)).collect();
    assert_eq!(unseen, [&"image-volume.yaml"; 0], "of no policy");
}

#[test]
fn the_gate_never_fails_open_and_shares_only_the_vm_id() {
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
                assert_ne!(
                    gate["vm_config"]["configuration"], counter["vm_config"]["configuration"],
                    "{policy}"
                );
            }
        }
        for config in gates.iter().chain(&counters) {
            let remote = &config["vm_config"]["code"]["remote"];
            let pinned = format!("oci://h/r@{DIGEST}");
            assert_eq!(remote["http_uri"]["uri"], pinned, "a floating tag in {policy}");
            assert_eq!(remote["sha256"].as_str(), DIGEST.strip_prefix("sha256:"), "{policy}");
        }
    }
}
