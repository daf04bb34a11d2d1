//! Checks manifests before they reach a mesh (EnvoyFilters, pods, Helm values, plain Envoys) for
//! known mistakes that lose streams.
//!
//! | where | what |
//! |---|---|
//! | `sources`, `template`, `texts`, `inputs`, `node` | files as trees of nodes with positions |
//! | `value`, `plain` | a node as the JSON value that the API server gets |
//! | `index`, `objects` | objects by kind and name |
//! | `envoy_filter`, `modules`, `listeners`, `reach` | filters, and the proxies that they reach |
//! | `envoys`, `bootstraps` | bootstraps, whole and in parts |
//! | `pods`, `split_pods`, `overlaid`, `volumes` | pods, their parts in files, volumes |
//! | `proxy_protocol` | filters and settings that take PROXY protocol headers |
//! | `read` | the objects that rules read |
//! | `words` | the words of rendered files |
//! | `crds` | the API server's verdict on objects |
//! | `change` | the effects of a change in Envoy |
//! | `upgrade` | steps between versions of Istio, Envoy, Envoy Gateway, Kubernetes |
//! | `assess` | the settings that decide what the next stop of a proxy cuts |
//! | `cluster`, `live` | a cluster's objects; the facts that are in none of them |
//! | `rules` | the rules; their texts are in LINT.md |
//! | `output` | text, JSON, SARIF |

#![allow(missing_docs, reason = "a comment says why: the names of an internal crate say what")]

mod assess;
mod assume;
mod bootstraps;
pub mod change;
pub mod cluster;
pub mod crds;
mod envoy_filter;
mod envoys;
mod finding;
mod ignore;
mod index;
mod inputs;
mod kustomize;
#[cfg(test)]
mod linear;
mod listeners;
pub mod live;
mod modules;
mod node;
mod objects;
pub mod output;
mod overlaid;
mod plain;
mod plugin_configs;
mod pods;
mod proxy_protocol;
mod reach;
mod read;
mod rules;
mod sources;
mod split_pods;
mod template;
mod texts;
pub mod upgrade;
mod value;
mod volumes;
mod wasm_filter;
mod words;

pub use assess::{Assessment, assess};
pub use assume::Assume;
pub use finding::{Finding, Rule, Severity};
pub use sources::{LARGEST_FILE, SourceError, SourceFile, gather};

use std::collections::HashSet;

use inputs::Inputs;

/// All findings in files.
///
/// # Errors
/// The files hold more values than allowed.
pub fn lint(sources: Vec<SourceFile>, assume: Assume) -> Result<Vec<Finding>, SourceError> {
    Ok(judged(&Inputs::read(sources, assume)?, rules::all()))
}

/// What is judged of inputs: the findings, and what the next stop of each proxy cuts.
#[derive(Debug, Default)]
pub struct Verdict {
    pub findings: Vec<Finding>,
    pub assessment: Assessment,
    /// The number of objects that rules read.
    pub objects: usize,
}

impl Verdict {
    /// Takes in the verdict on another part of a cluster.
    fn add(&mut self, other: Self) {
        self.findings.extend(other.findings);
        self.assessment.add(other.assessment);
    }
}

/// The verdict on files.
///
/// # Errors
/// The files hold more values than allowed.
pub fn judge(sources: Vec<SourceFile>, assume: Assume) -> Result<Verdict, SourceError> {
    let inputs = Inputs::read(sources, assume)?;
    Ok(Verdict {
        findings: judged(&inputs, rules::all()),
        assessment: assess::assessed(&inputs),
        objects: read::objects_of_rules(&inputs),
    })
}

/// The findings of these rules, or of those about an upgrade.
fn judged(inputs: &Inputs, usual: impl Iterator<Item = &'static Rule>) -> Vec<Finding> {
    match inputs.assume.upgrade.as_slice() {
        [] => findings_of(inputs, usual),
        steps => findings_of(inputs, rules::of_upgrades(steps)),
    }
}

fn findings_of(inputs: &Inputs, rules: impl Iterator<Item = &'static Rule>) -> Vec<Finding> {
    let (mut findings, mut skipped) = (Vec::new(), Vec::new());
    for rule in rules.filter(|rule| !inputs.assume.ignored.contains(&rule.code)) {
        let mut found = finding::Findings::new(rule, inputs);
        rule.checks.iter().for_each(|check| check(inputs, &mut found));
        findings.append(&mut found.list);
        skipped.append(&mut found.skipped);
    }
    findings.extend(rules::files::filled_in_later(inputs, skipped));
    ignore::apply(inputs, &mut findings);
    leave_out_explained(&mut findings);
    findings.sort_by(|one, two| key(one).cmp(&key(two)));
    findings.dedup_by(|one, two| key(one) == key(two));
    findings
}

/// The order of findings. Two with the same key are one.
fn key(finding: &Finding) -> ((u32, u32, u32), &str, &str) {
    (place(finding), finding.rule.code, finding.message.as_str())
}

fn place(finding: &Finding) -> (u32, u32, u32) {
    (finding.source, finding.line, finding.column)
}

/// Removes the schema's verdict where an error of another rule explains the problem, and misspelt
/// words that any other rule reports. A warning removes no verdict, because it does not say that
/// the API server refuses the object.
fn leave_out_explained(findings: &mut Vec<Finding>) {
    let others = findings.iter().filter(|finding| !rules::is_of_words(finding.rule));
    let others: HashSet<_> = others.map(place).collect();
    findings
        .retain(|finding| !rules::is_of_words(finding.rule) || !others.contains(&place(finding)));
    let explains = |finding: &&Finding| {
        finding.rule.severity == Severity::Error && !rules::is_of_schema(finding.rule)
    };
    let explained: HashSet<_> = findings.iter().filter(explains).map(place).collect();
    findings.retain(|finding| {
        !rules::is_of_schema(finding.rule) || !explained.contains(&place(finding))
    });
}

/// All rules, in the order of their codes.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    rules::rules()
}
