//! A gate's deadline compared with grace periods, stop hooks and Envoy's drain time: LS551 to
//! LS553, LS558, LS560. If the files do not show which of several gates is meant, the gate with the
//! shortest deadline counts, so that a finding holds for all of them.

use std::collections::{HashMap, HashSet};

use laststream_filter::config::wire::Gate;

use super::DURATION;
use crate::gate_programs::{gate_programs, pod_spec};
use crate::modules::{Module, gated_pods, gates, starts_by_agent};
use crate::rules::envoy_gateway::gates_of_pods;
use crate::users::ports;
use laststream_base::time_span::milliseconds;
use laststream_policy::KUBELET;
use manifest_lint::{
    DEFAULT_GRACE, Findings, Hook, Inputs, Node, Pod, SplitPods, pod_around, stop_hooks,
};

/// A gate, and its deadline in milliseconds.
type Deadline<'g> = (Module<'g>, u64);

/// The gates that stop hooks ask, by the ports of their listeners.
struct AskedGates<'g> {
    parts: SplitPods<'g>,
    /// The gate with the shortest deadline, by port.
    shortest: HashMap<u64, Deadline<'g>>,
    /// The gate of a pod with the longest deadline, by the pod's template and by port.
    of_pods: HashMap<(Node<'g>, u64), Deadline<'g>>,
}

impl<'g> AskedGates<'g> {
    fn of(inputs: &'g Inputs) -> Self {
        let mut shortest: HashMap<u64, Deadline<'g>> = HashMap::new();
        let mut of_modules: HashMap<Node<'g>, Vec<u64>> = HashMap::new();
        let mut gates: Vec<_> = gates(inputs).collect();
        gates.sort_by_key(|(_, gate)| gate.deadline_ms);
        for (module, gate) in gates {
            let gate_ports = ports(inputs, module);
            for port in &gate_ports {
                shortest.entry(*port).or_insert((module, gate.deadline_ms));
            }
            of_modules.insert(module.typed, gate_ports);
        }
        let mut of_pods: HashMap<(Node<'g>, u64), Deadline<'g>> = HashMap::new();
        for (module, gate, pod) in gated_pods(inputs) {
            let gate_ports = of_modules.get(&module.typed);
            for port in gate_ports.into_iter().flatten() {
                // Pods of two objects share a template by an alias.
                let longest = of_pods.entry((pod.template, *port)).or_insert((module, 0));
                if gate.deadline_ms > longest.1 {
                    *longest = (module, gate.deadline_ms);
                }
            }
        }
        Self { parts: SplitPods::of(inputs), shortest, of_pods }
    }

    /// The gate that a stop hook asks. If the pod is known only from a patch or from values of a
    /// chart, which may lack the labels by which gates select it, the gate with the shortest
    /// deadline counts.
    fn asked_by(&self, hook: Hook<'g>) -> Option<Deadline<'g>> {
        if !hook.runs_agent("wait") {
            return None;
        }
        let port = hook.option("--url").and_then(port_of)?;
        let shortest = self.shortest.get(&port).copied();
        let Some(pod) = hook.pod() else { return shortest };
        let parts = self.parts.with_others(pod);
        let place = |part: &Pod<'g>| (part.template, port);
        let gates = parts.iter().filter_map(|part| self.of_pods.get(&place(part)).copied());
        let longest = gates.max_by_key(|(_, deadline)| *deadline);
        let is_known = parts.iter().any(|part| part.is_whole());
        longest.or_else(|| shortest.filter(|_| !is_known))
    }
}

/// The port in a URL.
fn port_of(url: &str) -> Option<u64> {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest).split(['/', '?']).next()?;
    authority.rsplit_once(':')?.1.parse().ok()
}

/// The time needed after the deadline, in seconds: 2 s are for kubelet, and before, the agent waits
/// 5 s after a hook. At the deadline it is not draining yet, because the gate calls `finish` only
/// at zero. An agent whose stop starts the drain waits 3 s longer than the gate.
pub(in crate::rules) fn after(gate: &Gate) -> u64 {
    if starts_by_agent(gate) { 5 } else { 7 }
}

/// The gates that are programs or in Envoy Gateway's bootstraps, by the specs of their pods: the
/// names and the deadlines in milliseconds.
fn gates_of_specs(inputs: &Inputs) -> HashMap<Node<'_>, (&str, u64)> {
    let programs = gate_programs(inputs).into_iter();
    let programs = programs
        .filter_map(|(spec, program)| Some((spec, (program.name(), program.deadline_ms()?))));
    programs.chain(gates_of_pods(inputs)).collect()
}

