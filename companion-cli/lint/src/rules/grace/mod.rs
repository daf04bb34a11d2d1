//! LS55x and LS560: times that must fit together: grace periods, deadlines, the agent's drain. This
//! file checks the agent's settings: LS554 to LS556, LS564.

pub(super) mod deadlines;
mod load_balancers;
mod requests;

use deadlines::{
    agent_below_deadline, drain_below_deadline, grace_below_deadline, grace_below_hook,
    hook_below_deadline,
};
use laststream_policy::KUBELET;
use load_balancers::load_balancer_beyond_gate;
use manifest_lint::{
    Checks, DEFAULT_GRACE, Findings, Inputs, Node, Object, Pod, ProxySelector, Selected, SplitPods,
    object_of, pod_around, pods,
};
use requests::request_beyond_grace;

pub(super) const CHECKS: Checks = &[
    ("LS551", grace_below_deadline),
    ("LS552", grace_below_hook),
    ("LS553", hook_below_deadline),
    ("LS554", exit_on_zero),
    ("LS555", with_native_sidecar),
    ("LS556", agent_beyond_grace),
    ("LS557", request_beyond_grace),
    ("LS558", drain_below_deadline),
    ("LS560", agent_below_deadline),
    ("LS564", without_unit),
    ("LS565", load_balancer_beyond_gate),
];

const EXIT_ON_ZERO: &str = "EXIT_ON_ZERO_ACTIVE_CONNECTIONS";
const MINIMUM: &str = "MINIMUM_DRAIN_DURATION";
const DURATION: &str = "terminationDrainDuration";

/// The values of these settings of the agent, given as keys or as environment variables.
pub(super) fn settings<'g>(
    inputs: &'g Inputs,
    names: &'static [&'static str],
) -> impl Iterator<Item = Node<'g>> {
    let is_one = move |variable: &Node<'g>| {
        variable.text_of("name").is_some_and(|name| names.contains(&name))
    };
    let variables = inputs.keyed("env").flat_map(Node::items).filter(is_one);
    let keys = names.iter().flat_map(move |name| inputs.keyed(name));
    keys.chain(variables.filter_map(|variable| variable.get("value")))
}

/// If the pod is unknown, any pod of the files counts.
fn exit_on_zero<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let parts = SplitPods::of(inputs);
    let sized = pods(inputs).any(|pod| pod.grace().is_some());
    for node in settings(inputs, &[EXIT_ON_ZERO]).filter(|node| node.is_true()) {
        let (is_sized, subject) = match pod_around(node) {
            Some(pod) => (parts.grace(pod).is_some(), "the pod does not set"),
            None => (sized, "no pod of these files sets"),
        };
        if !is_sized {
            let end = "SIGKILL after 30 s is the only end";
            findings.at(node, format!("{subject} terminationGracePeriodSeconds: {end}"));
        }
    }
}

/// Whether Istio's own hook drains the agent before SIGTERM, which it does in native sidecars.
fn is_drained_by_istio<'g>(inputs: &'g Inputs, parts: &SplitPods<'g>, pod: Pod<'g>) -> bool {
    is_native(inputs, pod) && !parts.with_others(pod).into_iter().any(Pod::has_own_hook)
}

/// Whether Istio injects the pod's sidecar as an init container.
fn is_native(inputs: &Inputs, pod: Pod<'_>) -> bool {
    let by_default = inputs.assume.istio.is_some_and(|version| version >= (1, 27))
        && inputs.assume.kubernetes.is_none_or(|version| version >= (1, 33));
    let annotation = pod.annotation("sidecar.istio.io/nativeSidecar").and_then(Node::text);
    !pod.is_gateway() && annotation.map_or(by_default, |said| said == "true")
}

pub(super) fn with_native_sidecar<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let parts = SplitPods::of(inputs);
    for node in settings(inputs, &[EXIT_ON_ZERO, MINIMUM, DURATION]) {
        let Some(pod) = pod_around(node).filter(|pod| !pod.is_gateway()) else { continue };
        let off = node.text().is_some_and(|text| text == "false");
        if !off && is_drained_by_istio(inputs, &parts, pod) {
            let name = node
                .key_text()
                .filter(|key| *key != "value")
                .or_else(|| node.parent()?.get("name")?.text())
                .unwrap_or_default();
            let pod = pod.object.name();
            let message = format!("`{name}` has no effect: `{pod}` has a native sidecar");
            findings.at(node, message);
        }
    }
}

/// Times in the annotation of a pod, or in the mesh's settings, that are numbers alone. The API
/// server does not read them.
fn without_unit<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let times = [DURATION, "drainDuration"].into_iter().flat_map(|name| inputs.keyed(name));
    for node in times.filter(is_number_of_istio) {
        let text = node.text().unwrap_or_default();
        findings.at(node, format!("`{text}` has no unit: write `{text}s`"));
    }
}

