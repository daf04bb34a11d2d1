//! LS3xx: what laststream's module is told, as the module itself reads it.

use laststream_filter::config::Problem;

use crate::lint::envoy_filter::patch_of;
use crate::lint::finding::{Found, Severity};
use crate::lint::given::{Given, is_string_value};
use crate::lint::listeners::uses;
use crate::lint::modules::{counters, ours};
use crate::lint::node::Node;
use crate::lint::rule::Rule;
use laststream_filter::config::wire::Scope;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "LS301",
        severity: Severity::Error,
        title: "the module refuses its configuration",
        why: "Envoy then refuses the filter: a proxy that runs goes on with what it has, a new one does not get ready or fails as its policy says.",
        fix: "Correct the field. `laststream config check` says the same about a file, `laststream config schema` prints what there is.",
        check: refused,
    },
    Rule {
        code: "LS302",
        severity: Severity::Error,
        title: "the module's configuration is not a StringValue",
        why: "Envoy hands a Struct, and every other message, over in protobuf's binary form. The module wants JSON as text, and refuses the rest.",
        fix: "Write it as text: `configuration: {\"@type\": type.googleapis.com/google.protobuf.StringValue, value: '{…}'}`.",
        check: not_a_string,
    },
    Rule {
        code: "LS303",
        severity: Severity::Warning,
        title: "the module takes its configuration, and warns",
        why: "It is allowed, and rarely meant.",
        fix: "Name only the addresses of your load balancer.",
        check: warned,
    },
    Rule {
        code: "LS304",
        severity: Severity::Error,
        title: "the scope is not that of the listeners which the filter is put on",
        why: "The scope is part of the metrics' names and of what the gate waits for. Requests into the app that are counted as gateway traffic hold nobody's drain; one counter on both directions of a sidecar counts outbound calls as inbound requests.",
        fix: "Give each direction a filter of its own: context GATEWAY with scope gateway, SIDECAR_INBOUND with inbound, SIDECAR_OUTBOUND with outbound.",
        check: scope_and_context,
    },
];

fn refused<'g>(given: &'g Given, found: &mut Found<'g>) {
    for module in ours(given) {
        let (Some(text), Some(Err(refused))) = (module.text(), module.verdict()) else { continue };
        for problem in &refused.0 {
            let unknown = problem.message.starts_with("there is no such field");
            match text.embedded().and_then(|root| at_path(root, &problem.path)) {
                Some(node) => found.at(node.key().filter(|_| unknown).unwrap_or(node), problem.message.clone()),
                None => report_at_text(text, problem, found),
            }
        }
    }
}

/// The node that a path such as `gate.scopes[1]` names, or the nearest above it.
fn at_path<'g>(root: Node<'g>, path: &str) -> Option<Node<'g>> {
    if path.is_empty() || path.starts_with("line ") {
        return None;
    }
    let mut node = root;
    for part in path.split(['.', '[']) {
        let next = match part.strip_suffix(']') {
            Some(index) => index.parse().ok().and_then(|index| node.items().nth(index)),
            None => node.get(part),
        };
        match next {
            Some(next) => node = next,
            None => break,
        }
    }
    (node != root).then_some(node)
}

/// What is not even JSON has no nodes; the module tells the line.
fn report_at_text<'g>(text: Node<'g>, problem: &Problem, found: &mut Found<'g>) {
    let number = |prefix: &str| {
        let rest = problem.path.split(prefix).nth(1)?;
        rest.split(|character: char| !character.is_ascii_digit()).next()?.parse::<usize>().ok()
    };
    let line = number("line ").and_then(|line| text.text()?.lines().nth(line.checked_sub(1)?));
    match line.filter(|line| !line.is_empty()) {
        Some(line) => found.in_text(text, line, problem.to_string()),
        None => found.at(text, problem.to_string()),
    }
}

fn not_a_string<'g>(given: &'g Given, found: &mut Found<'g>) {
    for module in ours(given) {
        let Some(any) = module.configuration().filter(|any| !is_string_value(*any)) else { continue };
        let name = any.get("@type").and_then(Node::text).unwrap_or("a message without `@type`");
        found.at(any, format!("`{name}` is not what the module reads"));
    }
}

fn warned<'g>(given: &'g Given, found: &mut Found<'g>) {
    for module in ours(given) {
        let (Some(text), Some(Ok(config))) = (module.text(), module.verdict()) else { continue };
        for warning in config.warnings() {
            let (path, message) = warning.split_once(": ").unwrap_or(("", &warning));
            let node = text.embedded().and_then(|root| at_path(root, path)).unwrap_or(text);
            found.at(node, message);
        }
    }
}

fn scope_and_context<'g>(given: &'g Given, found: &mut Found<'g>) {
    for (module, scope) in counters(given) {
        for patch in uses(module).into_iter().filter_map(patch_of).filter(|patch| patch.apply_to() == "HTTP_FILTER") {
            let fits = match (scope, patch.context()) {
                (Scope::Gateway, context) => matches!(context, "GATEWAY" | "WAYPOINT" | "ANY"),
                (Scope::Inbound, context) => matches!(context, "SIDECAR_INBOUND" | "WAYPOINT"),
                (Scope::Outbound, context) => context == "SIDECAR_OUTBOUND",
            };
            if !fits {
                let place = patch.context_node().unwrap_or(patch.node);
                found.at(place, format!("`{}` counts as {}, and {} is not that", module.name(), scope.name(), patch.context()));
            }
        }
    }
}
