//! Gates whose drain starts with the stop of Istio's agent: LS508, LS560.

use super::DURATION;
use super::deadlines::{AskedGates, ProxyTime, proxy_times};
use crate::modules::starts_by_agent;
use manifest_lint::{Findings, Inputs, Node, Pod, stop_hooks};

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
