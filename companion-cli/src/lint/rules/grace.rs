//! LS55x: times that must fit together: grace periods, deadlines, the agent's drain.

use std::collections::HashMap;

use super::traffic::http_routes;
use crate::lint::finding::Rule;
use crate::lint::finding::{Findings, Severity};
use crate::lint::inputs::Inputs;
use crate::lint::listeners::{address, listener, uses};
use crate::lint::modules::{Module, gated_pods, gates};
use crate::lint::node::Node;
use crate::lint::objects::object_of;
use crate::lint::parts::Parts;
use crate::lint::pods::{DEFAULT_GRACE, Hook, Pod, pod_around, pods, stop_hooks};
use crate::lint::reach::Mesh;
use crate::time_span::milliseconds;

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
        fix: "Count streams with laststream's gate, which has a deadline; or set \
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
        why: "Envoy (after 1.40) closes connections with running streams, WebSockets too, in the \
            last third of its drain time, which is Istio's drainDuration: 45 s when it is not \
            written. Streams that the gate still waits for are cut then.",
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

/// What comes after the hook, in seconds: the agent waits 5 s, and kubelet gives 2 s. At the
/// deadline the agent has not been told to drain, because `finish` is called at zero only.
const AFTER: u64 = 7;

fn grace_below_deadline<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let parts = Parts::of(inputs);
    for (gate, pod) in gated_pods(inputs) {
        let deadline = gate.deadline_ms.div_ceil(1000);
        let needed = deadline.saturating_add(AFTER);
        let node = parts.grace(pod);
        let grace = node.and_then(Node::number).unwrap_or(DEFAULT_GRACE);
        if grace < needed {
            let place = node.unwrap_or(pod.spec);
            findings.at(
                place,
                format!(
                    "{grace} s of grace, and the gate needs {deadline} s and \
                {AFTER} s after it: write {needed}"
                ),
            );
        }
    }
}

/// How long a hook may take, in seconds, and where it says so.
fn longest<'g>(hook: Hook<'g>) -> Option<(u64, Node<'g>)> {
    if let Some(seconds) = hook.node.get("sleep").and_then(|sleep| sleep.get("seconds")) {
        return Some((seconds.number()?, seconds));
    }
    let place = hook.command()?;
    if hook.runs_agent("wait") {
        let seconds = hook.option("--timeoutSeconds").map_or(Some(60), |text| text.parse().ok())?;
        return Some((seconds, hook.item_with("--timeoutSeconds").unwrap_or(place)));
    }
    let words = hook.words();
    let after_sleep =
        words.windows(2).find(|pair| pair[0] == "sleep" || pair[0].ends_with("/sleep"))?[1];
    let seconds = milliseconds(after_sleep.trim_end_matches(';'))? / 1000;
    Some((seconds, hook.item_with("sleep").unwrap_or(place)))
}

fn grace_below_hook<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let parts = Parts::of(inputs);
    for hook in stop_hooks(inputs) {
        let Some(pod) = hook.pod() else { continue };
        let Some((seconds, place)) = longest(hook) else { continue };
        let grace = parts.grace_seconds(pod);
        if seconds >= grace {
            findings.at(
                place,
                format!("the hook may take {seconds} s, and the pod has {grace} s of grace"),
            );
        }
    }
}

fn hook_below_deadline<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let mut by_port: HashMap<u64, (Module<'g>, u64)> = HashMap::new();
    for (module, gate) in gates(inputs) {
        for (_, port) in uses(inputs, module).into_iter().filter_map(listener).filter_map(address) {
            let longest = by_port.entry(port).or_insert((module, gate.deadline_ms));
            if longest.1 < gate.deadline_ms {
                *longest = (module, gate.deadline_ms);
            }
        }
    }
    for hook in stop_hooks(inputs).filter(|hook| hook.runs_agent("wait")) {
        let Some((seconds, place)) = longest(hook) else { continue };
        let Some((module, deadline)) =
            hook.option("--url").and_then(port_of).and_then(|port| by_port.get(&port))
        else {
            continue;
        };
        if seconds.saturating_mul(1000) < *deadline {
            findings.at(
                place,
                format!(
                    "the hook waits {seconds} s, the gate `{}` up to {} s",
                    module.name(),
                    deadline.div_ceil(1000)
                ),
            );
        }
    }
}

/// The port in an URL.
fn port_of(url: &str) -> Option<u64> {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest).split(['/', '?']).next()?;
    authority.rsplit_once(':')?.1.parse().ok()
}

const EXIT_ON_ZERO: &str = "EXIT_ON_ZERO_ACTIVE_CONNECTIONS";
const MINIMUM: &str = "MINIMUM_DRAIN_DURATION";
const DURATION: &str = "terminationDrainDuration";

/// Where a setting of the agent is given a value, as a key or as an environment variable.
fn settings<'g>(inputs: &'g Inputs, name: &'static str) -> impl Iterator<Item = Node<'g>> {
    let variables = inputs
        .keyed("env")
        .flat_map(Node::items)
        .filter(move |variable| variable.text_of("name") == Some(name));
    inputs.keyed(name).chain(variables.filter_map(|variable| variable.get("value")))
}

/// Where the setting is on, and whether there is a grace period on purpose.
fn exits_on_zero<'g>(
    inputs: &'g Inputs,
    parts: &Parts<'g>,
) -> impl Iterator<Item = (Node<'g>, bool)> {
    let sized = pods(inputs).any(|pod| pod.grace().is_some());
    settings(inputs, EXIT_ON_ZERO)
        .filter(|node| node.is_true())
        .map(move |node| (node, pod_around(node).map_or(sized, |pod| parts.grace(pod).is_some())))
}

