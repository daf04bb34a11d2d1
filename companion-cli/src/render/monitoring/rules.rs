//! The rules: recorded series and alerts. All series carry the label `job` of the policy.
//!
//! If no scrape shows that a proxy has gone, Prometheus keeps its last sample for five minutes.
//! States are therefore joined with `up`. Events are not, because a drain's last event is often the
//! last sample that its pod exports.

use strum::VariantArray as _;

use laststream_filter::config::wire::Scope;
use laststream_filter::forwarded::Verdict;
use laststream_filter::metrics;

use super::Settings;
use crate::base::time_span::TimeSpan;

/// A series that is computed from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// The series' name.
    pub record: &'static str,
    /// The expression.
    pub expr: String,
    /// Labels that are added.
    pub labels: Vec<(&'static str, String)>,
    /// The reason for it.
    pub reason: &'static str,
}

/// A condition that an operator must know of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// Its name; in lower case, the anchor of its runbook section.
    pub name: &'static str,
    /// The expression; each series of its result fires.
    pub expr: String,
    /// How long a series must be in the result before it fires.
    pub pending: Option<String>,
    /// `critical`: requests are being cut. `warning`: they will be.
    pub severity: &'static str,
    /// One line with the labels of the series that fires.
    pub summary: &'static str,
    /// The reason for it.
    pub reason: &'static str,
    /// The address of its section in the runbook.
    pub runbook: String,
}

/// Rules that are evaluated one after the other: alerts see the series that were recorded before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// How often the rules are evaluated: with each scrape, because a drain is short.
    pub interval: String,
    /// The recorded series, in order.
    pub recordings: Vec<Recording>,
    /// The alerts, evaluated after them.
    pub alerts: Vec<Alert>,
}

/// The series that rules and dashboard share.
pub(super) const STATE: &str = "laststream:gate_state";
pub(super) const IN_FLIGHT: &str = "laststream:streams_in_flight";
pub(super) const PROGRESS: &str = "laststream:drain_progress";
const NEAR_DEADLINE: &str = "laststream:drain_near_deadline";
pub(super) const COUNT: &str = "laststream:gate_count";
pub(super) const VERDICTS: &str = "laststream:scheme_verdicts:rate";
pub(super) const SHARES: &str = "laststream:scheme_verdicts:share";
pub(super) const ABSENT: &str = "laststream:gate_absent";

/// The label of a target whose pod should have a gate.
pub(super) const EXPECTED: (&str, &str) = ("gate", "expected");

/// All rules, for these settings.
#[must_use]
pub fn groups(settings: &Settings) -> Vec<Group> {
    vec![Group {
        name: settings.job.clone(),
        interval: settings.monitoring.scrape_interval().to_string(),
        recordings: recordings(settings),
        alerts: alerts(settings),
    }]
}

/// The condition that a proxy answers.
fn is_up(settings: &Settings) -> String {
    format!("and on (job, instance) (up{{job=\"{}\"}} == 1)", settings.job)
}

/// Makes a label of the end of a metric's name.
fn by_suffix(settings: &Settings, prefix: &str, label: &str) -> String {
    let job = &settings.job;
    format!(
        "label_replace({{__name__=~\"{prefix}.+\", job=\"{job}\"}}, \"{label}\", \"$1\", \
         \"__name__\", \"{prefix}(.+)\")"
    )
}

fn recording(record: &'static str, expr: String, reason: &'static str) -> Recording {
    Recording { record, expr, labels: Vec::new(), reason }
}

fn recordings(settings: &Settings) -> Vec<Recording> {
    let job = &settings.job;
    let mut all = states(settings);
    all.extend(verdicts(settings));
    all.push(recording(
        SHARES,
        format!(
            "{VERDICTS}{{job=\"{job}\"}} / ignoring (verdict) group_left () sum without (verdict) \
             ({VERDICTS}{{job=\"{job}\"}})"
        ),
        "which share of the requests each verdict has",
    ));
    all
}

