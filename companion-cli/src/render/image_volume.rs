//! The volume with the module's image in each of its places: the gateway chart's values, a
//! sidecar's annotations, the pod of an Envoy without a mesh. A Gateway of the Gateway API has it
//! in its overlay.

use serde_json::json;

use super::volume::Volume;
use super::{File, lifecycle, other};
use crate::policy::file::Placement;
use crate::policy::{ModuleLocation, Policy, PolicyProblem};
use crate::yaml::{List, Map};

const WHERE: &str = "Needs Kubernetes 1.35, or 1.33 with the feature gate `ImageVolume` on API server and \
    kubelet, and containerd 2.1. With the gate off the API server drops the volume and its mount \
    without a word; the proxy then refuses its listeners and never becomes ready.";

const UPDATE: &str = "Another module is another digest here, so the pods are replaced: a running \
    proxy keeps the module that it began with.";

pub(super) fn render(policy: &Policy, source: &ModuleLocation) -> Result<File, PolicyProblem> {
    let Some(volume) = Volume::of_module(source) else {
        return Err(PolicyProblem::new(
            "delivery",
            "is not `image_volume`, so kubelet mounts nothing: write `delivery: image_volume`",
        ));
    };
    match &policy.placement {
        Placement::Gateway(_) => Ok(gateway_chart(policy, &volume)),
        Placement::Sidecar(_) => Ok(sidecar(policy, source, &volume)),
        Placement::Envoy(_) => Ok(plain(policy, &volume)),
        Placement::GatewayApi(_) => Err(PolicyProblem::new(
            "placement",
            "is a Gateway of the Gateway API: `render overlay` writes its volume",
        )),
        Placement::Waypoint(_) | Placement::EnvoyGateway(_) => Err(PolicyProblem::new(
            "placement",
            "has a Deployment that a controller makes: `render all` writes its volume where that \
                controller takes it from",
        )),
    }
}

/// The pod's own secrets, which kubelet pulls a volume's image with.
pub(super) fn pull_secrets(policy: &Policy) -> Option<List> {
    let secret = policy.pull_secret.as_deref()?;
    Some(List::new().item(Map::new().with("name", secret)))
}

pub(super) const WHY_SECRET: &str =
    "Kubelet pulls the image of a volume with the pod's own secrets.";

fn gateway_chart(policy: &Policy, volume: &Volume) -> File {
    let about = [
        "Values for Istio's gateway chart: helm upgrade istio-ingressgateway istio/gateway -f \
            image-volume.yaml"
            .to_owned(),
        UPDATE.to_owned(),
        WHERE.to_owned(),
    ];
    let values = Map::new()
        .with("volumes", List::new().item(volume.item()))
        .with("volumeMounts", List::new().item(volume.mount()))
        .note(WHY_SECRET)
        .with_some("imagePullSecrets", pull_secrets(policy));
    other("image-volume.yaml", &about, values)
}

/// The annotations that Istio's webhook reads; both are JSON.
fn sidecar(policy: &Policy, source: &ModuleLocation, volume: &Volume) -> File {
    let reference = match source {
        ModuleLocation::Mounted { reference, .. } => reference.as_str(),
        _ => "",
    };
    let volumes = json!({ volume.name: {
        "image": { "reference": reference, "pullPolicy": "IfNotPresent" }
    } });
    let mounts = json!({ volume.name: { "mountPath": volume.path, "readOnly": true } });
    let annotations = Map::new()
        .note("Istio's webhook adds the volume to the pod, and the mount to the proxy alone.")
        .with("sidecar.istio.io/userVolume", volumes.to_string())
        .with("sidecar.istio.io/userVolumeMount", mounts.to_string());
    let metadata = Map::new().with("annotations", annotations);
    let secrets = pull_secrets(policy)
        .map(|secrets| Map::new().note(WHY_SECRET).with("imagePullSecrets", secrets));
    let template = Map::new().with("metadata", metadata).with_some("spec", secrets);
    let name = lifecycle::workload(policy);
    let about = [
        format!(
            "A patch for the Deployment `{name}`: kubectl patch deployment {name} --patch-file \
                image-volume.yaml. Every pod that the EnvoyFilter chooses needs it: without the \
                file a proxy refuses its listeners."
        ),
        UPDATE.to_owned(),
        WHERE.to_owned(),
    ];
    other("image-volume.yaml", &about, lifecycle::patch(policy, template))
}

fn plain(policy: &Policy, volume: &Volume) -> File {
    let container = Map::new()
        .note("The name of Envoy's container.")
        .with("name", "envoy")
        .with("volumeMounts", List::new().item(volume.mount()));
    let pod = Map::new()
        .note(WHY_SECRET)
        .with_some("imagePullSecrets", pull_secrets(policy))
        .with("volumes", List::new().item(volume.item()))
        .with("containers", List::new().item(container));
    let name = lifecycle::workload(policy);
    let about = [
        format!(
            "A patch for the Deployment `{name}`: kubectl patch deployment {name} --patch-file \
                image-volume.yaml."
        ),
        UPDATE.to_owned(),
        WHERE.to_owned(),
    ];
    other("image-volume.yaml", &about, lifecycle::patch(policy, Map::new().with("spec", pod)))
}
