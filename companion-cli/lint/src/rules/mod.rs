//! The rules, grouped by subject. A new rule needs an entry in its group's list, a function below
//! it, and two examples in `tests/lint/rules`.

mod change;
mod clients;
mod composite;
mod delivery;
mod ends;
mod envoy_filter;
mod envoy_gateway;
mod files;
mod gate;
mod grace;
mod hooks;
mod jobs;
mod live;
mod module;
mod names;
mod overlay;
mod proxied;
mod saved_header;
mod schema;
mod scheme;
mod scheme_filters;
mod scheme_helpers;
mod streams;
mod traffic;
mod trust;
mod upgrade;
mod volume;
mod waypoint;
mod websockets;

use super::finding::Rule;
use super::upgrade::Step;

/// All rules, by code, without those about upgrades.
pub(super) fn all() -> impl Iterator<Item = &'static Rule> {
    [
        files::RULES,
        schema::RULES,
        envoy_filter::RULES,
        names::RULES,
        delivery::RULES,
        module::RULES,
        saved_header::RULES,
        scheme::RULES,
        trust::RULES,
        clients::RULES,
        proxied::RULES,
        composite::RULES,
        gate::RULES,
        hooks::RULES,
        grace::RULES,
        overlay::RULES,
        volume::RULES,
        waypoint::RULES,
        envoy_gateway::RULES,
        jobs::RULES,
        ends::RULES,
        websockets::RULES,
        streams::RULES,
        traffic::RULES,
        change::RULES,
        live::RULES,
    ]
    .into_iter()
    .flatten()
}

/// The rules about a change, and those about files that cannot be read: without their objects a
/// change looks smaller than it is.
pub(super) fn of_changes() -> impl Iterator<Item = &'static Rule> {
    files::RULES.iter().filter(|rule| files::hides_objects(rule)).chain(change::RULES)
}

/// The rules about upgrades, by code.
pub(super) fn upgrades() -> impl Iterator<Item = &'static Rule> {
    upgrade::CHANGES.iter().map(|change| &change.rule)
}

/// The rules about these steps, and those about files that cannot be read.
pub(super) fn of_upgrades(steps: &[Step]) -> impl Iterator<Item = &'static Rule> {
    let is_covered = |change: &&upgrade::Change| {
        steps.iter().any(|step| step.covers(change.program, change.since))
    };
    let changes = upgrade::CHANGES.iter().filter(is_covered).map(|change| &change.rule);
    files::RULES.iter().filter(|rule| files::hides_objects(rule)).chain(changes)
}

/// The rules about what the API server refuses.
pub(super) fn about_rights() -> impl Iterator<Item = &'static Rule> {
    live::RULES.iter().filter(|rule| rule.code == "LS809")
}

/// The rules about the objects of a cluster. Its API server has judged each by its CRD, and has
/// written the text itself.
pub(super) fn of_clusters() -> impl Iterator<Item = &'static Rule> {
    all().filter(|rule| {
        let is_of_text = files::RULES.contains(rule) && !files::hides_objects(rule);
        !is_of_text && !is_of_schema(rule)
    })
}

/// Whether a rule only reports verdicts of a CRD's schema.
pub(super) fn is_of_schema(rule: &Rule) -> bool {
    schema::RULES.contains(rule)
}
