//! The gate as a static listener of Envoy's bootstrap: for waypoints, to which EnvoyFilters do not
//! apply. It is an annotation of the pods, because that changes together with them, and needs
//! no object beside the overlay.

use super::parts;
use super::{block, gate};
use crate::policy::{ModuleLocation, Policy, PolicyProblem};
use crate::yaml::{List, Map, Node};

/// The annotation of the pods with the part of the bootstrap.
pub(crate) const ANNOTATION: &str = "laststream/bootstrap";
/// The variable of Istio's agent that names a file with a part of the bootstrap.
pub(crate) const VARIABLE: &str = "ISTIO_BOOTSTRAP_OVERRIDE";

const VOLUME: &str = "laststream-bootstrap";
const FOLDER: &str = "/etc/laststream-bootstrap";
const FILE: &str = "bootstrap.yaml";

/// The listener, as text.
pub(super) fn annotation(
    policy: &Policy,
    port: u16,
    source: &ModuleLocation,
) -> Result<Node, PolicyProblem> {
    if source.path().is_none() {
        return Err(PolicyProblem::new(
            "module",
            "is no file in the waypoint, and no agent fetches a module for the bootstrap: write \
                `delivery: image_volume`",
        ));
    }
    let role = parts::gate_role(policy);
    let filter = parts::filter(&role, policy, source);
    let listener = gate::listener(role.name, port, policy, filter);
    let listeners = Map::new().note("Added to Istio's own.").with("listeners", List::of(listener));
    Ok(block(&Map::of("static_resources", listeners)))
}

/// `env` of the container.
pub(super) fn variable() -> Map {
    Map::new()
        .note("The agent merges this file into Envoy's bootstrap. If it cannot, it only logs that.")
        .with("name", VARIABLE)
        .with("value", format!("{FOLDER}/{FILE}"))
}

/// The item of the pod's `volumes`: the annotation as a file.
pub(super) fn volume() -> Map {
    let field = Map::of("fieldPath", format!("metadata.annotations['{ANNOTATION}']"));
    let item = Map::of("path", FILE).with("fieldRef", field);
    Map::of("name", VOLUME)
        .note("The annotation as a file.")
        .with("downwardAPI", Map::of("items", List::of(item)))
}

/// The item of the container's `volumeMounts`.
pub(super) fn mount() -> Map {
    Map::of("name", VOLUME).with("mountPath", FOLDER).with("readOnly", true)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::ANNOTATION;
    use crate::render::{Kind, tests};

    fn files(placement: &str, more: &str) -> Vec<(String, Value)> {
        let policy = format!(
            "namespace: shop\nmodule: oci://h/r:t\nplacement: {{waypoint: {{{placement}}}}}\n{more}"
        );
        let files = tests::rendered(Kind::All, &policy);
        files.iter().map(|file| (file.name.clone(), tests::yaml(file))).collect()
    }

    fn read(text: &Value) -> Value {
        serde_saphyr::from_str(text.as_str().expect("a text")).expect("YAML")
    }

    #[test]
    fn the_gate_of_a_waypoint_is_an_annotation_that_envoy_reads_as_a_file() {
        let files = files("gateway: w", "delivery: image_volume\npull_secret: registry\n");
        let names: Vec<&str> = files.iter().map(|(name, _)| &**name).collect();
        let expected = ["wasmplugin.yaml", "overlay.yaml", "gateway.patch.yaml"];
        assert_eq!(names, [&expected[..], &["kustomization.yaml"]].concat());
        let template = &read(&files[1].1["data"]["deployment"])["spec"]["template"];
        let pod = &template["spec"];
        let item = &pod["volumes"][0]["downwardAPI"]["items"][0];
        let field = format!("metadata.annotations['{ANNOTATION}']");
        assert_eq!(item["fieldRef"]["fieldPath"], field);
        let mounts = &pod["containers"][0]["volumeMounts"];
        let path = |mount: &Value, file: &str| {
            format!("{}/{file}", mount["mountPath"].as_str().expect("a path"))
        };
        let file = path(&mounts[0], item["path"].as_str().expect("a file"));
        assert_eq!(pod["containers"][0]["env"][0]["value"], file);
        for (volume, mount) in [(0, 0), (1, 1)] {
            assert_eq!(pod["volumes"][volume]["name"], mounts[mount]["name"]);
        }
        assert_eq!(pod["imagePullSecrets"][0]["name"], "registry");
        let listener = &read(&template["metadata"]["annotations"][ANNOTATION])["static_resources"]
            ["listeners"][0];
        let filters = &listener["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"];
        let config = &filters[1]["typed_config"]["config"];
        let code = &config["vm_config"]["code"]["local"]["filename"];
        assert_eq!(*code, path(&mounts[1], "plugin.wasm"));
        assert_eq!(config["vm_config"].get("vm_id"), None, "Istio gives a WasmPlugin's VM none");
        let gate: Value =
            serde_json::from_str(config["configuration"]["value"].as_str().expect("a text"))
                .expect("JSON");
        assert_eq!(gate["gate"]["admin"], json!({ "tunnels": ["connect_terminate"] }));
        let plugin = &files[0].1["spec"];
        assert_eq!(plugin["url"], format!("file://{}", code.as_str().expect("a path")));
        assert_eq!((plugin.get("imagePullSecret"), plugin.get("sha256")), (None, None));
    }

    #[test]
    fn all_waypoints_are_chosen_by_their_class() {
        let files = files("class: istio-waypoint", "delivery: image_volume\n");
        let names: Vec<&str> = files.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["wasmplugin.yaml", "overlay.yaml", "kustomization.yaml"]);
        let target = &files[0].1["spec"]["targetRefs"][0];
        assert_eq!(
            (&target["kind"], &target["name"]),
            (&json!("GatewayClass"), &json!("istio-waypoint"))
        );
        let labels = &files[1].1["metadata"]["labels"];
        assert_eq!(labels["gateway.istio.io/defaults-for-class"], "istio-waypoint");
    }

    #[test]
    fn without_a_file_there_is_no_gate() {
        let files = files("gateway: w", "");
        let names: Vec<&str> = files.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["wasmplugin.yaml", "kustomization.yaml"]);
    }
}