/// States of proxies that answer.
fn states(settings: &Settings) -> Vec<Recording> {
    let (job, up) = (&settings.job, is_up(settings));
    let draining = format!("and on (job, instance) (laststream_gate_state{{job=\"{job}\"}} == 1)");
    let (key, value) = EXPECTED;
    vec![
        recording(
            STATE,
            format!("laststream_gate_state{{job=\"{job}\"}} {up}"),
            "the state of the gates that answer: 0 serving, 1 draining, 2 drained, 3 expired, 4 \
                forced",
        ),
        recording(
            IN_FLIGHT,
            format!("{} {up}", by_suffix(settings, "laststream_streams_in_flight_", "scope")),
            "streams in flight on proxies that answer, the scope as a label",
        ),
        recording(
            PROGRESS,
            format!(
                "laststream_gate_drain_seconds{{job=\"{job}\"}} / \
                 laststream_gate_deadline_seconds{{job=\"{job}\"}} {draining} {up}"
            ),
            "how much of its deadline each running drain has used: 1 is all of it",
        ),
        recording(
            NEAR_DEADLINE,
            format!(
                "{PROGRESS}{{job=\"{job}\"}} > clamp(1 - {} / \
                 laststream_gate_deadline_seconds{{job=\"{job}\"}}, 0.5, 0.8)",
                settings.monitoring.scrape_interval().whole_seconds() * 2
            ),
            "the same, of drains near their deadline: 20 % or two scrapes are left, at most half",
        ),
        recording(
            COUNT,
            format!("{} == 1 {up}", by_suffix(settings, "laststream_gate_count_", "count")),
            "how far each gate can believe its count, the word as a label",
        ),
        recording(
            ABSENT,
            format!(
                "up{{job=\"{job}\", {key}=\"{value}\"}} == 1 unless on (job, instance) \
                 laststream_gate_state{{job=\"{job}\"}}"
            ),
            "proxies that answer and should have a gate, and have none",
        ),
    ]
}

/// One series for each verdict and scope, because both are in the metrics' names.
fn verdicts(settings: &Settings) -> Vec<Recording> {
    let mut all = Vec::new();
    for scope in Scope::VARIANTS {
        for verdict in Verdict::ALL {
            let metric = metrics::forwarded_proto(verdict, *scope);
            all.push(Recording {
                record: VERDICTS,
                expr: format!(
                    "sum by (job, namespace, workload) (rate({metric}{{job=\"{}\"}}[{}]))",
                    settings.job,
                    settings.monitoring.window()
                ),
                labels: vec![("scope", scope.to_string()), ("verdict", verdict.name().to_owned())],
                reason: "requests per second by what became of their `x-forwarded-proto`",
            });
        }
    }
    all
}

fn alerts(settings: &Settings) -> Vec<Alert> {
    let (conflicting, untrusted) = settings.monitoring.percents();
    let mut all = alerts_of_drains(settings);
    all.extend(alerts_of_gates(settings));
    all.push(share(
        settings,
        (Verdict::Conflicting, conflicting),
        "LaststreamSchemeConflicting",
        "{{ $value | humanizePercentage }} of the requests to {{ $labels.namespace }}/{{ \
            $labels.workload }} have headers of the scheme that contradict each other",
        "a load balancer or a proxy in front has changed its headers, and https requests may be \
            taken for http",
    ));
    all.push(share(
        settings,
        (Verdict::Untrusted, untrusted),
        "LaststreamSchemeUntrusted",
        "{{ $value | humanizePercentage }} of the requests to {{ $labels.namespace }}/{{ \
            $labels.workload }} come from peers that are not trusted",
        "the load balancer has new addresses, or clients go around it: the scheme is then not \
            restored",
    ));
    all
}

fn alerts_of_drains(settings: &Settings) -> Vec<Alert> {
    let job = &settings.job;
    vec![
        Alert {
            name: "LaststreamDrainNearDeadline",
            expr: format!("max_over_time({NEAR_DEADLINE}{{job=\"{job}\"}}[{}])", recent(settings)),
            pending: None,
            severity: "warning",
            summary: "the drain of {{ $labels.namespace }}/{{ $labels.pod }} has used {{ $value | \
                humanizePercentage }} of its deadline",
            reason: "there is still time to see which streams hold the drain, and to end them; at \
                the deadline they are cut",
            runbook: settings.runbook("LaststreamDrainNearDeadline"),
        },
        event(
            settings,
            "LaststreamDrainExpired",
            "laststream_gate_expired_total",
            "critical",
            "a drain of {{ $labels.namespace }}/{{ $labels.pod }} reached its deadline with \
                streams in flight, or with a count that is not exact",
            "streams were cut, because the deadline is too short for them or they never end; or \
                the gate did not know whether any was in flight",
        ),
        event(
            settings,
            "LaststreamGateForced",
            "laststream_gate_forced_total",
            "critical",
            "the gate of {{ $labels.namespace }}/{{ $labels.pod }} was forced open",
            "`POST /force` opens a gate whatever is in flight, so streams \
                were cut on purpose",
        ),
    ]
}

