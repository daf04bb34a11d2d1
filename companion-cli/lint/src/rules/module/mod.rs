//! LS301 to LS305, LS63x: the configuration of laststream's module, checked by the module's own
//! parser, and the frame filter, which ends WebSockets with a close frame.

use laststream_filter::config::wire::{Role, Scope};
use laststream_filter::config::{self, Config, Problem, Refused};

use crate::modules::{Module, counters, modules, of_role, ours};
use crate::plugin_configs::plugin_configs;
use crate::users::uses;
use manifest_lint::{
    Checks, Findings, Inputs, Node, Patch, ProxySelector, connection_manager, is_string_value,
    patch_of,
};

pub(super) const CHECKS: Checks = &[
    ("LS301", refused),
    ("LS301", not_a_string),
    ("LS304", scope_and_context),
    ("LS305", counted_twice),
    ("LS630", own_chain),
    ("LS631", on_or_off),
];

/// A configuration: the root of its fields, the node with its text, and the verdict on it.
struct Judged<'g> {
    root: Option<Node<'g>>,
    text: Node<'g>,
    verdict: Result<Config, Refused>,
}

/// The configurations of all filters, plugins and policies.
fn judged(inputs: &Inputs) -> impl Iterator<Item = Judged<'_>> {
    let filters = ours(inputs).filter_map(|module| {
        let text = module.text()?;
        Some(Judged { root: text.embedded(), text, verdict: module.verdict()? })
    });
    let plugins = plugin_configs(inputs).map(|(root, text)| Judged {
        root: Some(root),
        text: root,
        verdict: config::parse(text.as_bytes()),
    });
    filters.chain(plugins)
}

fn refused<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for Judged { root, text, verdict } in judged(inputs) {
        for problem in verdict.err().into_iter().flat_map(|refused| refused.0) {
            report(root, text, &problem, findings);
        }
    }
}

fn report<'g>(
    root: Option<Node<'g>>,
    text: Node<'g>,
    problem: &Problem,
    findings: &mut Findings<'g>,
) {
    let unknown = problem.message.starts_with("there is no such field");
    match root.and_then(|root| at_path(root, &problem.path)) {
        Some(node) => {
            findings.at(node.key().filter(|_| unknown).unwrap_or(node), problem.message.clone())
        }
        None => report_at_text(text, problem, findings),
    }
}

/// The node that a path such as `gate.scopes[1]` names, or the nearest above it.
fn at_path<'g>(root: Node<'g>, path: &str) -> Option<Node<'g>> {
    if path.is_empty() || path.starts_with("line ") {
        return None;
    }
    let parts = path.split(['.', '[']).map(|part| part.trim_end_matches(']'));
    Some(root.nearest(parts)).filter(|node| *node != root)
}

/// Reports a problem that has no node, as in a text that is not JSON, at the line that the module
/// names.
fn report_at_text<'g>(text: Node<'g>, problem: &Problem, findings: &mut Findings<'g>) {
    let number = |prefix: &str| {
        let rest = problem.path.split(prefix).nth(1)?;
        rest.split(|character: char| !character.is_ascii_digit()).next()?.parse::<usize>().ok()
    };
    let line = number("line ").and_then(|line| text.text()?.lines().nth(line.checked_sub(1)?));
    match line.filter(|line| !line.is_empty()) {
        Some(line) => findings.in_text(text, line, problem.to_string()),
        None => findings.at(text, problem.to_string()),
    }
}

fn not_a_string<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for module in ours(inputs) {
        let Some(any) = module.configuration().filter(|any| !is_string_value(*any)) else {
            continue;
        };
        let name = any.text_of("@type").unwrap_or("a message without `@type`");
        findings.at(any, format!("`{name}` is not what the module reads"));
    }
}

fn scope_and_context<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (module, scope) in counters(inputs) {
        let patches = uses(inputs, module).into_iter().filter_map(patch_of);
        for patch in patches.filter(|patch| patch.apply_to() == "HTTP_FILTER") {
            let (name, context) = (module.name(), patch.context());
            if !fits(scope, context) {
                let place = patch.context_node().unwrap_or(patch.node);
                findings
                    .at(place, format!("`{name}` counts as {scope}, and {context} is not that"));
            }
        }
    }
}

