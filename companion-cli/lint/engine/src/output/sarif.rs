//! Findings as SARIF 2.1.0, which code hosts show beside the lines of a change.

use std::path::Path;

use serde_json::{Value, json as value};

use crate::Linter;
use crate::{Finding, Rule, STDIN, Severity};

/// All findings, and the rules that they belong to. Files below the folder `base` get paths
/// relative to it.
pub fn sarif(linter: &Linter, findings: &[Finding], base: Option<&Path>) -> String {
    let mut rules: Vec<&Rule> = findings.iter().map(|finding| finding.rule).collect();
    rules.sort_unstable_by_key(|rule| rule.code);
    rules.dedup_by_key(|rule| rule.code);
    let results: Vec<Value> =
        findings.iter().map(|finding| result(finding, &rules, base)).collect();
    let document = value!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {
                "driver": {
                    "name": linter.facts.program,
                    "version": linter.facts.version,
                    "rules": rules.iter().map(|rule| descriptor(rule)).collect::<Vec<_>>(),
                },
            },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    format!("{document:#}\n")
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

fn descriptor(rule: &Rule) -> Value {
    value!({
        "id": rule.code,
        "shortDescription": { "text": rule.title },
        "fullDescription": { "text": rule.why },
        "help": { "text": rule.fix },
        "defaultConfiguration": { "level": level(rule.severity) },
    })
}

/// The file and the region of a finding. An object of a cluster has a path of its own, and the
/// first line, because code hosts want one.
fn physical(finding: &Finding, base: Option<&Path>) -> Value {
    if let Some(object) = &finding.object {
        return value!({
            "artifactLocation": { "uri": uri(&object.path(), None) },
            "region": { "startLine": 1 },
        });
    }
    value!({
        "artifactLocation": { "uri": uri(&finding.file, base) },
        "region": {
            "startLine": finding.line,
            "startColumn": finding.column,
            "endColumn": finding.column + finding.width,
        },
    })
}

fn result(finding: &Finding, rules: &[&Rule], base: Option<&Path>) -> Value {
    value!({
        "ruleId": finding.rule.code,
        "ruleIndex": rules.iter().position(|rule| rule.code == finding.rule.code),
        "level": level(finding.rule.severity),
        "message": { "text": format!("{}. {}", finding.message, finding.rule.fix) },
        "locations": [{
            "physicalLocation": physical(finding, base),
            "logicalLocations": [{ "fullyQualifiedName": finding.path }],
        }],
    })
}

/// The URI of a file: relative for a file below `base`, a `file:` URI for other absolute paths.
fn uri(file: &str, base: Option<&Path>) -> String {
    if file == STDIN {
        return "stdin".into();
    }
    let path = Path::new(file);
    let relative = base.and_then(|base| path.strip_prefix(base).ok()).unwrap_or(path);
    let mut uri = String::from(if relative.is_absolute() { "file://" } else { "" });
    for byte in relative.display().to_string().bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte))
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::uri;

    #[test]
    fn uris_are_relative_to_the_base_folder() {
        let base = Some(Path::new("/srv/mesh"));
        assert_eq!(uri("/srv/mesh/a b/ü.yaml", base), "a%20b/%C3%BC.yaml");
        assert_eq!(uri("gateway.yaml", base), "gateway.yaml");
        assert_eq!(uri("<stdin>", base), "stdin");
        assert_eq!(uri("/etc/x.yaml", base), "file:///etc/x.yaml");
    }
}
