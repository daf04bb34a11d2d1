//! The rules as text: one explained, all in a list.

use std::fmt::Write as _;

use serde_json::json as value;

use crate::{Rule, rules};

pub fn explanation(rule: &Rule) -> String {
    let Rule { code, severity, title, why, fix, .. } = rule;
    format!(
        "{code} ({}): {title}\n\n{why}\n\nfix: {fix}\n\nignore it: a comment `# laststream-lint: \
            ignore={code}` at the line, or --ignore {code}\n",
        severity.name()
    )
}

/// A line for each rule.
pub fn list() -> String {
    rules().fold(String::new(), |mut out, rule| {
        let _ = writeln!(out, "{}  {:<8} {}", rule.code, rule.severity.name(), rule.title);
        out
    })
}

pub fn list_json() -> String {
    format!("{:#}\n", value!(rules().collect::<Vec<_>>()))
}
