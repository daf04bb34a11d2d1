//! The ConfigMap that istiod merges over the Deployment that it makes for a Gateway of the Gateway
//! API, or for a waypoint: stop hook, grace period, annotations; an autoscaler and a disruption
//! budget if the policy has them. A waypoint's gate is in it, too.

use super::bootstrap;
use super::files::{File, GATEWAY_PATCH, objects};
use super::hook::{NEEDS_SHELL, grace_without_hook, has_hook, pod_with_grace, pre_stop};
use super::image_volume::{WHY_SECRET, pull_secrets};
use super::kind::misplaced;
use super::objects::{block, gateway_patch, labelled, patch_gateway, texts, unless_empty};
use super::placement::{self, Facts};
use super::program::sidecar;
use super::proxy_config::{self, AS_WANTED, REPLACES};
use super::volume::{Program, Volume};
use laststream_base::yaml::{List, Map, Node};
use laststream_policy::file::{Delivery, GateSecret, Starts};
use laststream_policy::{Policy, PolicyProblem, Resolve};

/// The label that makes a ConfigMap in istiod's namespace the default of a class.
const CLASS_LABEL: &str = "gateway.istio.io/defaults-for-class";

/// The kinds of hook that the layers below may have.
const OTHER_HOOKS: [&str; 3] = ["httpGet", "sleep", "tcpSocket"];

const WHY_NULL: &str = "Removes a hook of another layer, such as a chart's: two kinds of hook are \
    refused, and only istiod's log says so. `$patch: replace` would not do: where no other layer \
    has a hook, it leaves none.";

const ERRORS: &str = "Istio reports a wrong overlay only in istiod's log (`error rendering \
    templates`, `apply failed`): the Gateway stays Programmed, and the former Deployment runs on. \
    `laststream lint` checks this file before.";

const WHY_GATE: &str =
    "The gate, for Envoy's bootstrap. Here, so that a changed gate replaces the pods.";

const WHY_VOLUME: &str = "The module. An API server below 1.35 without the feature gate \
    `ImageVolume` drops the volume and its mount, and istiod says nothing; the new pods then never \
    become ready.";

pub(super) fn render(policy: &Policy, resolve: Resolve<'_>) -> Result<Vec<File>, PolicyProblem> {
    let place = placement::facts(policy);
    let Some(specs) = &place.overlay else {
        return misplaced(
            "is neither a waypoint nor a Gateway of the Gateway API, whose Deployments Istio \
                makes: write `placement: {gateway_api: {gateway: NAME}}`",
        );
    };
    let name = format!("{}-overlay", policy.name);
    let of_shell = (has_hook(policy) && has_variable(policy)).then_some(NEEDS_SHELL);
    let ignores = match (of_shell, policy.file.drain.exit_on_zero) {
        (Some(shell), true) => shell.replacen("LS503", "LS503,LS554", 1),
        (Some(shell), false) => shell.to_owned(),
        (None, true) => AS_WANTED.to_owned(),
        (None, false) => String::new(),
    };
    let mut data = Map::new().note(ignores);
    data = data.with("deployment", block(&deployment(policy, &place, resolve)?));
    for (key, spec) in specs {
        data = data
            .note("Istio makes this object because the key is here.")
            .with(*key, block(&Map::of("spec", Node::from(*spec))));
    }
    let class = policy.placement.facts().class;
    let labels = texts(&policy.file.labels).with_some(CLASS_LABEL, class);
    let object = Map::of("apiVersion", "v1")
        .with("kind", "ConfigMap")
        .with("metadata", labelled(policy, &name, labels))
        .with("data", data);
    let mut files = vec![objects("overlay.yaml", &about(policy, &place, &name), &[object])];
    if let Some(gateway) = place.gateway {
        files.push(reference(policy, gateway, &name));
    }
    Ok(files)
}

fn about(policy: &Policy, place: &Facts<'_>, name: &str) -> Vec<String> {
    let how = match place.gateway {
        Some(gateway) => format!(
            "istiod merges it over the Deployment of the Gateway `{gateway}` once the Gateway \
                names it: {}. The pods are then replaced.",
            patch_gateway(policy, gateway, GATEWAY_PATCH)
        ),
        None => format!(
            "The default of all Gateways of the class `{}`, by its label. istiod merges it over \
                their Deployments at once, so their pods are replaced. A Gateway's own ConfigMap \
                is merged after `{name}`.",
            policy.placement.facts().class.unwrap_or_default()
        ),
    };
    let replaces = proxy_config::gateway_annotations(policy).map(|_| REPLACES.to_owned());
    [Some(how), replaces, Some(ERRORS.to_owned())].into_iter().flatten().collect()
}

/// The gate's secret, from a Secret that the operator makes.
fn secret(policy: &Policy, variable: &str) -> Map {
    let reference = Map::of("name", format!("{}-gate", policy.name)).with("key", "secret");
    Map::new()
        .note("Of a Secret in the Gateway's own namespace, which has to be there first.")
        .with("name", variable)
        .with("valueFrom", Map::of("secretKeyRef", reference))
}

fn has_variable(policy: &Policy) -> bool {
    matches!(policy.file.gate.secret, Some(GateSecret::Environment(_)))
}

