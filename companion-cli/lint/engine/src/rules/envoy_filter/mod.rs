//! LS1xx: the shape of EnvoyFilters, which the API server hardly checks.

mod types;

use crate::fields;
use crate::{
    Checks, Findings, Inputs, Node, Patch, ROOT_NAMESPACE, envoy_filters, patches, patches_of,
};
use types::{nearly, wrong_type};

pub(super) const CHECKS: Checks = &[
    ("LS102", patch),
    ("LS102", hopeless_match),
    ("LS102", no_patches),
    ("LS104", behind_the_router),
    ("LS105", relative_without_priority),
    ("LS106", proxy_version),
    ("LS107", wrong_type),
    ("LS108", no_selector),
];

const ON_FILTERS: &[&str] =
    &["ADD", "MERGE", "REMOVE", "INSERT_FIRST", "INSERT_BEFORE", "INSERT_AFTER", "REPLACE"];
const ON_ROUTES: &[&str] =
    &["ADD", "MERGE", "REMOVE", "INSERT_FIRST", "INSERT_BEFORE", "INSERT_AFTER"];
/// The operation for lists works where MERGE does, except with filters, which only MERGE merges.
const REPLACE_LISTS: &str = "MERGE_AND_REPLACE_LIST";

/// What a patch applies to, the field of `match` that it uses (empty if it uses none), and the
/// operations that work, beside the one for lists.
type Kind = (&'static str, &'static str, &'static [&'static str]);

const KINDS: [Kind; 11] = [
    ("LISTENER", "listener", &["ADD", "MERGE", "REMOVE"]),
    ("FILTER_CHAIN", "listener", &["ADD", "MERGE", "REMOVE"]),
    ("LISTENER_FILTER", "listener", ON_FILTERS),
    ("NETWORK_FILTER", "listener", ON_FILTERS),
    ("HTTP_FILTER", "listener", ON_FILTERS),
    ("ROUTE_CONFIGURATION", "routeConfiguration", &["MERGE"]),
    ("VIRTUAL_HOST", "routeConfiguration", &["ADD", "MERGE", "REMOVE", "REPLACE"]),
    ("HTTP_ROUTE", "routeConfiguration", ON_ROUTES),
    ("CLUSTER", "cluster", &["ADD", "MERGE", "REMOVE"]),
    ("EXTENSION_CONFIG", "", &["ADD"]),
    ("BOOTSTRAP", "", &[]),
];

fn kind_of(patch: Patch<'_>) -> Option<Kind> {
    KINDS.into_iter().find(|(name, ..)| *name == patch.apply_to())
}

fn patch<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for patch in patches(inputs) {
        if ["", "INVALID"].contains(&patch.apply_to()) {
            let place = patch.node.get("applyTo").unwrap_or(patch.node);
            findings.at(place, "the patch does not say what it applies to");
        }
        let Some(node) = patch.node.get("patch").filter(|node| node.is_map()) else {
            findings.at(patch.node, "there is no `patch`");
            continue;
        };
        let (name, operation) = (patch.operation(), patch.operation_node().unwrap_or(node));
        if name.is_empty() {
            findings.at(node, "the patch has no `operation`");
        } else if let Some(why) = ignored(patch) {
            findings.at(operation, why);
        }
        if name != "REMOVE" && !patch.value().is_some_and(Node::is_map) {
            findings.at(node, "the patch has no `value`");
        } else if let Some(missing) = missing_filter(patch) {
            findings.at(operation, format!("{name} does nothing without `{missing}`"));
        }
        dropped(patch, findings);
    }
}

/// For each `applyTo` the name and the fields of its message, from go-control-plane's modules envoy
/// 1.37 to 1.40.
const MESSAGES: &str = include_str!("fields.txt");

/// Reports the fields of a patch's value that istiod drops.
fn dropped<'g>(patch: Patch<'g>, findings: &mut Findings<'g>) {
    let mut messages = MESSAGES.lines().filter_map(|line| line.split_once(' '));
    let message = messages.find(|(kind, _)| *kind == patch.apply_to());
    let Some((name, known)) = message.and_then(|(_, message)| message.split_once(' ')) else {
        return;
    };
    let words = |key: &str| match key {
        "@type" => None,
        "config" => Some("istiod drops `config`: write `typed_config`".to_owned()),
        _ => Some(format!("istiod drops `{key}`: a {name} has no such field")),
    };
    patch.value().into_iter().for_each(|value| fields::unknown(value, known, findings, words));
}

