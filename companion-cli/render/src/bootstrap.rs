//! The gate as a static listener of Envoy's bootstrap: for waypoints, to which EnvoyFilters do not
//! apply. It is an annotation of the pods, because that changes together with them, and needs
//! no object beside the overlay.

use super::objects::block;
use super::{gate, parts};
use laststream_base::istio::BOOTSTRAP_OVERRIDE;
use laststream_base::yaml::{List, Map, Node};
use laststream_policy::{ModuleLocation, Policy, PolicyProblem};

/// The annotation of the pods with the part of the bootstrap.
pub const ANNOTATION: &str = "laststream/bootstrap";

const VOLUME: &str = "laststream-bootstrap";
const FOLDER: &str = "/etc/laststream-bootstrap";
const FILE: &str = "bootstrap.yaml";

/// The annotation's value: the gate's listener as YAML text.
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

/// The item of the container's `env`.
pub(super) fn variable() -> Map {
    Map::new()
        .note("The agent merges this file into Envoy's bootstrap. If it cannot, it only logs that.")
        .with("name", BOOTSTRAP_OVERRIDE)
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

pub(super) fn mount() -> Map {
    Map::of("name", VOLUME).with("mountPath", FOLDER).with("readOnly", true)
}