pub(super) fn grace_below_deadline<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let mut compare = |place: Node<'g>, grace: u64, deadline_ms: u64, after: u64| {
        let deadline = deadline_ms.div_ceil(1000);
        let least = deadline.saturating_add(after);
        if grace < least {
            let message = format!(
                "{grace} s of grace, and the gate needs {deadline} s and {after} s after it: \
                 write {least}"
            );
            findings.at(place, message);
        }
    };
    let gates = AskedGates::of(inputs);
    for (_, gate, pod) in gated_pods(inputs) {
        let node = gates.parts.grace(pod);
        let grace = node.and_then(Node::number).unwrap_or(DEFAULT_GRACE);
        compare(node.unwrap_or(pod.spec), grace, gate.deadline_ms, after(&gate));
    }
    for (spec, (_, deadline)) in gates_of_specs(inputs) {
        let Some(node) = spec.get("terminationGracePeriodSeconds") else { continue };
        compare(node, node.number().unwrap_or(DEFAULT_GRACE), deadline, KUBELET.whole_seconds());
    }
    for hook in stop_hooks(inputs).filter(|hook| hook.pod().is_none()) {
        let Some(node) = hook.grace_in_values() else { continue };
        if let Some((grace, (_, deadline))) = node.number().zip(gates.asked_by(hook)) {
            compare(node, grace, deadline, after(&Gate::default()));
        }
    }
}

/// The default time-out of `laststream prestop`, in milliseconds.
const USUAL_WAIT: u64 = 25_000;

/// The longest time that a hook may take, in seconds, and the node that sets it.
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
    if words.windows(2).any(|pair| pair[0].ends_with("laststream") && pair[1] == "prestop") {
        let time = hook.option("--timeout").map_or(Some(USUAL_WAIT), milliseconds)?;
        return Some((time / 1000, hook.item_with("--timeout").unwrap_or(place)));
    }
    let after_sleep =
        words.windows(2).find(|pair| pair[0] == "sleep" || pair[0].ends_with("/sleep"))?[1];
    let seconds = milliseconds(after_sleep.trim_end_matches(';'))? / 1000;
    Some((seconds, hook.item_with("sleep").unwrap_or(place)))
}

pub(super) fn grace_below_hook<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let parts = SplitPods::of(inputs);
    for hook in stop_hooks(inputs) {
        let of_pod = hook.pod().map(|pod| parts.grace_seconds(pod));
        let Some(grace) = of_pod.or_else(|| hook.grace_in_values()?.number()) else { continue };
        let Some((seconds, place)) = longest(hook) else { continue };
        if seconds >= grace {
            let message =
                format!("the hook may take {seconds} s, and the pod has {grace} s of grace");
            findings.at(place, message);
        }
    }
}

pub(super) fn hook_below_deadline<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let gates = AskedGates::of(inputs);
    let of_specs = gates_of_specs(inputs);
    for hook in stop_hooks(inputs) {
        let of_spec = || of_specs.get(&pod_spec(hook.node)?).copied();
        let of_module = gates.asked_by(hook).map(|(module, deadline)| (module.name(), deadline));
        let Some((gate, deadline)) = of_module.or_else(of_spec) else { continue };
        let Some((seconds, place)) = longest(hook) else { continue };
        if seconds.saturating_mul(1000) < deadline {
            let deadline = deadline.div_ceil(1000);
            let message =
                format!("the hook waits {seconds} s, the gate `{gate}` up to {deadline} s");
            findings.at(place, message);
        }
    }
}

