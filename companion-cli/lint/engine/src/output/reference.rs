//! The rules as text: one explained, all in a list.

use std::fmt::Write as _;

use serde_json::json as value;

use crate::Linter;
use crate::Rule;

pub fn explanation(linter: &Linter, rule: &Rule) -> String {
    let Rule { code, severity, title, why, fix, .. } = rule;
    format!(
        "{code} ({}): {title}\n\n{why}\n\nfix: {fix}\n\nignore it: a comment `# {}-lint: \
            ignore={code}` at the line, or --ignore {code}\n",
        severity.name(),
        linter.facts.program
    )
}

/// A line for each rule.
pub fn list(linter: &'static Linter) -> String {
    linter.rules().fold(String::new(), |mut out, rule| {
        let _ = writeln!(out, "{}  {:<8} {}", rule.code, rule.severity.name(), rule.title);
        out
    })
}

pub fn list_json(linter: &'static Linter) -> String {
    format!("{:#}\n", value!(linter.rules().collect::<Vec<_>>()))
}
