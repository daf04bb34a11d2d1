//! The commands that apply a rendered folder.

use super::envoy;
use super::files::{GATEWAY_PATCH, Rendered};
use super::objects::patch_gateway;
use super::placement;
use laststream_policy::Policy;

/// Files with values of Istio's gateway chart, or patches of a sidecar's Deployment.
const OF_THE_POD: [&str; 5] = [
    "lifecycle.gateway-chart.yaml",
    "lifecycle.native-sidecar.yaml",
    "lifecycle.pod.yaml",
    "image-volume.yaml",
    "proxy-config.yaml",
];

/// The commands, in their order, for files that were written into this folder.
#[must_use]
pub fn next_steps(policy: &Policy, rendered: &Rendered, folder: &str) -> Vec<String> {
    let has = |name: &str| rendered.files.iter().any(|file| file.name == name);
    let path = |name: &str| format!("{folder}/{name}");
    let mut steps = vec![format!("laststream lint {folder}")];
    if has("kustomization.yaml") {
        steps.push(format!("kubectl apply --kustomize {folder}"));
    }
    if has("job.yaml") {
        steps.push(format!("# under `patches` of the Job's kustomization: {}", path("job.yaml")));
    }
    if has("envoy.yaml") {
        steps.push(format!("envoy -c {} {}", path("envoy.yaml"), envoy::options(policy)));
    }
    let of_the_pod: Vec<String> =
        OF_THE_POD.into_iter().filter(|name| has(name)).map(path).collect();
    let place = placement::facts(policy);
    steps.extend(place.pod.iter().flat_map(|pod| pod.steps(policy, &of_the_pod)));
    if let Some(gateway) = place.gateway.filter(|_| has(GATEWAY_PATCH)) {
        steps.push(patch_gateway(policy, gateway, &path(GATEWAY_PATCH)));
    }
    steps
}