fn is_number_of_istio(node: &Node<'_>) -> bool {
    let annotation = node.carrier().and_then(Node::key_text);
    let is_read = annotation == Some("proxy.istio.io/config") || is_of_mesh(*node);
    is_read && node.number().is_some()
}

fn is_of_mesh(node: Node<'_>) -> bool {
    node.upwards().any(|node| node.key_text() == Some("defaultConfig"))
}

fn agent_beyond_grace<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let parts = SplitPods::of(inputs);
    for node in settings(inputs, &[MINIMUM, DURATION]) {
        let Some(time) = node.millis().filter(|_| !is_number_of_istio(&node)) else {
            continue;
        };
        let least = time.saturating_add(KUBELET.millis());
        let is_short = |(_, grace, _): &Concerned<'g>| grace.saturating_mul(1000) < least;
        let concerned = concerned(inputs, &parts, node);
        if let Some((pod, grace, place)) = concerned.into_iter().find(is_short) {
            let time = time / 1000;
            let message = format!("the agent waits {time} s, and {pod} has {grace} s of grace");
            findings.at(place, message);
        }
    }
    for pod in pods(inputs).filter(|pod| pod.has_sign_of_proxy()) {
        if let Some(grace) = pod.grace().filter(|grace| grace.number() == Some(0)) {
            let name = pod.object.name();
            findings
                .at(grace, format!("0 s of grace leave the agent of `{name}` no time to drain"));
        }
    }
}

/// A pod whose agent gets a setting: its name as text for a message, its grace period in seconds,
/// and the place of a finding. That of a setting of the mesh is at the pod.
type Concerned<'g> = (String, u64, Node<'g>);

fn concerned<'g>(inputs: &'g Inputs, parts: &SplitPods<'g>, node: Node<'g>) -> Vec<Concerned<'g>> {
    let holder = node.outermost();
    let is_of_mesh = is_of_mesh(node);
    let all: Vec<Pod<'g>> = match (pod_around(node), object_of(holder)) {
        (Some(pod), _) => vec![pod],
        (None, _) if is_of_mesh => pods(inputs).collect(),
        (None, Some(object)) if CHARTS.contains(&object.kind) => return grace_in_values(node),
        (None, Some(object)) if object.kind == "ProxyConfig" => {
            let selected = ProxySelector::of_plugin(object);
            pods(inputs).filter(|pod| selected.may_select(&Selected::of(*pod))).collect()
        }
        (None, Some(object)) if object.kind == "Service" => return grace_of_knative(object, node),
        (None, Some(object)) if object.group() == "gateway.networking.k8s.io" => {
            return grace_of_gateway(inputs, object, node);
        }
        (None, Some(object)) => parts.of_object(object).collect(),
        (None, None) => return grace_in_values(node),
    };
    let with_grace = |pod: Pod<'g>| {
        let place = if is_of_mesh { pod.grace().unwrap_or(pod.spec) } else { node };
        (format!("`{}`", pod.object.name()), parts.grace_seconds(pod), place)
    };
    all.into_iter().filter(|pod| pod.has_proxy()).map(with_grace).collect()
}

/// Kinds of objects that contain the values of a chart.
const CHARTS: [&str; 3] = ["HelmRelease", "Application", "ApplicationSet"];

/// The grace period that a Service of Knative gives its pods: the time-out of their requests.
fn grace_of_knative<'g>(service: Object<'g>, node: Node<'g>) -> Vec<Concerned<'g>> {
    let seconds = service.node.fields("spec.template.spec.timeoutSeconds").and_then(Node::number);
    seconds.map(|seconds| (format!("`{}`", service.name()), seconds, node)).into_iter().collect()
}

/// The grace period of the pods that Istio makes for a Gateway; none if an overlay may have one.
fn grace_of_gateway<'g>(
    inputs: &'g Inputs,
    gateway: Object<'g>,
    node: Node<'g>,
) -> Vec<Concerned<'g>> {
    let may_be_overlaid =
        gateway.parameters_ref().is_some() || pods(inputs).any(|pod| pod.is_overlay());
    let usual = (!may_be_overlaid).then_some(DEFAULT_GRACE);
    usual.map(|grace| (format!("`{}`", gateway.name()), grace, node)).into_iter().collect()
}

/// The grace period that the values of a chart give its pod.
fn grace_in_values(node: Node<'_>) -> Vec<Concerned<'_>> {
    let grace = node.outwards().find_map(|map| map.get("terminationGracePeriodSeconds"));
    let grace = grace.and_then(Node::number);
    grace.map(|grace| ("the pod".to_owned(), grace, node)).into_iter().collect()
}
