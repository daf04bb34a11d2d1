//! What the volume with the module's image needs in every placement.

use super::volume::Volume;
use laststream_base::yaml::{List, Map};
use laststream_policy::{Policy, PolicyProblem, Resolve};

pub(super) const WHERE: &str = "Needs Kubernetes 1.35, or 1.33 with the feature gate `ImageVolume` \
    on API server and kubelet, and containerd 2.1. With the gate off the API server drops the \
    volume and its mount without an error; the proxy then refuses its listeners and never \
    becomes ready.";

pub(super) const UPDATE: &str = "Another module is another digest here, so the pods are replaced: \
    a running proxy keeps the module that it began with.";

/// The volumes with the policy's modules; an error if there is none.
pub(super) fn volumes(policy: &Policy, resolve: Resolve<'_>) -> Result<Vec<Volume>, PolicyProblem> {
    let volumes = Volume::of_modules(policy, resolve)?;
    if volumes.is_empty() {
        return Err(PolicyProblem::new(
            "delivery",
            "is not `image_volume`, so kubelet mounts nothing: write `delivery: image_volume`",
        ));
    }
    Ok(volumes)
}

/// The pod's `imagePullSecrets`, with which kubelet pulls a volume's image.
pub(super) fn pull_secrets(policy: &Policy) -> Option<List> {
    let secret = policy.file.pull_secret.as_deref()?;
    Some(List::of(Map::of("name", secret)))
}

pub(super) const WHY_SECRET: &str =
    "Kubelet pulls the image of a volume with the pod's own secrets.";
