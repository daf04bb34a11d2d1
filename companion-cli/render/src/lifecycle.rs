//! Stop hooks that several placements have, and the hooks of Istio that they replace.

use super::deployment::Deployment;
use super::files::{File, other};
use super::hook::{lifecycle, pod_with_grace, why_grace};
use laststream_base::yaml::{List, Map};
use laststream_policy::Policy;

const NATIVE: [&str; 2] = [
    "Of Istio's own hooks it replaces the native sidecar's preStop, `pilot-agent request POST \
        drain`; the gate makes that call itself, at zero. Without any hook kubelet already \
        keeps the proxy until the app has ended: this one makes traffic leave first, counts, \
        and says why it waits.",
    "Both hooks, the app's and this one, begin at once: the app needs a preStop hook, too, if \
        it closes its listener at SIGTERM.",
];

/// A patch for pods whose proxy is an ordinary container.
pub(super) fn pod(
    policy: &Policy,
    port: u16,
    deployment: &Deployment<'_>,
    notes: [&str; 2],
) -> File {
    patch("lifecycle.pod.yaml", policy, port, deployment, notes, pod_with_grace(policy))
}

/// A patch for pods whose proxy is an init container.
pub(super) fn native_sidecar(policy: &Policy, port: u16, deployment: &Deployment<'_>) -> File {
    let pod = pod_with_grace(policy).note(
        "Here, although it becomes an init container: the webhook looks for customizations \
            among the containers, and moves this one.",
    );
    patch("lifecycle.native-sidecar.yaml", policy, port, deployment, NATIVE, pod)
}

/// Istio's webhook merges the container over the one that it injects.
fn patch(
    file: &str,
    policy: &Policy,
    port: u16,
    deployment: &Deployment<'_>,
    notes: [&str; 2],
    pod: Map,
) -> File {
    let container = Map::of("name", "istio-proxy")
        .note(
            "Istio's webhook puts the real image here; where it does not inject, the pod cannot \
            start.",
        )
        .with("image", "auto")
        .note(
            "Left out, the API server writes Always, as for every image without a tag, and each \
            start of a pod asks the registry.",
        )
        .with("imagePullPolicy", "IfNotPresent")
        .with("lifecycle", lifecycle(port, policy));
    let how = format!(
        "{}, or under `patches` of a kustomization, where a `target` may name others.",
        deployment.how_to_patch(file)
    );
    let about: Vec<String> = [how].into_iter().chain(notes.map(String::from)).collect();
    let pod = pod.with("containers", List::of(container));
    other(file, &about, deployment.patch(Map::of("spec", pod)))
}

pub(super) fn helm_values(policy: &Policy, port: u16) -> File {
    let about = [
        "Values for Istio's istiod chart. They replace Istio's own hooks in every proxy that it \
            injects or makes for a Gateway: the native sidecar's preStop (`pilot-agent request \
            POST drain`) and the postStart `pilot-agent wait` of holdApplicationUntilProxyStarts. \
            Waypoints do not get them.".to_owned(),
        "Every proxy gets it, those without a gate, too; there it waits for its time-out. So apply \
            the EnvoyFilter to the whole mesh first.".to_owned(),
        format!("Grace periods are the Deployments' own: terminationGracePeriodSeconds: {} or \
            more. {}", policy.sizing.grace_period.whole_seconds(), why_grace(policy)),
    ];
    let values = Map::of("global", Map::of("proxy", Map::of("lifecycle", lifecycle(port, policy))));
    other("lifecycle.helm-values.yaml", &about, values)
}
