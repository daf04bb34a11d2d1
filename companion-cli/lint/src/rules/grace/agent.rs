//! Gates whose drain starts with the stop of Istio's agent: LS508, LS560.

use std::collections::HashSet;

use super::DURATION;
use super::deadlines::AskedGates;
use crate::modules::{gated_pods, gates, starts_by_agent};
use manifest_lint::finding::Findings;
use manifest_lint::inputs::Inputs;
use manifest_lint::node::Node;
use manifest_lint::pods::{Pod, pod_around, stop_hooks};
use manifest_lint::split_pods::SplitPods;

/// Istio's default `terminationDrainDuration`, in milliseconds.
const USUAL: u64 = 5_000;
/// How much longer than the gate the agent must wait, in milliseconds: the gate notices its stop
/// later.
const NOTICE: u64 = 3_000;

pub(super) fn agent_below_deadline<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let mut compare = |place: Node<'g>, time: u64, deadline: u64| {
        let least = deadline.saturating_add(NOTICE);
        if time < least {
            let (time, deadline, least) =
                (time / 1000, deadline.div_ceil(1000), least.div_ceil(1000));
            let message = format!(
                "the agent ends Envoy after {time} s, the gate holds for {deadline} s: write \
                 `{DURATION}: {least}s`"
            );
            findings.at(place, message);
        }
    };
    let parts = SplitPods::of(inputs);
    let is_of_mesh = |node: &Node<'g>| node.has_keys(&[DURATION, "defaultConfig"]);
    let of_mesh = inputs.keyed(DURATION).find(is_of_mesh);
    let mut compared = HashSet::new();
    let started = gated_pods(inputs).into_iter().filter(|(_, gate, _)| starts_by_agent(gate));
    for (_, gate, pod) in started {
        let of_part = |part: Pod<'g>| part.proxy_config()?.get(DURATION);
        let value = parts.with_others(pod).into_iter().find_map(of_part);
        compared.extend(value);
        let time = value.or(of_mesh).map_or(Some(USUAL), Node::millis);
        let place = value.or_else(|| pod.template.get("metadata")).unwrap_or(pod.template);
        compare(place, time.unwrap_or(u64::MAX), gate.deadline_ms);
    }
    let started = gates(inputs).map(|(_, gate)| gate).filter(starts_by_agent);
    let Some(deadline) = started.map(|gate| gate.deadline_ms).min() else { return };
    for node in inputs.keyed(DURATION).filter(|node| pod_around(*node).is_none()) {
        if let Some(time) = node.millis().filter(|_| !compared.contains(&node)) {
            compare(node, time, deadline);
        }
    }
}

pub(in crate::rules) fn needless_hook<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let gates = AskedGates::of(inputs);
    for hook in stop_hooks(inputs) {
        let module = gates.asked_by(hook).map(|(module, _)| module);
        let Some(module) = module.filter(|module| {
            let gate = module.wire().and_then(|wire| wire.gate.as_ref());
            gate.is_some_and(starts_by_agent)
        }) else {
            continue;
        };
        if let Some(command) = hook.command() {
            let message = format!("the drain of `{}` starts without it", module.name());
            findings.at(command, message);
        }
    }
}
