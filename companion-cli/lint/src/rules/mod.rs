//! The rules, grouped by subject. A new rule needs a section in LINT.md, an entry in its group's
//! list, a function below it, and two examples in `tests/lint/rules`.

mod clients;
mod composite;
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
mod streams;
mod traffic;
mod trust;
mod upgrade;
mod volume;
mod waypoint;
mod websockets;

use manifest_lint::finding::Checks;
pub(super) use upgrade::CHANGES;

pub(super) const GROUPS: &[Checks] = &[
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
    volume::CHECKS,
    waypoint::CHECKS,
    managed::CHECKS,
    envoy_gateway::CHECKS,
    websockets::CHECKS,
    streams::CHECKS,
    traffic::CHECKS,
    live::CHECKS,
];

#[cfg(test)]
mod tests {
    use manifest_lint::finding::Rule;

    use crate::LINTER;

    #[test]
    fn each_check_has_a_section_and_each_section_a_check() {
        let mut codes: Vec<&str> = LINTER.codes().collect();
        codes.sort_unstable();
        codes.dedup();
        let read: Vec<&str> = LINTER.rules().map(|rule| rule.code).collect();
        assert_eq!(read, codes);
        assert_eq!(LINTER.facts.document.matches("\n## ").count(), codes.len());
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
