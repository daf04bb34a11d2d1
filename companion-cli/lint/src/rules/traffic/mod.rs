//! LS703, LS704: time-outs of routes beside the deadline of a gate.

use crate::modules::{gates, ours};
use manifest_lint::rules::traffic::{http_routes, untimed_rules};
use manifest_lint::{Checks, Findings, Inputs, Node, Object, Patch, connection_manager, routes};

pub(super) const CHECKS: Checks = &[("LS703", default_timeout), ("LS704", timeout_above_deadline)];

/// Envoy's default `timeout` of a route, in milliseconds.
const DEFAULT_TIMEOUT: u64 = 15_000;

fn default_timeout<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let deadlines = gates(inputs)
        .filter(|(module, _)| module.patch().is_none())
        .map(|(_, gate)| gate.deadline_ms);
    let Some(longest) = deadlines.max().filter(|longest| *longest > DEFAULT_TIMEOUT) else {
        return;
    };
    for module in ours(inputs).filter(|module| module.patch().is_none() && !module.is_gate()) {
        let manager = connection_manager(module.typed);
        for route in manager.into_iter().flat_map(routes) {
            if let Some(action) =
                route.field("route").filter(|action| action.field("timeout").is_none())
            {
                findings.at(action, cut_after_default(longest));
            }
        }
    }
    for rule in untimed_rules(inputs) {
        findings.at(rule, cut_after_default(longest));
    }
}

fn cut_after_default(longest: u64) -> String {
    format!("Envoy cuts after 15 s here, and the gate waits up to {} s", longest / 1000)
}

fn timeout_above_deadline<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let gates: Vec<(u64, bool)> = gates(inputs)
        .filter_map(|(module, gate)| {
            Some((gate.deadline_ms, is_for_gateways(module.patch()?.filter)))
        })
        .collect();
    for route in http_routes(inputs) {
        let is_of_gateway = route.comes_through_gateway();
        let meets = |of_gateways: bool| !of_gateways || is_of_gateway;
        let deadlines = gates.iter().filter(|(_, of_gateways)| meets(*of_gateways));
        let Some(longest) = deadlines.map(|(deadline, _)| *deadline).max() else { continue };
        let timeout = route.node.get("timeout");
        let is_longer = |node: &Node<'g>| node.millis().is_some_and(|timeout| timeout > longest);
        if let Some(node) = timeout.filter(is_longer) {
            findings.at(node, format!("the gate of these files opens after {} s", longest / 1000));
        }
    }
}

/// Whether all patches of an EnvoyFilter that name proxies name gateways.
fn is_for_gateways(filter: Object<'_>) -> bool {
    let contexts = Patch::all_of(filter).map(Patch::context);
    let mut contexts = contexts.filter(|context| *context != "ANY").peekable();
    contexts.peek().is_some() && contexts.all(|context| context == "GATEWAY")
}
