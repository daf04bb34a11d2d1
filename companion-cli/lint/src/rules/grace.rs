//! LS55x: times that must fit together: grace periods, deadlines, the agent's drain. This file
//! checks the agent's settings: LS554 to LS556, LS559.

pub(super) mod deadlines;
mod requests;

use crate::finding::Rule;
use crate::finding::{Findings, Severity};
use crate::inputs::Inputs;
use crate::node::Node;
use crate::objects::{Object, object_of};
use crate::pods::{Pod, pod_around, pods};
use crate::reach::ProxySelector;
use crate::split_pods::SplitPods;
use deadlines::{
    drain_below_deadline, grace_below_deadline, grace_below_hook, hook_below_deadline,
};
use laststream_base::time_span::milliseconds;
use requests::request_beyond_grace;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "LS551",
        severity: Severity::Error,
        title: "the grace period is over before the gate's deadline",
        why: "kubelet counts the hook into the grace period. When that is over, SIGTERM and \
            SIGKILL come while the gate still holds, and nothing that the gate does at its \
            deadline is done.",
        fix: "Make terminationGracePeriodSeconds the deadline and 7 s more (5 s for the agent, 2 s \
            for kubelet), or the deadline shorter.",
        check: grace_below_deadline,
    },
    Rule {
        code: "LS552",
        severity: Severity::Error,
        title: "the hook may take longer than the grace period",
        why: "kubelet gives up waiting at the end of the grace period and leaves 2 s for SIGTERM; \
            what is in flight then is cut.",
        fix: "Raise terminationGracePeriodSeconds above the hook's longest time and what comes \
            after it, or shorten the hook.",
        check: grace_below_hook,
    },
    Rule {
        code: "LS553",
        severity: Severity::Warning,
        title: "the hook gives up before the gate does",
        why: "`pilot-agent wait` ends after --timeoutSeconds, 60 when it is not written, and \
            SIGTERM follows: streams that the gate would have held are cut.",
        fix: "Make --timeoutSeconds longer than the gate's deadline.",
        check: hook_below_deadline,
    },
    Rule {
        code: "LS554",
        severity: Severity::Warning,
        title: "EXIT_ON_ZERO_ACTIVE_CONNECTIONS has no deadline",
        why: "It waits for connections, not for requests: an idle keep-alive connection, or one of \
            the proxy's own pool, holds the pod until SIGKILL. Nothing but the grace period ends \
            it, and missing statistics end the proxy at once.",
        fix: "Count streams with laststream's gate: it has a deadline. Or set \
            terminationGracePeriodSeconds of these pods on purpose.",
        check: exit_on_zero,
    },
    Rule {
        code: "LS555",
        severity: Severity::Warning,
        title: "the setting does nothing with native sidecars",
        why: "A native sidecar is drained by Istio's own hook and gets SIGTERM when the app has \
            gone; the agent then ends at once. EXIT_ON_ZERO_ACTIVE_CONNECTIONS, \
            MINIMUM_DRAIN_DURATION and terminationDrainDuration are not looked at, unless the \
            proxy has another hook. Native is the default from Istio 1.27 on with Kubernetes 1.33.",
        fix: "Remove the setting, or write `sidecar.istio.io/nativeSidecar: \"false\"`. For \
            requests that begin while the app goes, hold with the gate.",
        check: with_native_sidecar,
    },
    Rule {
        code: "LS556",
        severity: Severity::Error,
        title: "the agent drains for longer than the pod may live",
        why: "After SIGTERM the agent waits for terminationDrainDuration or \
            MINIMUM_DRAIN_DURATION; kubelet kills it when the grace period is over.",
        fix: "Raise terminationGracePeriodSeconds above it, with a few seconds to spare.",
        check: agent_beyond_grace,
    },
    Rule {
        code: "LS557",
        severity: Severity::Warning,
        title: "requests may take longer than the pod may live",
        why: "A route's time-out says how long a request is allowed to take. When the pod that \
            serves it, or the gateway that it comes through, is stopped, it has the grace period \
            and no more.",
        fix: "Raise terminationGracePeriodSeconds above the time-out and what the drain needs, or \
            shorten the time-out.",
        check: request_beyond_grace,
    },
    Rule {
        code: "LS558",
        severity: Severity::Warning,
        title: "Envoy's drain time is too short for the gate's deadline",
        why: "In the last third of its drain time (Istio's drainDuration; 45 s when it is not \
            written) Envoy after 1.40 resets WebSockets, other upgrades and CONNECT tunnels, also \
            those that the gate still waits for. The tunnels of ambient mode (HBONE) are among \
            them, with the requests in them. Other requests complete.",
        fix: "Write `drainDuration` in the annotation proxy.istio.io/config of the pods: 1.5 times \
            the gate's deadline, or more. `laststream render proxy-config` does.",
        check: drain_below_deadline,
    },
    Rule {
        code: "LS559",
        severity: Severity::Info,
        title: "EXIT_ON_ZERO_ACTIVE_CONNECTIONS counts connections until the grace period is over",
        why: "It waits for connections, not for requests: an idle keep-alive connection, a tunnel, \
            or a connection of the app's own holds the pod for the whole grace period, and what is \
            in flight then is cut.",
        fix: "Nothing, if that is what you want. laststream's gate waits for requests, and has a \
            deadline before the end of the grace period.",
        check: exit_on_zero_with_grace,
    },
];

const EXIT_ON_ZERO: &str = "EXIT_ON_ZERO_ACTIVE_CONNECTIONS";
const MINIMUM: &str = "MINIMUM_DRAIN_DURATION";
const DURATION: &str = "terminationDrainDuration";

