//! Findings as JSON.

use serde_json::{Value, json as value};

use crate::{Finding, Severity};

/// All findings, with the number of findings of each severity.
pub fn json(findings: &[Finding], files: usize) -> String {
    let count =
        |severity| findings.iter().filter(|finding| finding.rule.severity == severity).count();
    let document = value!({
        "files": files,
        "errors": count(Severity::Error),
        "warnings": count(Severity::Warning),
        "infos": count(Severity::Info),
        "findings": findings.iter().map(one).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn one(finding: &Finding) -> Value {
    value!({
        "code": finding.rule.code,
        "severity": finding.rule.severity.name(),
        "title": finding.rule.title,
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "path": finding.path,
        "message": finding.message,
        "fix": finding.rule.fix,
    })
}
