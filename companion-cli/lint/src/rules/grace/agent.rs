//! Gates whose drain starts with the stop of Istio's agent: LS560.

use super::DURATION;
use super::deadlines::{ProxyTime, proxy_times};
use crate::modules::starts_by_agent;
use manifest_lint::{Findings, Inputs, Node, Pod};

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