/// The values of a setting of the agent, given as a key or as an environment variable.
pub(super) fn settings<'g>(
    inputs: &'g Inputs,
    name: &'static str,
) -> impl Iterator<Item = Node<'g>> {
    let variables = inputs
        .keyed("env")
        .flat_map(Node::items)
        .filter(move |variable| variable.text_of("name") == Some(name));
    inputs.keyed(name).chain(variables.filter_map(|variable| variable.get("value")))
}

/// The values that turn the setting on, and whether its pod sets a grace period. If the pod is
/// unknown, any pod of the files counts.
fn exits_on_zero<'g>(
    inputs: &'g Inputs,
    parts: &SplitPods<'g>,
) -> impl Iterator<Item = (Node<'g>, bool)> {
    let sized = pods(inputs).any(|pod| pod.grace().is_some());
    settings(inputs, EXIT_ON_ZERO)
        .filter(|node| node.is_true())
        .map(move |node| (node, pod_around(node).map_or(sized, |pod| parts.grace(pod).is_some())))
}

fn exit_on_zero<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let parts = SplitPods::of(inputs);
    for (node, _) in exits_on_zero(inputs, &parts).filter(|(_, deliberate)| !deliberate) {
        let what = if pod_around(node).is_some() {
            "the pod does not set"
        } else {
            "no pod of these files sets"
        };
        findings.at(
            node,
            format!("{what} terminationGracePeriodSeconds: SIGKILL after 30 s is the only end"),
        );
    }
}

fn exit_on_zero_with_grace<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let parts = SplitPods::of(inputs);
    for (node, _) in exits_on_zero(inputs, &parts).filter(|(_, deliberate)| *deliberate) {
        if !pod_around(node).is_some_and(|pod| is_drained_by_istio(inputs, &parts, pod)) {
            findings.at(node, "a connection without a request holds the pod, too");
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
    let said = pod.annotation("sidecar.istio.io/nativeSidecar").and_then(Node::text);
    !pod.is_gateway() && said.map_or(by_default, |said| said == "true")
}

pub(super) fn with_native_sidecar<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let parts = SplitPods::of(inputs);
    for node in
        [EXIT_ON_ZERO, MINIMUM, DURATION].into_iter().flat_map(|name| settings(inputs, name))
    {
        let Some(pod) = pod_around(node).filter(|pod| !pod.is_gateway()) else { continue };
        let off = node.text().is_some_and(|text| text == "false");
        if !off && is_drained_by_istio(inputs, &parts, pod) {
            let name = node
                .key_text()
                .filter(|key| *key != "value")
                .or_else(|| node.parent()?.get("name")?.text())
                .unwrap_or_default();
            findings.at(
                node,
                format!(
                    "`{name}` is not looked at: the sidecar of `{}` is a native one",
                    pod.object.name()
                ),
            );
        }
    }
}

fn agent_beyond_grace<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let parts = SplitPods::of(inputs);
    for node in [MINIMUM, DURATION].into_iter().flat_map(|name| settings(inputs, name)) {
        let Some(time) = node.text().and_then(milliseconds) else { continue };
        let is_short = |(_, grace): &(String, u64)| grace.saturating_mul(1000) <= time;
        if let Some((pod, grace)) = concerned(inputs, &parts, node).into_iter().find(is_short) {
            findings.at(
                node,
                format!("the agent waits {} s, and {pod} has {grace} s of grace", time / 1000),
            );
        }
    }
}

/// The pods whose agents get a setting: their names as text for a message, and their grace periods
/// in seconds.
fn concerned<'g>(inputs: &'g Inputs, parts: &SplitPods<'g>, node: Node<'g>) -> Vec<(String, u64)> {
    let holder = node.outermost();
    let is_of_mesh = node.upwards().any(|node| node.key_text() == Some("defaultConfig"));
    let all: Vec<Pod<'g>> = match (pod_around(node), object_of(holder)) {
        (Some(pod), _) => vec![pod],
        (None, _) if is_of_mesh => pods(inputs).collect(),
        (None, Some(object)) if CHARTS.contains(&object.kind) => return grace_in_values(node),
        (None, Some(object)) if object.kind == "ProxyConfig" => {
            let selected = ProxySelector::of_plugin(object);
            pods(inputs).filter(|pod| selected.may_select(inputs, *pod)).collect()
        }
        (None, Some(object)) if object.kind == "Service" => return grace_of_knative(object),
        (None, Some(object)) => parts.of_object(object).collect(),
        (None, None) => return grace_in_values(node),
    };
    let named = |pod: Pod<'g>| (format!("`{}`", pod.object.name()), parts.grace_seconds(pod));
    all.into_iter().filter(|pod| pod.has_proxy()).map(named).collect()
}

/// Kinds of objects that contain the values of a chart.
const CHARTS: [&str; 3] = ["HelmRelease", "Application", "ApplicationSet"];

/// The grace period that a Service of Knative gives its pods: the time-out of their requests.
fn grace_of_knative(service: Object<'_>) -> Vec<(String, u64)> {
    let seconds = service.node.fields("spec.template.spec.timeoutSeconds").and_then(Node::number);
    seconds.map(|seconds| (format!("`{}`", service.name()), seconds)).into_iter().collect()
}

/// The grace period that the values of a chart give its pod.
fn grace_in_values(node: Node<'_>) -> Vec<(String, u64)> {
    let grace = node.outwards().find_map(|map| map.get("terminationGracePeriodSeconds"));
    let grace = grace.and_then(Node::number);
    grace.map(|grace| ("the pod".to_owned(), grace)).into_iter().collect()
}
