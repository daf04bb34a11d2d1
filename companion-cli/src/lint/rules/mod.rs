//! The rules, grouped by what they look at. A new one is an entry in its group's list and a
//! function below it; its examples are two files in `tests/lint/rules`.

mod clients;
mod delivery;
mod envoy_filter;
mod envoy_gateway;
mod files;
mod gate;
mod grace;
mod hooks;
mod jobs;
mod module;
mod names;
mod overlay;
mod schema;
mod scheme;
mod traffic;
mod trust;
mod volume;
mod waypoint;

use super::finding::Rule;

/// All rules, by code.
pub(super) fn all() -> impl Iterator<Item = &'static Rule> {
    [
        files::RULES,
        schema::RULES,
        envoy_filter::RULES,
        names::RULES,
        delivery::RULES,
        module::RULES,
        scheme::RULES,
        trust::RULES,
        clients::RULES,
        gate::RULES,
        hooks::RULES,
        grace::RULES,
        overlay::RULES,
        volume::RULES,
        waypoint::RULES,
        envoy_gateway::RULES,
        jobs::RULES,
        traffic::RULES,
    ]
    .into_iter()
    .flatten()
}

/// Whether a rule only hands on what a CRD's schema says.
pub(super) fn is_of_schema(rule: &Rule) -> bool {
    schema::RULES.contains(rule)
}
