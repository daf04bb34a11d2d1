//! Findings as JSON.

use serde_json::{Value, json as value};

use super::Checked;
use crate::change::CutStreams;
use crate::{Finding, Severity};

/// All findings, with the number of findings of each severity, and the streams that a change would
/// cut now, if a cluster was asked.
pub fn json(findings: &[Finding], checked: Checked, cut: Option<&[CutStreams]>) -> String {
    let count =
        |severity| findings.iter().filter(|finding| finding.rule.severity == severity).count();
    let (sources, number) = match checked {
        Checked::Files(number) => ("files", number),
        Checked::Objects(number) => ("objects", number),
    };
    let mut document = value!({
        sources: number,
        "errors": count(Severity::Error),
        "warnings": count(Severity::Warning),
        "infos": count(Severity::Info),
        "findings": findings.iter().map(one).collect::<Vec<_>>(),
    });
    if let (Some(cut), Value::Object(fields)) = (cut, &mut document) {
        fields.insert("cut_now".to_owned(), value!(cut));
    }
    format!("{document:#}\n")
}

fn one(finding: &Finding) -> Value {
    let mut fields = value!({
        "code": finding.rule.code,
        "severity": finding.rule.severity.name(),
        "title": finding.rule.title,
    });
    let place = match &finding.object {
        Some(object) => value!({ "object": object }),
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
