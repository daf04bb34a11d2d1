//! The rules, grouped by subject. A new rule needs a section in LINT.md, an entry in its group's
//! list, a function below it, and two examples in `tests/lint/rules`.

mod change;
mod clients;
mod composite;
mod delivery;
mod document;
mod envoy_filter;
mod envoy_gateway;
mod fields;
pub(super) mod files;
mod gate;
mod grace;
mod hooks;
mod istio;
mod jobs;
mod live;
mod module;
mod names;
mod overlay;
mod saved_header;
mod schema;
mod scheme;
mod scheme_filters;
mod statistics;
mod streams;
mod traffic;
mod trust;
mod upgrade;
mod volume;
mod waypoint;
mod websockets;
mod words;

use super::finding::{Check, Checks, Rule};
use super::upgrade::Step;
pub(super) use document::rules;

const GROUPS: [Checks; 27] = [
    files::CHECKS,
    schema::CHECKS,
    words::CHECKS,
    envoy_filter::CHECKS,
    names::CHECKS,
    delivery::CHECKS,
    module::CHECKS,
    fields::CHECKS,
    saved_header::CHECKS,
    scheme::CHECKS,
    trust::CHECKS,
    clients::CHECKS,
    composite::CHECKS,
    gate::CHECKS,
    hooks::CHECKS,
    grace::CHECKS,
    overlay::CHECKS,
    volume::CHECKS,
    waypoint::CHECKS,
    envoy_gateway::CHECKS,
    jobs::CHECKS,
    websockets::CHECKS,
    streams::CHECKS,
    istio::CHECKS,
    traffic::CHECKS,
    change::CHECKS,
    live::CHECKS,
];

/// All checks, each with the code of its rule.
fn checks() -> impl Iterator<Item = (&'static str, Check)> {
    let changes = upgrade::CHANGES.iter().map(|(code, .., check)| (*code, *check));
    GROUPS.into_iter().flatten().copied().chain(changes)
}

fn is_of(group: Checks, rule: &Rule) -> bool {
    group.iter().any(|(code, _)| *code == rule.code)
}

/// All rules, without those about upgrades.
pub(super) fn all() -> impl Iterator<Item = &'static Rule> {
    rules().filter(|rule| !upgrade::CHANGES.iter().any(|(code, ..)| *code == rule.code))
}

/// The rules about a change, and those about files that cannot be read: without their objects a
/// change looks smaller than it is.
pub(super) fn of_changes() -> impl Iterator<Item = &'static Rule> {
    rules().filter(|rule| files::hides_objects(rule) || is_of(change::CHECKS, rule))
}

/// The rules about these steps, and those about what could not be read: LS809 is of clusters.
pub(super) fn of_upgrades(steps: &[Step]) -> impl Iterator<Item = &'static Rule> {
    let is_covered = |rule: &Rule| {
        let mut rows = upgrade::CHANGES.iter().filter(|(code, ..)| *code == rule.code);
        rows.any(|(_, program, since, _)| steps.iter().any(|step| step.covers(program, *since)))
    };
    rules()
        .filter(move |rule| files::hides_objects(rule) || rule.code == "LS809" || is_covered(rule))
}

/// The rules about the objects of a cluster. Its API server has judged each by its CRD, and has
/// written the text itself.
pub(super) fn of_clusters() -> impl Iterator<Item = &'static Rule> {
    all().filter(|rule| {
        let is_of_text =
            is_of_words(rule) || is_of(files::CHECKS, rule) && !files::hides_objects(rule);
        !is_of_text && !is_of_schema(rule)
    })
}

/// Whether a rule reports misspelt words.
pub(super) fn is_of_words(rule: &Rule) -> bool {
    is_of(words::CHECKS, rule)
}

/// Whether a rule only reports verdicts of a CRD's schema.
pub(super) fn is_of_schema(rule: &Rule) -> bool {
    is_of(schema::CHECKS, rule)
}