fn exit_on_zero<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let parts = Parts::of(inputs);
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
    let parts = Parts::of(inputs);
    for (node, _) in exits_on_zero(inputs, &parts).filter(|(_, deliberate)| *deliberate) {
        if !pod_around(node).is_some_and(|pod| is_drained_by_istio(inputs, &parts, pod)) {
            findings.at(node, "a connection without a request holds the pod, too");
        }
    }
}

/// Whether Istio's own hook drains the agent before SIGTERM, which it does in native sidecars.
fn is_drained_by_istio<'g>(inputs: &'g Inputs, parts: &Parts<'g>, pod: Pod<'g>) -> bool {
    is_native(inputs, pod) && !parts.with_others(pod).into_iter().any(Pod::has_own_hook)
}

fn is_native(inputs: &Inputs, pod: Pod<'_>) -> bool {
    let by_default = inputs.assume.istio.is_some_and(|version| version >= (1, 27))
        && inputs.assume.kubernetes.is_none_or(|version| version >= (1, 33));
    let said = pod.annotation("sidecar.istio.io/nativeSidecar").and_then(Node::text);
    !pod.is_gateway() && said.map_or(by_default, |said| said == "true")
}

fn with_native_sidecar<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let parts = Parts::of(inputs);
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
    let parts = Parts::of(inputs);
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

/// The pods whose agents get a setting, in words, and their grace periods in seconds.
fn concerned<'g>(inputs: &'g Inputs, parts: &Parts<'g>, node: Node<'g>) -> Vec<(String, u64)> {
    let holder = node.outermost();
    let is_of_mesh = node.upwards().any(|node| node.key_text() == Some("defaultConfig"));
    let all: Vec<Pod<'g>> = match (pod_around(node), object_of(holder)) {
        (Some(pod), _) => vec![pod],
        (None, _) if is_of_mesh => pods(inputs).collect(),
        (None, Some(object)) if object.kind == "ProxyConfig" => {
            let selected = Mesh::of_plugin(object);
            pods(inputs).filter(|pod| selected.may_select(inputs, *pod)).collect()
        }
        (None, Some(object)) => parts.of_object(object).collect(),
        (None, None) => {
            // Values of a chart.
            let grace = holder.upwards().find_map(|map| map.get("terminationGracePeriodSeconds"));
            let grace = grace.and_then(Node::number);
            return grace.map(|grace| ("the pod".to_owned(), grace)).into_iter().collect();
        }
    };
    let named = |pod: Pod<'g>| (format!("`{}`", pod.object.name()), parts.grace_seconds(pod));
    all.into_iter().map(named).collect()
}

/// Istio's default, in milliseconds.
const DRAIN: u64 = 45_000;
const DRAIN_DURATION: &str = "drainDuration";

fn drain_below_deadline<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let longest = |node: Node<'g>| node.text().and_then(milliseconds).unwrap_or(DRAIN);
    let needed = |deadline: u64| deadline.saturating_mul(3) / 2;
    let message = |drain: u64, deadline: u64| {
        let (drain, deadline, needed) =
            (drain / 1000, deadline.div_ceil(1000), needed(deadline).div_ceil(1000));
        format!(
            "Envoy drains for {drain} s, the gate holds for {deadline} s: write `drainDuration: \
                {needed}s`"
        )
    };
    // Of the mesh, or in values of a chart.
    let common: Vec<_> =
        inputs.keyed(DRAIN_DURATION).filter(|node| pod_around(*node).is_none()).collect();
    let parts = Parts::of(inputs);
    for (gate, pod) in gated_pods(inputs) {
        let of_part = |part: Pod<'g>| part.proxy_config()?.get(DRAIN_DURATION);
        let own = parts.with_others(pod).into_iter().find_map(of_part);
        let drain = own.or_else(|| common.first().copied()).map_or(DRAIN, longest);
        if drain < needed(gate.deadline_ms) {
            findings.at(
                own.or_else(|| pod.grace()).unwrap_or(pod.spec),
                message(drain, gate.deadline_ms),
            );
        }
    }
    let deadline = gates(inputs).map(|(_, gate)| gate.deadline_ms).max().unwrap_or(0);
    for node in common.into_iter().filter(|node| longest(*node) < needed(deadline)) {
        findings.at(node, message(longest(node), deadline));
    }
}

fn request_beyond_grace<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let parts = Parts::of(inputs);
    let mut least: HashMap<&str, (u64, &str)> = HashMap::new();
    for pod in pods(inputs).filter(|pod| !pod.is_job()) {
        let (name, grace) = (pod.object.name(), parts.grace_seconds(pod));
        let known = least.entry(if pod.is_gateway() { GATEWAYS } else { name });
        let known = known.or_insert((grace, name));
        *known = (*known).min((grace, name));
    }
    for route in http_routes(inputs) {
        let Some(node) = route.node.get("timeout") else { continue };
        let Some(longest) = node.text().and_then(milliseconds) else { continue };
        let hosts = route.node.list("route").filter_map(|to| to.text_of("destination.host"));
        let names = hosts.filter_map(|host| host.split('.').next());
        let names = names.chain(route.comes_through_gateway().then_some(GATEWAYS));
        let short = names
            .filter_map(|name| least.get(name))
            .filter(|(grace, _)| grace.saturating_mul(1000) < longest);
        if let Some((grace, name)) = short.min() {
            findings.at(
                node,
                format!(
                    "`{name}` has {grace} s of grace, and the request may take {} s",
                    longest / 1000
                ),
            );
        }
    }
}

/// No object has this name.
const GATEWAYS: &str = "";
