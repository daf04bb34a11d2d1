//! The rules, grouped by subject. A group is a folder: `rules.md` with the texts, the checks, each
//! with the code of its rule, and two examples of each rule.

mod clients;
mod delivery;
mod envoy_gateway;
mod fields;
mod gate;
mod grace;
mod hooks;
mod live;
mod managed;
mod module;
mod saved_header;
mod scheme;
mod scheme_filters;
mod statistics;
mod traffic;
mod trust;
mod upgrade;
mod volume;
mod waypoint;

use manifest_lint::Group;
pub(super) use upgrade::CHANGES;

pub(super) const GROUPS: &[Group] = &[
    (include_str!("delivery/rules.md"), delivery::CHECKS),
    (include_str!("module/rules.md"), module::CHECKS),
    (include_str!("fields/rules.md"), fields::CHECKS),
    (include_str!("saved_header/rules.md"), saved_header::CHECKS),
    (include_str!("scheme/rules.md"), scheme::CHECKS),
    (include_str!("trust/rules.md"), trust::CHECKS),
    (include_str!("clients/rules.md"), clients::CHECKS),
    (include_str!("gate/rules.md"), gate::CHECKS),
    (include_str!("hooks/rules.md"), hooks::CHECKS),
    (include_str!("grace/rules.md"), grace::CHECKS),
    (include_str!("volume/rules.md"), volume::CHECKS),
    (include_str!("waypoint/rules.md"), waypoint::CHECKS),
    (include_str!("managed/rules.md"), managed::CHECKS),
    (include_str!("envoy_gateway/rules.md"), envoy_gateway::CHECKS),
    (include_str!("traffic/rules.md"), traffic::CHECKS),
    (include_str!("live/rules.md"), live::CHECKS),
    (include_str!("upgrade/rules.md"), &[]), // the checks are in `upgrade::CHANGES`
];

#[cfg(test)]
mod tests {
    use manifest_lint::Rule;

    use crate::LINTER;

    #[test]
    fn each_section_has_the_same_form() {
        for rule in LINTER.rules() {
            let Rule { title, why, fix, .. } = rule;
            assert!([title, why, fix].iter().all(|text| !text.contains('\n')), "{rule:?}");
            assert!(!title.is_empty() && !title.ends_with('.') && why.ends_with('.'), "{rule:?}");
            assert!(fix.ends_with(['.', ')']), "{rule:?}");
            let is_sourced = fix.contains("(https://");
            assert!(is_sourced || rule.code < "LS901", "{} has no source", rule.code);
        }
    }
}