/// A time of a proxy beside the deadline of a gate.
pub(super) struct ProxyTime<'g> {
    /// The pod with the gate, if the files show it.
    pub(super) pod: Option<Pod<'g>>,
    pub(super) gate: Gate,
    /// The setting of the pod, or of the place.
    pub(super) own: Option<Node<'g>>,
    /// The setting that counts; none for the default.
    pub(super) value: Option<Node<'g>>,
}

/// The times of all proxies with such a gate; then those of the mesh, of charts, and of patches of
/// pods that are not in these files, beside the gate with the shortest deadline.
pub(super) fn proxy_times<'g>(
    inputs: &'g Inputs,
    name: &'static str,
    is_meant: fn(&Gate) -> bool,
) -> Vec<ProxyTime<'g>> {
    let parts = SplitPods::of(inputs);
    let is_of_mesh = |node: &Node<'g>| node.has_keys(&[name, "defaultConfig"]);
    let of_mesh = inputs.keyed(name).find(is_of_mesh);
    let gated = gated_pods(inputs).into_iter().filter(|(_, gate, _)| is_meant(gate));
    let of_pods = gated.map(|(_, gate, pod)| {
        let of_part = |part: Pod<'g>| part.proxy_config()?.get(name);
        let setting = parts.with_others(pod).into_iter().find_map(of_part);
        ProxyTime { pod: Some(pod), gate, own: setting, value: setting.or(of_mesh) }
    });
    let mut times: Vec<_> = of_pods.collect();
    let settings: HashSet<_> = times.iter().filter_map(|time| time.own).collect();
    let gates = gates(inputs).map(|(_, gate)| gate).filter(is_meant);
    let Some(shortest) = gates.min_by_key(|gate| gate.deadline_ms) else { return times };
    let nodes = inputs.keyed(name).filter(|node| pod_around(*node).is_none());
    times.extend(nodes.filter(|node| !settings.contains(node)).map(|node| {
        let setting = Some(node);
        ProxyTime { pod: None, gate: shortest.clone(), own: setting, value: setting }
    }));
    times
}

/// Istio's default `drainDuration`, in milliseconds.
const DRAIN: u64 = 45_000;

/// What the gate's own configuration shows of a proxy of ambient mode.
const TUNNELS: &str = ". Envoy after 1.40 resets this proxy's tunnels, with the requests in them";

pub(super) fn drain_below_deadline<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for ProxyTime { pod, gate, own, value } in proxy_times(inputs, "drainDuration", |_| true) {
        let drain = value.and_then(Node::millis).unwrap_or(DRAIN);
        let least = gate.deadline_ms.saturating_mul(3) / 2;
        let place = own.or_else(|| pod.map(|pod| pod.grace().unwrap_or(pod.spec)));
        let Some(place) = place.filter(|_| drain < least) else { continue };
        let more = if pod.is_none() || gate.admin.tunnels.is_empty() { "" } else { TUNNELS };
        let (deadline, least) = (gate.deadline_ms.div_ceil(1000), least.div_ceil(1000));
        let message = format!(
            "Envoy drains for {} s, the gate holds for {deadline} s: write \
             `drainDuration: {least}s`{more}",
            drain / 1000
        );
        findings.at(place, message);
    }
}

/// Istio's default `terminationDrainDuration`, in milliseconds.
const USUAL: u64 = 5_000;
/// How much longer than the gate the agent must wait, in milliseconds: the gate notices its stop
/// later.
const NOTICE: u64 = 3_000;

pub(super) fn agent_below_deadline<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for ProxyTime { pod, gate, own, value } in proxy_times(inputs, DURATION, starts_by_agent) {
        let Some(time) = value.map_or(Some(USUAL), Node::millis) else { continue };
        let least = gate.deadline_ms.saturating_add(NOTICE);
        let of_pod = |pod: Pod<'g>| pod.template.get("metadata").unwrap_or(pod.template);
        let place = own.or_else(|| pod.map(of_pod));
        let Some(place) = place.filter(|_| time < least) else { continue };
        let (deadline, least) = (gate.deadline_ms.div_ceil(1000), least.div_ceil(1000));
        let message = format!(
            "the agent ends Envoy after {} s, the gate holds for {deadline} s: write \
             `{DURATION}: {least}s`",
            time / 1000
        );
        findings.at(place, message);
    }
}
