//! The stop hook in each of its places, and the hooks of Istio that it replaces there.

use super::hook::{self, lifecycle, pod_with_grace, why_grace};
use super::volume::Program;
use super::{File, HookPlace, in_namespace, misplaced, object, other};
use laststream_base::env_vars::LASTSTREAM_SECRET;
use laststream_base::yaml::{List, Map};
use laststream_policy::file::{GateSecret, Placement};
use laststream_policy::warnings::ROOT_NAMESPACE;
use laststream_policy::{Policy, PolicyProblem};

pub(super) fn render(policy: &Policy, home: HookPlace) -> Result<File, PolicyProblem> {
    let port = hook::port(policy)?;
    match (&policy.placement, home) {
        (Placement::Gateway(_), HookPlace::NativeSidecar) => misplaced(
            "a gateway has no app, so its proxy is no sidecar: `--for gateway-chart` or `--for \
                pod`",
        ),
        (Placement::GatewayApi(_), HookPlace::HelmValues) => Ok(helm_values(policy, port)),
        (Placement::GatewayApi(_), _) => Err(PolicyProblem::new(
            "placement.gateway_api",
            "Istio makes this gateway's Deployment, from no chart: `render overlay`",
        )),
        (Placement::Sidecar(_), HookPlace::GatewayChart) => misplaced(
            "a sidecar does not come from the gateway chart: `--for pod`, `--for native-sidecar` \
                or `--for helm-values`",
        ),
        (Placement::Gateway(_) | Placement::Sidecar(_), _) => Ok(match home {
            HookPlace::Pod => deployment(policy, port, false, "lifecycle.pod.yaml"),
            HookPlace::NativeSidecar => {
                deployment(policy, port, true, "lifecycle.native-sidecar.yaml")
            }
            HookPlace::HelmValues => helm_values(policy, port),
            HookPlace::GatewayChart => gateway_chart(policy, port),
        }),
        (Placement::Envoy(_), _) => match Program::of(policy) {
            Some(program) if home == HookPlace::Pod => plain(policy, port, &program),
            _ => Err(PolicyProblem::new(
                "program_image",
                "is required for the hook of an Envoy without a mesh, whose image has no program \
                    that could ask the gate; it has one home, `--for pod`",
            )),
        },
        _ => misplaced(
            "has no pilot-agent that could ask the gate in a stop hook: Istio's gateways and \
                sidecars have one",
        ),
    }
}

/// A patch over the Deployment; Istio's webhook merges the container over the one that it injects.
fn deployment(policy: &Policy, port: u16, is_native: bool, file: &str) -> File {
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
    let pod = pod_with_grace(policy);
    let pod = if is_native {
        pod.note(
            "Here, although it becomes an init container: the webhook looks for customizations \
                among the containers, and moves this one.",
        )
    } else {
        pod
    };
    let pod = pod.with("containers", List::of(container));
    let about = std::iter::once(format!(
        "{}, or under `patches` of a kustomization, where a `target` may name others.",
        how_to_patch(policy, file)
    ));
    let about: Vec<String> = about.chain(replaces(policy, is_native).map(String::from)).collect();
    other(file, &about, patch(policy, Map::of("spec", pod)))
}

/// A patch for the Deployment of an Envoy without a mesh.
fn plain(policy: &Policy, port: u16, program: &Program<'_>) -> Result<File, PolicyProblem> {
    if let Some(GateSecret::Environment(name)) = &policy.file.gate.secret
        && name != LASTSTREAM_SECRET
    {
        return Err(PolicyProblem::new(
            "gate.secret.environment",
            format!("the program in the hook reads `{LASTSTREAM_SECRET}`: take that name"),
        ));
    }
    let why = "One second above the gate's deadline.";
    let exec = hook::by_program(List::new(), port, why, policy);
    let volume = program.volume();
    let container = Map::new()
        .note("The name of Envoy's container.")
        .with("name", "envoy")
        .with("volumeMounts", List::of(volume.mount()))
        .with("lifecycle", Map::of("preStop", Map::of("exec", exec)));
    let pod = pod_with_grace(policy)
        .with("volumes", List::of(volume.item()))
        .with("initContainers", List::of(program.init_container()))
        .with("containers", List::of(container));
    let about = [format!(
        "{}. Envoy's own image has no program that could ask the gate, so laststream's comes with \
            it.",
        how_to_patch(policy, "lifecycle.pod.yaml")
    )];
    Ok(other("lifecycle.pod.yaml", &about, patch(policy, Map::of("spec", pod))))
}