/// Whether a filter of this scope belongs in the listeners of a context.
pub(super) fn fits(scope: Scope, context: &str) -> bool {
    match scope {
        Scope::Gateway => matches!(context, "GATEWAY" | "WAYPOINT" | "ANY"),
        Scope::Inbound => matches!(context, "SIDECAR_INBOUND" | "WAYPOINT"),
        Scope::Outbound => context == "SIDECAR_OUTBOUND",
    }
}

/// The number of filters that are compared pair by pair, and of the places of each. More would not
/// add information.
const MOST_FILTERS: usize = 64;
const MOST_PLACES: usize = 8;

fn counted_twice<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let modules = counters(inputs).map(|(module, _)| module);
    for (other, module) in in_one_chain(inputs, modules) {
        findings.at(
            module.plugin,
            format!("`{}` and `{}` count the same requests", other.name(), module.name()),
        );
    }
}

/// Pairs of filters in one chain: an earlier one, and a later one.
pub(super) fn in_one_chain<'g>(
    inputs: &'g Inputs,
    modules: impl Iterator<Item = Module<'g>>,
) -> Vec<(Module<'g>, Module<'g>)> {
    let mut pairs = Vec::new();
    let mut earlier: Vec<(Module<'g>, Vec<Node<'g>>)> = Vec::new();
    for module in modules.take(MOST_FILTERS) {
        let mut places = uses(inputs, module);
        places.truncate(MOST_PLACES);
        let shares = |(other, there): &&(Module<'g>, Vec<Node<'g>>)| {
            // LS121 reports two extension configurations of one name.
            (module.extension().is_none() || module.name() != other.name())
                && places.iter().any(|one| there.iter().any(|two| share_chain(*one, *two)))
        };
        pairs.extend(earlier.iter().find(shares).map(|(other, _)| (*other, module)));
        earlier.push((module, places));
    }
    pairs
}

/// Whether two filters are in the same chain.
pub(super) fn share_chain(one: Node<'_>, two: Node<'_>) -> bool {
    match (patch_of(one), patch_of(two)) {
        (Some(one), Some(two)) => {
            let inserts = |patch: Patch<'_>| {
                patch.apply_to() == "HTTP_FILTER" && patch.operation().starts_with("INSERT")
            };
            inserts(one)
                && inserts(two)
                && one.context() == two.context()
                && !CHAIN_FIELDS.split(' ').any(|path| differ(one, two, path))
                && ProxySelector::of(one).may_meet(&ProxySelector::of(two))
        }
        (None, None) => {
            connection_manager(one).is_some_and(|manager| connection_manager(two) == Some(manager))
        }
        _ => false,
    }
}

/// The fields by which a patch selects a listener and its filter chains.
const CHAIN_FIELDS: &str = "portNumber name filterChain.name filterChain.sni \
    filterChain.destinationPort filterChain.applicationProtocols filterChain.transportProtocol";

/// Whether two patches select different values of a field.
fn differ(one: Patch<'_>, two: Patch<'_>, path: &str) -> bool {
    let text = |patch: Patch<'_>| -> Option<String> {
        Some(patch.matching()?.get("listener")?.text_of(path)?.to_owned())
    };
    text(one).zip(text(two)).is_some_and(|(one, two)| one != two)
}

pub(super) fn frame_filters(inputs: &Inputs) -> impl Iterator<Item = Module<'_>> {
    of_role(inputs, Role::Websocket).map(|(module, _)| module)
}

/// Checks only filters of a mesh: the files do not show what the chain of a plain Envoy should
/// contain.
fn own_chain<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for module in modules(inputs) {
        for filter in uses(inputs, module) {
            let is_for_upgrades =
                filter.upwards().any(|node| node.key_text() == Some("upgrade_configs"));
            if is_for_upgrades && patch_of(filter).is_some() {
                findings.at(filter, format!("`{}` is in a chain for upgrades only", module.name()));
            }
        }
    }
}

fn on_or_off<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for module in frame_filters(inputs) {
        let name = module.name();
        for filter in uses(inputs, module) {
            if !filter.field("disabled").is_some_and(Node::is_true) {
                findings.at(filter, format!("`{name}` has no `disabled: true`"));
            }
        }
        let mut routes = inputs.keyed_field("typed_per_filter_config").flat_map(Node::entries);
        if !routes.any(|(filter, _)| filter == name) {
            findings.at(module.filter(), format!("no route names `{name}`"));
        }
    }
}