/// The part of the match without which istiod skips the removal or replacement of a filter.
fn missing_filter(patch: Patch<'_>) -> Option<&'static str> {
    let name = |path: &str| {
        let name = patch.filter_match().and_then(|filter| filter.text_of(path));
        name.is_some_and(|name| !name.is_empty())
    };
    let missing = match patch.apply_to() {
        "HTTP_FILTER" if !name("subFilter.name") => "filter.subFilter.name",
        "NETWORK_FILTER" if !name("name") => "filter.name",
        _ => return None,
    };
    ["REMOVE", "REPLACE"].contains(&patch.operation()).then_some(missing)
}

/// Why Istio ignores the operation of a patch.
fn ignored(patch: Patch<'_>) -> Option<String> {
    let name = patch.operation();
    let (kind, _, known) = kind_of(patch)?;
    let merges = known.contains(&"MERGE") && known != ON_FILTERS;
    let works = known.contains(&name) || merges && name == REPLACE_LISTS;
    match known {
        [] => Some(format!("{name} does nothing with {kind} since Istio 1.21")),
        _ if works => None,
        _ => Some(format!("{name} does nothing with {kind}: what works is {}", known.join(", "))),
    }
}

fn behind_the_router<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for patch in patches_of(inputs, "HTTP_FILTER") {
        let sub_filter = patch.sub_filter().and_then(Node::text);
        let after_router = sub_filter == Some("envoy.filters.http.router");
        let appends = match patch.operation() {
            "ADD" => true,
            "INSERT_AFTER" => sub_filter.is_none() || after_router,
            _ => false,
        };
        if let Some(operation) = patch.operation_node().filter(|_| appends) {
            findings
                .at(operation, format!("{} puts the filter behind the router", patch.operation()));
        }
    }
}

fn relative_without_priority<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for patch in patches(inputs) {
        let relative = matches!(patch.operation(), "INSERT_BEFORE" | "INSERT_AFTER" | "REPLACE");
        let has_priority = patch.filter.spec().is_some_and(|spec| spec.get("priority").is_some());
        if let Some(operation) = patch.operation_node().filter(|_| relative && !has_priority) {
            let name = patch.operation();
            let message =
                format!("{name} depends on what is there already, and `spec.priority` is missing");
            findings.at(operation, message);
        }
    }
}

fn proxy_version<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for node in patches(inputs).filter_map(Patch::proxy_version) {
        let Some(text) = node.text() else { continue };
        if text.len() > 1024 {
            findings
                .at(node, "the expression is longer than 1024 characters: Istio does not match it");
            continue;
        }
        match regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build().parse(text) {
            Ok(_) => {}
            Err(why) => {
                let why = why.to_string();
                let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
                findings.at(node, format!("`{text}` is no regular expression: {why}"));
            }
        }
    }
}

fn no_selector<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for filter in envoy_filters(inputs) {
        let is_of_team = filter.namespace().is_none_or(|namespace| namespace != ROOT_NAMESPACE);
        let spec = filter.spec().filter(|spec| spec.get("configPatches").is_some());
        let selects = filter.selector().is_some() || filter.policy_targets().next().is_some();
        if let Some(spec) = spec.filter(|_| is_of_team && !selects) {
            findings.at(spec, "there is neither a `workloadSelector` with labels nor `targetRefs`");
        }
    }
}

fn no_patches<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for filter in envoy_filters(inputs) {
        let patches = filter.spec().and_then(|spec| spec.get("configPatches"));
        if patches.is_none_or(Node::is_empty) {
            findings.at(filter.spec().unwrap_or(filter.node), "there is no patch in it");
        }
    }
}

const MANAGER: &str = "envoy.filters.network.http_connection_manager";
/// Former names of Envoy's filters, and the names of today.
const OLD_NAMES: [(&str, &str); 8] = [
    ("envoy.http_connection_manager", MANAGER),
    ("envoy.tcp_proxy", "envoy.filters.network.tcp_proxy"),
    ("envoy.router", "envoy.filters.http.router"),
    ("envoy.lua", "envoy.filters.http.lua"),
    ("envoy.cors", "envoy.filters.http.cors"),
    ("envoy.fault", "envoy.filters.http.fault"),
    ("envoy.ext_authz", "envoy.filters.http.ext_authz"),
    ("envoy.grpc_web", "envoy.filters.http.grpc_web"),
];
fn hopeless_match<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for patch in patches(inputs) {
        let match_key = kind_of(patch).map_or("", |(_, matched_by, _)| matched_by);
        let match_keys = ["listener", "routeConfiguration", "cluster"].into_iter();
        for other in match_keys.filter(|other| !match_key.is_empty() && *other != match_key) {
            if let Some(there) = patch.matching().and_then(|matching| matching.get(other)) {
                let kind = patch.apply_to();
                findings.at(there, format!("{kind} is matched by `{match_key}`, not by `{other}`"));
            }
        }
        let Some(filter) = patch.filter_match() else { continue };
        let (name, sub_filter) = (filter.get("name"), patch.sub_filter());
        for node in [name, sub_filter].into_iter().flatten() {
            let text = node.text().unwrap_or_default();
            if let Some((old, new)) = OLD_NAMES.iter().find(|(old, _)| text == *old) {
                findings.at(node, format!("`{old}` is called `{new}` today"));
            } else if let Some((_, meant)) =
                OLD_NAMES.iter().find(|(_, known)| text != *known && nearly(known, text))
                && patch.apply_to() != "HTTP_FILTER"
            {
                findings.at(node, format!("there is no filter `{text}`: it is `{meant}`"));
            }
        }
        if let Some(sub_filter) = sub_filter.filter(|_| patch.apply_to() == "NETWORK_FILTER") {
            let message = "Istio refuses `subFilter` for a NETWORK_FILTER: it names an HTTP filter";
            findings.at(sub_filter, message);
        }
        let is_manager =
            name.and_then(Node::text).is_some_and(|name| name == MANAGER || OLD_NAMES[0].0 == name);
        if patch.apply_to() == "HTTP_FILTER" && !is_manager {
            findings
                .at(name.unwrap_or(filter), format!("HTTP filters are found in `{MANAGER}` only"));
        }
    }
}
