//! The same data as tables for the documents.

use super::Settings;
use super::dashboard::PANELS;
use super::rules::{Group, groups};
use crate::policy::file::Monitoring;

/// The rules with all defaults, for a placeholder job.
fn usual() -> Vec<Group> {
    groups(&Settings { job: "JOB".into(), monitoring: Monitoring::default() })
}

/// The recorded series, a row for each name.
#[must_use]
pub fn recordings() -> String {
    let mut rows = String::from("| series | what |\n|---|---|\n");
    let mut last = "";
    for rule in usual().iter().flat_map(|group| &group.recordings) {
        if rule.record != last {
            rows.push_str(&format!("| `{}` | {} |\n", rule.record, rule.reason));
        }
        last = rule.record;
    }
    rows
}

/// The alerts, with links to their sections.
#[must_use]
pub fn alerts() -> String {
    let mut rows = String::from("| alert | severity | after | reason |\n|---|---|---|---|\n");
    for alert in usual().iter().flat_map(|group| &group.alerts) {
        let pending = alert.pending.as_deref().unwrap_or("at once");
        rows.push_str(&format!(
            "| [{name}](#{}) | {} | {pending} | {} |\n",
            alert.name.to_ascii_lowercase(),
            alert.severity,
            alert.reason,
            name = alert.name,
        ));
    }
    rows
}

/// The panels of the dashboard.
#[must_use]
pub fn panels() -> String {
    let mut rows = String::from("| panel | reason | expression |\n|---|---|---|\n");
    for panel in PANELS {
        let expr = panel.expression().replace('|', "\\|");
        rows.push_str(&format!("| {} | {} | `{expr}` |\n", panel.title, panel.reason));
    }
    rows
}
