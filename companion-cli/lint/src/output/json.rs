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
    });
    let place = match &finding.object {
        Some(object) => value!({ "object": object.json() }),
        None => value!({
            "file": finding.file, "line": finding.line, "column": finding.column,
        }),
    };
    let rest = value!({
        "path": finding.path, "message": finding.message, "fix": finding.rule.fix,
    });
    for part in [place, rest] {
        if let (Some(all), Value::Object(part)) = (fields.as_object_mut(), part) {
            all.extend(part);
        }
    }
    fields
}
