//! LS620, LS640, LS703, LS704: time-outs of routes, for streams and beside the deadline of a gate,
//! and the kinds of streams that a gate ends.

use std::collections::HashSet;

use crate::modules::{counters, gates, ours};
use manifest_lint::rules::traffic::{http_routes, untimed_rules};
use manifest_lint::{
    Checks, Findings, Inputs, Node, Object, Patch, connection_manager, of_kind, routes,
};

pub(super) const CHECKS: Checks = &[
    ("LS620", ends_without_kinds),
    ("LS640", total_timeout),
    ("LS703", default_timeout),
    ("LS704", timeout_above_deadline),
];

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

fn ends_without_kinds<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (gate, wire) in gates(inputs).filter(|(_, wire)| wire.end.is_some()) {
        for (counter, scope) in counters(inputs) {
            let keeps_kinds = counter
                .wire()
                .and_then(|wire| wire.count.as_ref())
                .is_some_and(|count| count.kinds);
            if !keeps_kinds && wire.scopes.contains(&scope) && gate.may_meet(counter) {
                findings.at(
                    counter.text().unwrap_or(counter.plugin),
                    format!("the gate `{}` is to end streams of this counter", gate.name()),
                );
            }
        }
    }
}

/// The longest time-out that is taken for one of ordinary requests; milliseconds.
const ORDINARY: u64 = 60_000;

fn total_timeout<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let untimed: HashSet<_> = untimed_rules(inputs).collect();
    let rules = |kind| of_kind(inputs, kind).flat_map(|route| route.node.list("spec.rules"));
    for rule in rules("HTTPRoute").filter(|rule| is_model(*rule) || asks_for_events(*rule)) {
        match rule.fields("timeouts.request") {
            Some(time) => report(time, findings),
            None if untimed.contains(&rule) => {
                findings.at(rule, "Envoy Gateway ends each stream after 15 s");
            }
            None => {}
        }
    }
    for rule in rules("AIGatewayRoute") {
        match rule.fields("timeouts.request") {
            Some(time) => report(time, findings),
            None => findings.at(rule, "Envoy AI Gateway ends each answer after 60 s"),
        }
    }
    for route in http_routes(inputs).filter(|route| route.node.list("match").any(wants_events)) {
        if let Some(time) = route.node.get("timeout") {
            report(time, findings);
        }
    }
}

fn report<'g>(time: Node<'g>, findings: &mut Findings<'g>) {
    if let Some(total) = time.millis().filter(|total| (1..=ORDINARY).contains(total)) {
        findings.at(time, format!("each stream ends after {} s", total.div_ceil(1000)));
    }
}

/// Whether a rule leads to models, by the Gateway API's own kind for them.
fn is_model(rule: Node<'_>) -> bool {
    rule.list("backendRefs").any(|to| to.text_of("kind") == Some("InferencePool"))
}

const EVENTS: &str = "text/event-stream";

/// Whether a rule of an HTTPRoute is for requests of event streams.
fn asks_for_events(rule: Node<'_>) -> bool {
    let mut headers = rule.all("matches[].headers[]");
    headers.any(|header| {
        let name = header.text_of("name");
        name.is_some_and(|name| name.eq_ignore_ascii_case("accept"))
            && header.text_of("value").is_some_and(|value| value.contains(EVENTS))
    })
}

/// The same of a VirtualService.
fn wants_events(matching: Node<'_>) -> bool {
    let accept = matching.fields("headers.accept");
    let mut words = accept.into_iter().flat_map(Node::entries);
    words.any(|(_, value)| value.text().is_some_and(|value| value.contains(EVENTS)))
}
