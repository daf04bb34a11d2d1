//! Findings as JSON.

use serde_json::{Value, json as value};

use super::Checked;
use crate::change::CutStreams;
use crate::{Finding, Rule, Severity};

/// All findings, with the number of findings of each severity, and the streams that a change would
/// cut now, if a cluster was asked.
pub fn json(findings: &[Finding], checked: Checked, cut: Option<&[CutStreams]>) -> String {
    format!("{:#}\n", document(findings, checked, cut))
}

/// The same as a value, to which more can be added.
pub fn document(findings: &[Finding], checked: Checked, cut: Option<&[CutStreams]>) -> Value {
    let count =
        |severity| findings.iter().filter(|finding| finding.rule.severity == severity).count();
    let (sources, number) = match checked {
        Checked::Files(number) | Checked::ObjectsOfFiles { files: number, .. } => ("files", number),
        Checked::Objects(number) => ("objects", number),
    };
    let mut document = value!({
        sources: number,
        "errors": count(Severity::Error),
        "warnings": count(Severity::Warning),
        "infos": count(Severity::Info),
        "findings": findings.iter().map(one).collect::<Vec<_>>(),
    });
    if let Checked::ObjectsOfFiles { read, .. } = checked {
        document["objects_read"] = read.into();
    }
    if let Some(cut) = cut {
        document["cut_now"] = value!(cut);
    }
    document
}

fn one(finding: &Finding) -> Value {
    let Rule { code, severity, title, fix, .. } = finding.rule;
    let mut fields = value!({ "code": code, "severity": severity, "title": title });
    match &finding.object {
        Some(object) => fields["object"] = value!(object),
        None => {
            fields["file"] = finding.file.as_str().into();
            fields["line"] = finding.line.into();
            fields["column"] = finding.column.into();
        }
    }
    fields["path"] = finding.path.as_str().into();
    fields["message"] = finding.message.as_str().into();
    fields["fix"] = (*fix).into();
    fields
}
