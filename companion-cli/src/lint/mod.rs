//! Checks manifests before they reach a mesh: EnvoyFilters, pods, Helm values, plain Envoys, for
//! what is known to go wrong with streams that must not be lost.
//!
//! | where | what |
//! |---|---|
//! | `sources`, `tree`, `given`, `node` | files, read into nodes that know their place; all that rules look at |
//! | `objects`, `envoy_filter`, `modules`, `listeners`, `pods`, `reach` | what the nodes mean |
//! | `crds` | what the API server accepts |
//! | `rules` | the rules |
//! | `output` | text, JSON, SARIF |

pub mod crds;
mod envoy_filter;
mod finding;
mod given;
mod ignore;
mod listeners;
mod modules;
mod node;
mod objects;
pub mod output;
mod plain;
mod pods;
mod reach;
mod rules;
mod sources;
mod texts;
mod wasm_filter;

pub use finding::Rule;
pub use finding::{Finding, Severity};
pub use given::Assume;
pub use sources::{LARGEST_FILE, LARGEST_SUM, Source, SourceError, gather};

use std::collections::HashSet;

use given::Given;

/// Everything that is wrong, by file and line.
#[must_use]
pub fn lint(sources: Vec<Source>, assume: Assume) -> Vec<Finding> {
    let given = Given::read(sources, assume);
    let mut findings = Vec::new();
    for rule in rules::all() {
        let mut found = finding::Found::new(rule, &given);
        (rule.check)(&given, &mut found);
        findings.append(&mut found.findings);
    }
    leave_out_explained(&mut findings);
    ignore::apply(&given, &mut findings);
    findings.sort_by(|one, two| {
        let place = |finding: &Finding| (finding.source, finding.line, finding.column);
        place(one)
            .cmp(&place(two))
            .then_with(|| one.rule.code.cmp(two.rule.code))
            .then_with(|| one.message.cmp(&two.message))
    });
    findings.dedup_by(|one, two| {
        (one.source, one.line, one.column, one.rule.code, &one.message)
            == (two.source, two.line, two.column, two.rule.code, &two.message)
    });
    findings
}

/// Where a rule of our own explains what is wrong, the schema's verdict adds nothing.
fn leave_out_explained(findings: &mut Vec<Finding>) {
    let place = |finding: &Finding| (finding.source, finding.line, finding.column);
    let explained: HashSet<_> =
        findings.iter().filter(|finding| !rules::is_of_schema(finding.rule)).map(place).collect();
    findings.retain(|finding| {
        !rules::is_of_schema(finding.rule) || !explained.contains(&place(finding))
    });
}

/// All rules, by code.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    rules::all()
}