/// The comments on Istio's own hooks that it replaces, and on its limits.
fn replaces(policy: &Policy, is_native: bool) -> impl Iterator<Item = &'static str> {
    const NATIVE: [&str; 2] = [
        "Of Istio's own hooks it replaces the native sidecar's preStop, `pilot-agent request POST \
            drain`; the gate makes that call itself, at zero. Without any hook kubelet already \
            keeps the proxy until the app has ended: this one makes traffic leave first, counts, \
            and says why it waits.",
        "Both hooks, the app's and this one, begin at once: the app needs a preStop hook, too, if \
            it closes its listener at SIGTERM.",
    ];
    const INJECTED: [&str; 2] = [
        "Of Istio's own hooks it replaces none: an injected container has no preStop, and its \
            postStart (holdApplicationUntilProxyStarts) stays. Where sidecars are native, it \
            replaces their preStop: see `--for native-sidecar`.",
        "It delays SIGTERM for the proxy only: the app gets its own at once, and must finish what \
            it has begun.",
    ];
    const GATEWAY: [&str; 2] = [
        "For a gateway with its own Deployment, with a container `istio-proxy` and the \
            image `auto`. It replaces no hook: Istio gives gateways none, unless \
            global.proxy.lifecycle does.",
        "A gateway's pod has no app that would keep it; this hook, or the agent's five seconds, is \
            all there is.",
    ];
    match (&policy.placement, is_native) {
        (Placement::Gateway(_), _) => GATEWAY,
        (_, true) => NATIVE,
        (_, false) => INJECTED,
    }
    .into_iter()
}

/// A patch of a Deployment's pods.
pub(super) fn patch(policy: &Policy, template: Map) -> Map {
    let metadata =
        Map::of("name", workload(policy)).with_some("namespace", workload_namespace(policy));
    object("apps/v1", "Deployment", metadata, Map::of("template", template))
}

/// The comment of a patch: its Deployment, and the command.
pub(super) fn how_to_patch(policy: &Policy, file: &str) -> String {
    format!("A patch for the Deployment `{}`: {}", workload(policy), patch_command(policy, file))
}

pub(super) fn patch_command(policy: &Policy, file: &str) -> String {
    let (name, place) = (workload(policy), in_namespace(workload_namespace(policy)));
    format!("kubectl{place} patch deployment {name} --patch-file {file}")
}

/// The namespace of the Deployment; none for Istio's root namespace, which is also for gateways and
/// sidecars of other namespaces.
fn workload_namespace(policy: &Policy) -> Option<&str> {
    let is_of_mesh = matches!(policy.placement, Placement::Gateway(_) | Placement::Sidecar(_));
    policy.namespace.as_deref().filter(|name| !(is_of_mesh && *name == ROOT_NAMESPACE))
}

pub(super) fn workload(policy: &Policy) -> &str {
    match &policy.placement {
        Placement::Sidecar(sidecar) => sidecar.workload.as_deref().unwrap_or(&policy.name),
        Placement::Envoy(_) => &policy.name,
        _ => "istio-ingressgateway",
    }
}

fn helm_values(policy: &Policy, port: u16) -> File {
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

/// The comment of values for the gateway chart, and the command. Without a version helm takes the
/// newest chart, and upgrades the gateway.
pub(super) fn how_to_upgrade(file: &str) -> String {
    format!(
        "Values for Istio's gateway chart: helm upgrade --reuse-values --namespace NAMESPACE \
            istio-ingressgateway istio/gateway --version CHART_VERSION -f {file} (CHART_VERSION: \
            as `helm list` shows it; without it helm also upgrades the gateway)"
    )
}

fn gateway_chart(policy: &Policy, port: u16) -> File {
    let about = [
        how_to_upgrade("lifecycle.gateway-chart.yaml"),
        "They replace no hook of Istio's: gateways have none, unless global.proxy.lifecycle gives \
            them one. A gateway's pod has no app that would keep it; this hook, or the agent's \
            five seconds, is all there is."
            .to_owned(),
    ];
    let values = pod_with_grace(policy).with("lifecycle", lifecycle(port, policy));
    other("lifecycle.gateway-chart.yaml", &about, values)
}
