//! The tables of docs/monitoring.md, from the files of envoyfilter-manifests/monitoring, and the
//! runbooks of its alerts.

use super::links::Document;
use super::read;
use kit::prelude::*;

/// The rules with this key: `alert` or `record`.
fn rules(key: &str) -> Outcome<Vec<Value>> {
    let text = read("envoyfilter-manifests/monitoring/prometheus-rules.yaml")?;
    let file: Value = serde_saphyr::from_str(&text)?;
    let rules = file["groups"][0]["rules"].as_array().context("rules")?;
    Ok(rules.iter().filter(|rule| rule[key].is_string()).cloned().collect())
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The alerts, with links to their sections.
pub(super) fn alerts() -> Outcome<String> {
    let mut rows = String::from("| alert | severity | after | reason |\n|---|---|---|---|\n");
    for alert in rules("alert")? {
        let name = text(&alert, "/alert");
        rows.push_str(&format!(
            "| [{name}](#{}) | {} | {} | {} |\n",
            name.to_ascii_lowercase(),
            text(&alert, "/labels/severity"),
            alert["for"].as_str().unwrap_or("at once"),
            text(&alert, "/annotations/description"),
        ));
    }
    Ok(rows)
}

/// The panels of the dashboard.
pub(super) fn panels() -> Outcome<String> {
    let dashboard = read("envoyfilter-manifests/monitoring/grafana-dashboard.json")?;
    let dashboard: Value = serde_json::from_str(&dashboard)?;
    let mut rows = String::from("| panel | reason | expression |\n|---|---|---|\n");
    for panel in dashboard["panels"].as_array().context("panels")? {
        let expression = text(panel, "/targets/0/expr").replace('|', "\\|");
        let [title, reason] = ["/title", "/description"].map(|place| text(panel, place));
        rows.push_str(&format!("| {title} | {reason} | `{expression}` |\n"));
    }
    Ok(rows)
}

/// Each alert links to a separate section with more than 20 words, and each recorded series is
/// in the document.
pub(super) fn each_alert_has_a_runbook() -> Outcome {
    let page = read("docs/monitoring.md")?;
    let document = Document::of(&page);
    let alerts = rules("alert")?;
    ensure!(alerts.len() >= 8, "{} alerts", alerts.len());
    for alert in &alerts {
        let (name, runbook) = (text(alert, "/alert"), text(alert, "/annotations/runbook_url"));
        let (address, anchor) = runbook.split_once('#').context("an anchor")?;
        ensure!(address.ends_with("/docs/monitoring.md"), "{address}");
        ensure!(document.anchors.contains(anchor), "docs/monitoring.md has no section {anchor}");
        let section = page.split(&format!("### {name}\n")).nth(1).context("a section")?;
        let section = section.split("\n##").next().unwrap_or_default();
        ensure!(section.split_whitespace().count() > 20, "{name}: {section}");
    }
    for rule in rules("record")? {
        let name = text(&rule, "/record");
        ensure!(page.contains(&format!("| `{name}` |")), "docs/monitoring.md has no {name}");
    }
    Ok(())
}
