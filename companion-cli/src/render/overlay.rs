//! The ConfigMap that istiod merges over the Deployment that it makes for a Gateway of the Gateway
//! API: stop hook, grace period, annotations; an autoscaler and a disruption budget if the policy
//! has them.

use super::hook::{pre_stop, why_grace};
use super::image_volume::pull_secrets;
use super::volume::Volume;
use super::{File, has_hook, metadata, objects, other, proxy_config};
use crate::policy::file::{GatewayApi, Placement};
use crate::policy::{ModuleLocation, Policy, PolicyProblem};
use crate::yaml::{self, List, Map, Node};

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

const WHY_VOLUME: &str = "The module. An API server below 1.35 without the feature gate \
    `ImageVolume` drops the volume and its mount, and istiod says nothing; the new pods then never \
    become ready.";

pub(super) fn render(
    policy: &Policy,
    source: Option<&ModuleLocation>,
) -> Result<Vec<File>, PolicyProblem> {
    let Placement::GatewayApi(api) = &policy.placement else {
        return Err(PolicyProblem::new(
            "placement",
            "is not a Gateway of the Gateway API, whose Deployment Istio makes: write `placement: \
                {gateway_api: {gateway: NAME}}`",
        ));
    };
    let name = format!("{}-overlay", policy.name);
    let mut data = Map::new().with("deployment", block(&deployment(policy, api, source)?));
    for (key, spec) in [
        ("horizontalPodAutoscaler", &api.autoscaler),
        ("podDisruptionBudget", &api.disruption_budget),
    ] {
        if let Some(spec) = spec {
            data = data
                .note("Istio makes this object because the key is here.")
                .with(key, block(&Map::new().with("spec", Node::from(spec))));
        }
    }
    let object = Map::new()
        .with("apiVersion", "v1")
        .with("kind", "ConfigMap")
        .with("metadata", labelled(policy, api, &name))
        .with("data", data);
    let mut files = vec![objects("overlay.yaml", &about(api, &name), &[object])];
    if let Some(gateway) = &api.gateway {
        files.push(reference(gateway, &name));
    }
    Ok(files)
}

fn about(api: &GatewayApi, name: &str) -> Vec<String> {
    let how = match (&api.gateway, &api.class) {
        (Some(gateway), _) => format!(
            "istiod merges it over the Deployment of the Gateway `{gateway}` once the Gateway \
                names it: kubectl patch gateway {gateway} --type merge --patch-file \
                gateway.patch.yaml. The pods are then replaced."
        ),
        (None, class) => format!(
            "The default of all Gateways of the class `{}`, by its label. istiod merges it over \
                their Deployments at once, so their pods are replaced. A Gateway's own ConfigMap \
                is merged after `{name}`.",
            class.as_deref().unwrap_or_default()
        ),
    };
    vec![how, ERRORS.to_owned()]
}

fn labelled(policy: &Policy, api: &GatewayApi, name: &str) -> Map {
    match &api.class {
        None => metadata(policy, name),
        Some(class) => {
            let labels = policy.labels.iter().map(|(key, value)| (key, value.as_str()));
            let own: Map = labels.collect();
            Map::new()
                .with("name", name)
                .with_some("namespace", policy.namespace.as_deref())
                .with("labels", own.with(CLASS_LABEL, class.as_str()))
        }
    }
}

fn deployment(
    policy: &Policy,
    api: &GatewayApi,
    source: Option<&ModuleLocation>,
) -> Result<Map, PolicyProblem> {
    let volume = source.and_then(Volume::of_module);
    let has_something = policy.gate_port.is_some() || policy.exit_on_zero || volume.is_some();
    if !has_something && api.is_plain() {
        return Err(PolicyProblem::new(
            "gate",
            "there is none, and nothing else is to be merged over the Deployment",
        ));
    }
    let template = match proxy_config::gateway_annotations(policy) {
        Some(annotations) => {
            Map::new().with("metadata", Map::new().with("annotations", annotations))
        }
        None => Map::new(),
    };
    let template = template.with("spec", pod(policy, volume.as_ref()));
    Ok(Map::new().with("spec", Map::new().with("template", template)))
}

/// The spec of the Deployment's pods.
fn pod(policy: &Policy, volume: Option<&Volume>) -> Map {
    let mut container = Map::new().with("name", "istio-proxy");
    let mut pod = Map::new();
    if policy.exit_on_zero {
        container = container
            .note("Here, because the agent of a gateway takes no environment from its annotation.")
            .with("env", exit_on_zero(policy));
    }
    if let Some(port) = policy.gate_port.filter(|_| has_hook(policy)) {
        let hook = OTHER_HOOKS
            .into_iter()
            .fold(Map::new().note(WHY_NULL), |hook, kind| hook.with(kind, Node::Null))
            .with("exec", pre_stop(port, policy));
        container = container.with("lifecycle", Map::new().with("preStop", hook));
        pod = pod
            .note(why_grace(policy))
            .with("terminationGracePeriodSeconds", policy.sizing.grace_period.whole_seconds());
    }
    if let Some(volume) = volume {
        container = container.with("volumeMounts", List::new().item(volume.mount()));
        pod = pod
            .note(WHY_VOLUME)
            .with("volumes", List::new().item(volume.item()))
            .with_some("imagePullSecrets", pull_secrets(policy));
    }
    pod.note("The name of the proxy's container in what Istio makes.")
        .with("containers", List::new().item(container))
}

fn exit_on_zero(policy: &Policy) -> List {
    let variable = |name: &str, value: String| Map::new().with("name", name).with("value", value);
    List::new()
        .item(variable("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", "true".into()))
        .item(variable("MINIMUM_DRAIN_DURATION", policy.sizing.agent.rounded_up().to_string()))
}

/// The patch that makes a Gateway name the ConfigMap.
fn reference(gateway: &str, name: &str) -> File {
    let about = [format!(
        "A patch for the Gateway: kubectl patch gateway {gateway} --type merge --patch-file \
            gateway.patch.yaml. Or write these lines into its manifest."
    )];
    let parameters = Map::new()
        .note("The core group: ConfigMaps are the only kind that Istio takes.")
        .with("group", "")
        .with("kind", "ConfigMap")
        .with("name", name);
    let spec = Map::new().with("infrastructure", Map::new().with("parametersRef", parameters));
    other("gateway.patch.yaml", &about, Map::new().with("spec", spec))
}

fn block(map: &Map) -> Node {
    Node::Block(yaml::write_map(map).trim_end().to_owned())
}
