//! The exact output for one file, and the fields of SARIF.

use std::collections::BTreeSet;

use laststream_lint::{Finding, LINTER, output};
use serde_json::Value;

use crate::support::{Example, folder, of_rules};

fn findings() -> Vec<Finding> {
    Example::read(&folder("golden").join("input.yaml")).findings()
}

/// Compares with a file, or writes it for `cargo bless`.
pub(crate) fn golden(name: &str, text: &str) {
    let path = folder("golden").join(name);
    if std::env::var_os("LASTSTREAM_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(wanted == text, "{name} is another; if that is meant, run `cargo bless`\n{text}");
}

#[test]
fn the_golden_outputs_are_made_from_one_file() {
    let findings = findings();
    let text = output::text(&findings);
    golden("output.txt", &without_colours(&text));
    golden("output.json", &output::json(&findings, output::Checked::Files(1), None));
    golden(
        "output.sarif",
        &output::sarif(&LINTER, &findings, None).replace(env!("CARGO_PKG_VERSION"), "VERSION"),
    );
}

fn without_colours(text: &str) -> String {
    let mut out = String::new();
    let mut parts = text.split('\u{1b}');
    out += parts.next().unwrap();
    for part in parts {
        out += part.split_once('m').unwrap().1;
    }
    out
}

/// Code hosts show the texts of the rules that are listed: those that have results.
#[test]
fn sarif_has_the_fields_that_code_hosts_need() {
    let findings: Vec<_> = of_rules().iter().flat_map(Example::findings).collect();
    let sarif: Value = serde_json::from_str(&output::sarif(&LINTER, &findings, None)).unwrap();
    let run = &sarif["runs"][0];
    let descriptors = run["tool"]["driver"]["rules"].as_array().unwrap();
    let codes: BTreeSet<&str> = findings.iter().map(|finding| finding.rule.code).collect();
    assert!(descriptors.iter().map(|rule| rule["id"].as_str().unwrap()).eq(codes));
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), findings.len());
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(descriptors[index]["id"], result["ruleId"]);
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let place = &result["locations"][0]["physicalLocation"];
        assert!(!place["artifactLocation"]["uri"].as_str().unwrap().starts_with('/'), "{place}");
        let region = &place["region"];
        assert!(
            region["startLine"].as_u64().unwrap() >= 1
                && region["endColumn"].as_u64() > region["startColumn"].as_u64(),
            "{region}"
        );
    }
}

#[test]
fn marks_stand_under_the_reported_value() {
    let text = "kind: Job\nspec:\n  template:\n    \
                spec: {a: \"\u{e4}\u{f6}\", shareProcessNamespace: true}\n";
    let example = Example { name: "a.yaml".into(), text: text.into() };
    let shown = without_colours(&output::text(&example.findings()));
    let lines: Vec<_> = shown.lines().collect();
    let (line, mark) = (lines[3], lines[4]);
    let at = mark.chars().position(|character| character == '^').unwrap();
    assert_eq!(line.chars().skip(at).take(4).collect::<String>(), "true", "{shown}");
    assert_eq!(mark.trim_end().chars().filter(|character| *character == '^').count(), 4, "{shown}");
}