fn alerts_of_gates(settings: &Settings) -> Vec<Alert> {
    let job = &settings.job;
    let pending = Some(settings.monitoring.pending().to_string());
    vec![
        Alert {
            name: "LaststreamCountNotExact",
            expr: format!(
                "max by (job, namespace, workload, pod, instance) ({COUNT}{{job=\"{job}\", \
                 count!=\"exact\"}})"
            ),
            pending: pending.clone(),
            severity: "warning",
            summary: "the count of {{ $labels.namespace }}/{{ $labels.pod }} is not exact",
            reason: "the next drain of this proxy waits longer than needed, or until its deadline",
            runbook: settings.runbook("LaststreamCountNotExact"),
        },
        Alert {
            name: "LaststreamGateAbsent",
            expr: format!("{ABSENT}{{job=\"{job}\"}}"),
            pending,
            severity: "warning",
            summary: "{{ $labels.namespace }}/{{ $labels.pod }} should have a gate, and has none",
            reason: "the stop hook of this proxy finds no gate, so its next stop is not held",
            runbook: settings.runbook("LaststreamGateAbsent"),
        },
        event(
            settings,
            "LaststreamCountHealed",
            "laststream_gate_heals_total",
            "warning",
            "{{ $labels.namespace }}/{{ $labels.pod }} has taken leaked streams from its count",
            "a worker's counter has died with streams in its count: the module failed there",
        ),
    ]
}

/// A drain is near its deadline for a few seconds only. The alert outlasts them, because
/// Alertmanager groups alerts for 30 s by default and drops those that have resolved meanwhile.
fn recent(settings: &Settings) -> TimeSpan {
    let scrapes = TimeSpan::seconds(settings.monitoring.scrape_interval().whole_seconds() * 4);
    scrapes.max(TimeSpan::seconds(120).min(settings.monitoring.window()))
}

/// An alert about an event that a counter counts. Its pod may have gone meanwhile.
fn event(
    settings: &Settings,
    name: &'static str,
    counter: &str,
    severity: &'static str,
    summary: &'static str,
    reason: &'static str,
) -> Alert {
    let expr = format!(
        "sum by (job, namespace, workload, pod) (increase({counter}{{job=\"{}\"}}[{}])) > 0",
        settings.job,
        settings.monitoring.window()
    );
    let runbook = settings.runbook(name);
    Alert { name, expr, pending: None, severity, summary, reason, runbook }
}

/// With fewer requests in the window, a share is chance.
const LEAST_REQUESTS: u32 = 10;

/// An alert about a verdict with too large a share.
fn share(
    settings: &Settings,
    (verdict, percent): (Verdict, u16),
    name: &'static str,
    summary: &'static str,
    reason: &'static str,
) -> Alert {
    let expr = format!(
        "{SHARES}{{job=\"{job}\", verdict=\"{}\"}} > {} and ignoring (verdict) sum without \
         (verdict) ({VERDICTS}{{job=\"{job}\"}}) * {} >= {LEAST_REQUESTS}",
        verdict.name(),
        f64::from(percent) / 100.0,
        settings.monitoring.window().whole_seconds(),
        job = settings.job,
    );
    let pending = Some(settings.monitoring.pending().to_string());
    let runbook = settings.runbook(name);
    Alert { name, expr, pending, severity: "warning", summary, reason, runbook }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::file::Monitoring;

    fn expression(name: &str) -> String {
        let settings = Settings { job: "j".into(), monitoring: Monitoring::default() };
        let groups = groups(&settings);
        assert_eq!(groups[0].interval, "5s", "a drain of 23 s is near its deadline for 10 s");
        let mut alerts = groups[0].alerts.iter();
        alerts.find(|alert| alert.name == name).map(|alert| alert.expr.clone()).unwrap_or_default()
    }

    #[test]
    fn a_drain_that_was_near_its_deadline_a_moment_ago_fires() {
        assert_eq!(
            expression("LaststreamDrainNearDeadline"),
            "max_over_time(laststream:drain_near_deadline{job=\"j\"}[120s])"
        );
    }

    #[test]
    fn a_share_of_few_requests_does_not_fire() {
        let expression = expression("LaststreamSchemeUntrusted");
        assert!(expression.ends_with("* 600 >= 10"), "{expression}");
    }
}
