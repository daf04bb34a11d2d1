//! LS640: total time-outs of routes that carry streams.

use std::collections::HashSet;

use crate::finding::{Checks, Findings};
use crate::inputs::Inputs;
use crate::node::Node;
use crate::objects::of_kind;
use crate::rules::traffic::{http_routes, untimed_rules};

pub(super) const CHECKS: Checks = &[("LS640", total_timeout)];

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
    let mut headers = rule.list("matches").flat_map(|matching| matching.list("headers"));
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
