//! LS620 and LS640: how streams end: by kind at the gate, and by the total time-outs of routes.

use std::collections::HashSet;

use crate::modules::{counters, gates};
use manifest_lint::rules::traffic::{http_routes, untimed_rules};
use manifest_lint::{Checks, Findings, Inputs, Node, of_kind};

pub(super) const CHECKS: Checks = &[("LS620", ends_without_kinds), ("LS640", total_timeout)];

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
