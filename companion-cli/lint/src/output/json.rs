//! Findings as JSON.

use serde_json::{Value, json as value};

use super::Checked;
use crate::{Finding, Severity};

/// All findings, with the number of findings of each severity.
pub fn json(findings: &[Finding], checked: Checked) -> String {
    let count =
        |severity| findings.iter().filter(|finding| finding.rule.severity == severity).count();
    let (sources, number) = match checked {
        Checked::Files(number) => ("files", number),
        Checked::Objects(number) => ("objects", number),
    };
    let document = value!({
        sources: number,
        "errors": count(Severity::Error),
        "warnings": count(Severity::Warning),
        "infos": count(Severity::Info),
        "findings": findings.iter().map(one).collect::<Vec<_>>(),
    });
    format!("{document:#}\n")
}

fn one(finding: &Finding) -> Value {
    let mut fields = value!({
        "code": finding.rule.code,
        "severity": finding.rule.severity.name(),
        "title": finding.rule.title,
        "path": finding.path,
        "message": finding.message,
        "fix": finding.rule.fix,
    });
    match &finding.object {
        Some(object) => fields["object"] = object.json(),
        None => {
            fields["file"] = finding.file.as_str().into();
            fields["line"] = finding.line.into();
            fields["column"] = finding.column.into();
        }
    }
    fields
}