/// Whether the pods need the overlay. A Gateway that is named can carry their annotations itself.
pub(super) fn is_needed(policy: &Policy, place: &Facts<'_>) -> bool {
    let Some(specs) = &place.overlay else { return false };
    let of_gate =
        policy.gate_port.is_some() && (policy.starts == Starts::Hook || has_variable(policy));
    of_gate
        || unless_empty(grace_without_hook(policy)).is_some()
        || policy.file.drain.exit_on_zero
        || !specs.is_empty()
        || policy.delivery == Delivery::ImageVolume
        || place.gateway.is_none() && proxy_config::gateway_annotations(policy).is_some()
}

fn deployment(
    policy: &Policy,
    place: &Facts<'_>,
    resolve: Resolve<'_>,
) -> Result<Map, PolicyProblem> {
    if !is_needed(policy, place) {
        return Err(PolicyProblem::new(
            "gate",
            "there is none, and nothing else is to be merged over the Deployment",
        ));
    }
    let mut parts = Parts::default();
    if policy.file.drain.exit_on_zero {
        parts.env = exit_on_zero(policy);
    }
    if let (Some(_), Some(GateSecret::Environment(name))) =
        (policy.gate_port, &policy.file.gate.secret)
    {
        parts.env.push(secret(policy, name));
    }
    let mut annotations = proxy_config::gateway_annotations(policy);
    let in_bootstrap = policy.placement.facts().has_gate_in_bootstrap();
    if let Some((port, program)) =
        policy.gate_port.zip(Program::of(policy)).filter(|_| policy.is_program())
    {
        parts.before = Some(List::of(sidecar(policy, &program, port, ISTIOS_ADMIN)));
        parts.pull_secrets = pull_secrets(policy);
    } else if let Some(port) = policy.gate_port.filter(|_| in_bootstrap) {
        let source = policy.source(resolve)?;
        let gate = bootstrap::annotation(policy, port, &source)?;
        let with_gate = annotations.unwrap_or_default().note(WHY_GATE);
        annotations = Some(with_gate.with(bootstrap::ANNOTATION, gate));
        parts.env.push(bootstrap::variable());
        parts.volumes = parts.volumes.item(bootstrap::volume());
        parts.mounts = parts.mounts.item(bootstrap::mount());
    }
    if policy.delivery == Delivery::ImageVolume {
        for module in Volume::of_modules(policy, resolve)? {
            parts.volumes = parts.volumes.note(WHY_VOLUME).item(module.item());
            parts.mounts = parts.mounts.item(module.mount());
        }
        parts.pull_secrets = pull_secrets(policy);
    }
    let metadata = annotations.map(|annotations| Map::of("annotations", annotations));
    let template = Map::new().with_some("metadata", metadata).with("spec", pod(policy, parts));
    Ok(Map::of("spec", Map::of("template", template)))
}

/// Envoy's admin interface in Istio's proxies.
const ISTIOS_ADMIN: &str = "127.0.0.1:15000";

/// Parts of the pod besides hook and grace period.
#[derive(Default)]
struct Parts {
    env: Vec<Map>,
    volumes: List,
    mounts: List,
    pull_secrets: Option<List>,
    /// The gate, where it is a program.
    before: Option<List>,
}

fn pod(policy: &Policy, parts: Parts) -> Map {
    let mut container = Map::of("name", "istio-proxy");
    if !parts.env.is_empty() {
        container = container
            .note("Here, because the agent of a gateway takes no environment from its annotation.")
            .with("env", parts.env.into_iter().collect::<List>());
    }
    let mut pod = grace_without_hook(policy);
    if let Some(port) = policy.gate_port.filter(|_| has_hook(policy)) {
        let hook = OTHER_HOOKS
            .into_iter()
            .fold(Map::new().note(WHY_NULL), |hook, kind| hook.with(kind, Node::Null))
            .with("exec", pre_stop(port, policy));
        container = container.with("lifecycle", Map::of("preStop", hook));
        pod = pod_with_grace(policy);
    }
    let has_volumes = parts.volumes != List::new();
    let container = container.with_some("volumeMounts", has_volumes.then_some(parts.mounts));
    pod.note(WHY_SECRET)
        .with_some("imagePullSecrets", parts.pull_secrets)
        .with_some("initContainers", parts.before)
        .note("The name of the proxy's container in what Istio makes.")
        .with("containers", List::of(container))
        .with_some("volumes", has_volumes.then_some(parts.volumes))
}

fn exit_on_zero(policy: &Policy) -> Vec<Map> {
    let variable = |name: &str, value: String| Map::of("name", name).with("value", value);
    let minimum = policy.sizing.termination_drain.to_string();
    vec![
        variable("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", "true".into()),
        variable("MINIMUM_DRAIN_DURATION", minimum),
    ]
}

/// The patch that makes a Gateway name the ConfigMap.
fn reference(policy: &Policy, gateway: &str, name: &str) -> File {
    let parameters = Map::new()
        .note("The core group: ConfigMaps are the only kind that Istio takes.")
        .with("group", "")
        .with("kind", "ConfigMap")
        .with("name", name);
    gateway_patch(policy, gateway, &[], Map::of("parametersRef", parameters))
}
