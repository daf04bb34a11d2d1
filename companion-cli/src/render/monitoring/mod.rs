//! Monitoring of a fleet: rules and alerts for Prometheus, the ways to scrape, and a dashboard.
//! Typed data first ([`rules`], [`dashboard`], `scrape`); each form is written from it.

pub mod dashboard;
mod objects;
pub mod rules;
mod scrape;
mod tables;

use super::{Rendered, metadata};
use crate::policy::file::{Monitoring, Placement};
use crate::policy::{Policy, PolicyProblem};

pub use tables::{alerts, panels, recordings};

/// docs/monitoring.md of this project.
const RUNBOOK: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/monitoring.md");

/// The settings that all forms share.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The label `job` of all series, which separates the series of several policies.
    pub job: String,
    /// Intervals, shares and addresses.
    pub monitoring: Monitoring,
}

impl Settings {
    /// The settings of a policy, with defaults for missing values.
    #[must_use]
    pub fn of(policy: &Policy) -> Self {
        let job = policy
            .namespace
            .iter()
            .map(String::as_str)
            .chain([policy.name.as_str()])
            .collect::<Vec<_>>()
            .join("/");
        Self { job, monitoring: policy.monitoring.clone().unwrap_or_default() }
    }

    /// The runbook's section about an alert.
    fn runbook(&self, alert: &str) -> String {
        let page = self.monitoring.runbook.as_deref().unwrap_or(RUNBOOK);
        format!("{page}#{}", alert.to_ascii_lowercase())
    }
}

pub(super) fn render(policy: &Policy) -> Result<Rendered, PolicyProblem> {
    let settings = Settings::of(policy);
    if matches!(policy.placement, Placement::Envoy(_)) && settings.monitoring.targets.is_empty() {
        return Err(PolicyProblem::new(
            "monitoring.targets",
            "is required for an Envoy without a mesh: write `HOST:PORT` of each admin interface, \
                or of a listener that leads to `/stats/prometheus` there",
        ));
    }
    let mut warnings = Vec::new();
    if policy.monitoring.is_none() && policy.gate_port.is_some() {
        warnings.push(NOT_CURRENT.to_owned());
    }
    if policy.gate_port.is_none() {
        warnings.push(NO_GATE.to_owned());
    }
    let groups = rules::groups(&settings);
    let mut files = Vec::new();
    if settings.monitoring.targets.is_empty() {
        files.push(objects::pod_monitor(policy, &settings));
    }
    files.push(objects::prometheus_rule(policy, &groups));
    files.push(objects::rules_file(&groups));
    files.push(objects::prometheus(policy, &settings));
    files.push(objects::dashboard());
    Ok(Rendered { files, warnings })
}

const NOT_CURRENT: &str = "monitoring: is not in the policy, so a serving gate does not evaluate \
    its count, and `LaststreamCountNotExact` sees only drains: write `monitoring: {}`, and render \
    the gate again";
const NO_GATE: &str = "gate: there is none, so the alerts about drains and counts never fire";
