//! Properties of every rendered EnvoyFilter.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::{FILES_OF_ALL, File, Kind, render};
use laststream_policy::{Overrides, Policy, PolicyError};

mod damaged;
mod sensible;

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
pub(super) fn try_render(kind: Kind, text: &str) -> Result<Vec<File>, String> {
    let rendered = render(kind, &policy(text), &|_, _| Ok(DIGEST.into()));
    rendered.map(|rendered| rendered.files).map_err(|refused| refused.to_string())
}

pub(super) fn rendered(kind: Kind, text: &str) -> Vec<File> {
    try_render(kind, text).unwrap_or_else(|refused| panic!("{refused}\n{text}"))
}

pub(super) fn yaml(file: &File) -> Value {
    serde_saphyr::from_str(&file.text).expect("YAML")
}

fn names(files: &[File]) -> Vec<&str> {
    files.iter().map(|file| file.name.as_str()).collect()
}

/// The patches of a policy's EnvoyFilter, by what they are applied to.
fn patches(policy: &str) -> BTreeMap<String, Vec<Value>> {
    let object = yaml(&rendered(Kind::EnvoyFilter, policy)[0]);
    let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for patch in object["spec"]["configPatches"].as_array().expect("patches") {
        found
            .entry(patch["applyTo"].as_str().expect("applyTo").into())
            .or_default()
            .push(patch["patch"]["value"].clone());
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
fn names_are_unique_and_discovered_filters_are_configured() {
    for policy in policies() {
        let patches = patches(&policy);
        let name = |value: &Value| value["name"].as_str().expect("a name").to_owned();
        let mut configured: Vec<String> = patches["EXTENSION_CONFIG"].iter().map(name).collect();
        let gates = patches.get("LISTENER").into_iter().flatten();
        let in_gates = gates.clone().flat_map(|listener| {
            listener
                .pointer("/filter_chains/0/filters/0/typed_config/http_filters")
                .and_then(Value::as_array)
                .expect("filters")
        });
        let mut discovered: Vec<String> = patches["HTTP_FILTER"]
            .iter()
            .chain(in_gates)
            .filter(|filter| filter.get("config_discovery").is_some())
            .map(name)
            .collect();
        configured.sort();
        discovered.sort();
        assert_eq!(configured, discovered, "{policy}");
        configured.dedup();
        assert_eq!(configured.len(), discovered.len(), "{policy}");
        assert!(configured.iter().all(|name| name.contains(".shop.")), "{configured:?}");
        assert_eq!(gates.count(), usize::from(!policy.contains("enabled: false")), "{policy}");
    }
}

/// A Gateway's name replaces labels, and the order of patches does not depend on the age of
/// resources.
#[test]
fn every_envoyfilter_has_a_priority_and_one_way_to_choose_proxies() {
    for (placement, chooses) in [
        ("{gateway: {}}", "workloadSelector"),
        ("{gateway_api: {gateway: edge}}", "targetRefs"),
        ("{gateway_api: {class: istio}}", "workloadSelector"),
        ("{sidecar: {selector: {app: a}}}", "workloadSelector"),
    ] {
        let policy = format!(
            "module: oci://h/r:t\nnamespace: shop\nplacement: {placement}\nforwarded_proto: \
                {{presets: [gcp], trust: {{peers: [10.0.0.0/16]}}}}"
        );
        let policy = read(&policy).expect("a policy");
        for kind in [Kind::EnvoyFilter, Kind::WasmPlugin] {
            let rendered = render(kind, &policy, &|_, _| Ok(DIGEST.into())).expect("rendered");
            let objects: Vec<Value> =
                serde_saphyr::from_multiple(&rendered.files[0].text).expect("YAML");
            for object in objects.iter().filter(|object| object["kind"] == "EnvoyFilter") {
                assert_eq!(object["spec"]["priority"], 100, "{placement}");
                let ways = ["workloadSelector", "targetRefs"]
                    .into_iter()
                    .filter(|way| object["spec"].get(way).is_some());
                assert!(ways.eq([chooses]), "{placement}: {object:#}");
            }
        }
    }
}

/// The order of the directions does not matter. Each route has a patch.
#[test]
fn the_frame_filter_of_a_sidecar_is_inbound() {
    for (directions, context) in [
        ("[inbound, outbound]", "SIDECAR_INBOUND"),
        ("[outbound, inbound]", "SIDECAR_INBOUND"),
        ("[outbound]", "SIDECAR_OUTBOUND"),
    ] {
        let policy = format!(
            "module: oci://h/r:t\nnamespace: shop\nplacement: {{sidecar: {{directions: \
             {directions}}}}}\nend: {{websocket: end}}\nwebsockets: {{module: oci://h/frames:t, \
             routes: [{{name: chat}}, {{name: news}}]}}"
        );
        let object = yaml(&rendered(Kind::EnvoyFilter, &policy)[0]);
        let patches = object["spec"]["configPatches"].as_array().expect("patches").iter();
        let is_of_frames = |patch: &&Value| {
            let name = patch["patch"]["value"]["name"].as_str().unwrap_or_default();
            patch["applyTo"] == "HTTP_ROUTE"
                || patch["applyTo"] == "HTTP_FILTER" && name.ends_with(".frames")
        };
        let contexts = patches.clone().filter(is_of_frames).map(|patch| &patch["match"]["context"]);
        assert_eq!(contexts.collect::<Vec<_>>(), [context; 3], "{directions}");
        let routes = patches.filter(|patch| patch["applyTo"] == "HTTP_ROUTE");
        let names =
            routes.map(|patch| &patch["match"]["routeConfiguration"]["vhost"]["route"]["name"]);
        assert!(names.eq(["chat", "news"]), "{object:#}");
    }
}

#[test]
fn an_overlay_keeps_exit_on_zero() {
    let policy = "module: oci://h/r:t\nnamespace: edge\nplacement: {gateway_api: {gateway: \
        edge}}\ndrain: {longest_request: 60s, exit_on_zero: true}";
    let overlay = &rendered(Kind::Overlay, policy)[0].text;
    assert!(overlay.contains("name: EXIT_ON_ZERO_ACTIVE_CONNECTIONS"), "{overlay}");
}

#[test]
fn resources_of_a_class_select_it_and_its_overlay_has_its_label() {
    for (policy, file, chooses, class) in [
        (
            "placement: {gateway_api: {class: istio, disruption_budget: {minAvailable: 1}}}\n\
                gate: {enabled: false}",
            "envoyfilter.yaml",
            "gateway.networking.k8s.io/gateway-class-name: istio\n",
            "istio",
        ),
        (
            "placement: {waypoint: {class: istio-waypoint}}\ndelivery: image_volume",
            "wasmplugin.yaml",
            "kind: GatewayClass\n    name: istio-waypoint\n",
            "istio-waypoint",
        ),
    ] {
        let policy = format!("module: oci://h/r:t\nlabels: {{team: edge}}\n{policy}");
        let files = rendered(Kind::All, &policy);
        assert_eq!(names(&files), [file, "overlay.yaml", "kustomization.yaml"]);
        assert!(files[0].text.contains(chooses), "{}", files[0].text);
        let metadata = &yaml(&files[1])["metadata"];
        let labels = json!({ "team": "edge", "gateway.istio.io/defaults-for-class": class });
        assert_eq!(metadata["labels"], labels);
        assert_eq!(metadata["namespace"], "istio-system");
        let has_gate = !policy.contains("enabled: false");
        assert_eq!(files[1].text.contains("preStop"), has_gate, "{policy}");
    }
}

/// The fields of the module stand in a section of a TrafficExtension.
#[test]
fn from_istio_1_30_on_a_plugin_is_a_traffic_extension() {
    let policy = "module: oci://h/r:t\npull_secret: s\nplacement: {sidecar: {native: true}}\n";
    let documents = |istio: &str| {
        let files = rendered(Kind::WasmPlugin, &format!("{policy}{istio}"));
        let file = files.first().expect("a file");
        let documents: Vec<Value> = serde_saphyr::from_multiple(&file.text).expect("YAML");
        (file.name.clone(), documents)
    };
    let (name, old) = documents("istio: 1.29");
    assert_eq!((name.as_str(), old.len()), ("wasmplugin.yaml", 2));
    assert_eq!(documents("").1, old);
    let (name, new) = documents("istio: 1.30.2");
    assert_eq!(name, "trafficextension.yaml");
    for (old, new) in old.iter().zip(&new) {
        assert_eq!([&old["kind"], &new["kind"]], ["WasmPlugin", "TrafficExtension"]);
        assert_eq!(old["metadata"], new["metadata"]);
        let mut spec = new["spec"].clone();
        let wasm = spec.as_object_mut().and_then(|spec| spec.remove("wasm")).expect("wasm");
        for (field, value) in old["spec"].as_object().expect("fields") {
            let is_own = ["match", "phase", "selector"].contains(&field.as_str());
            assert_eq!(if is_own { &spec[field] } else { &wasm[field] }, value, "{field}");
        }
    }
}

#[test]
fn a_waypoint_without_a_file_has_no_gate() {
    let policy = "namespace: shop\nmodule: oci://h/r:t\nplacement: {waypoint: {gateway: w}}";
    assert_eq!(names(&rendered(Kind::All, policy)), ["wasmplugin.yaml", "kustomization.yaml"]);
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

#[test]
fn held_requests_time_out_and_envoys_drain_outlasts_the_gates() {
    for (longest, idle, drain) in [
        ("20s", "33s", None),
        ("60s", "73s", Some("95s")),
        ("600s", "613s", Some("905s")),
        ("1500ms", "15s", None),
    ] {
        let policy = format!("module: oci://h/r:t\ndrain: {{longest_request: {longest}}}");
        let listener = &patches(&policy)["LISTENER"][0];
        let manager = listener.pointer("/filter_chains/0/filters/0/typed_config");
        assert_eq!(manager.expect("a manager")["stream_idle_timeout"], idle, "{policy}");
        let values = yaml(&rendered(Kind::ProxyConfig, &policy)[0]);
        let config: Option<Value> = values["podAnnotations"]["proxy.istio.io/config"]
            .as_str()
            .map(|text| serde_saphyr::from_str(text).expect("YAML"));
        let found = config.as_ref().and_then(|config| config["drainDuration"].as_str());
        assert_eq!(found, drain, "{values:#}");
    }
}

/// `pilot-agent wait` can send the secret only in the URL, and cannot read a file that Envoy reads.
#[test]
fn hooks_send_the_secret() {
    const BY_ENVIRONMENT: &str = "gate: {secret: {environment: GATE_SECRET}}";
    const BY_SDS: &str = "gate: {secret: {sds: /etc/laststream/sds.yaml}}";
    let text = |kind, policy: &str| {
        let policy = self::policy(&format!("module: oci://h/r:floating\n{policy}"));
        render(kind, &policy, &|_, _| Ok(DIGEST.into()))
    };
    let hook = Kind::Lifecycle; // of a gateway: in its chart
    let values = yaml(&text(hook, BY_ENVIRONMENT).expect("a hook").files[0]);
    let command = &values["lifecycle"]["preStop"]["exec"]["command"];
    assert_eq!((&command[0], &command[1]), (&json!("sh"), &json!("-c")), "{values:#}");
    let line = command[2].as_str().expect("a line");
    let begin = "exec pilot-agent wait --url=\"http://127.0.0.1:16091/prestop?wait=10s&secret=\
        $GATE_SECRET\" ";
    assert!(line.starts_with(begin), "{line}");
    assert!(text(hook, BY_SDS).expect_err("no hook").to_string().contains("--secret-file"));
    let all = text(Kind::All, BY_SDS).expect("the rest");
    assert!(all.warnings.join("\n").contains("--secret-file"), "{:?}", all.warnings);
    assert!(!all.files.iter().any(|file| file.name.starts_with("lifecycle")));
}
