//! The sections `monitoring` and `scaling`: their shape, their defaults, and their checks.

use schemars::JsonSchema;
use serde::Deserialize;

use super::PolicyProblem;
use crate::base::time_span::TimeSpan;

const MOST_PERCENT: u16 = 100;

/// What `render monitoring` writes. With this section, a gate that serves evaluates its count at
/// intervals, so that its metrics are current.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Monitoring {
    /// How often Prometheus scrapes a proxy, and how often the rules are evaluated, by default 5s.
    pub scrape_interval: Option<TimeSpan>,
    /// How far back rates and alerts about events look, so how long such an alert stays; by default
    /// 10m. At least four scrape intervals.
    pub window: Option<TimeSpan>,
    /// How long a state must last before an alert about it fires, by default 5m.
    pub pending: Option<TimeSpan>,
    /// How often a serving gate evaluates its count, by default 30s; 5s or more.
    pub evaluate_every: Option<TimeSpan>,
    /// The share of requests with conflicting headers of the scheme that fires an alert, in
    /// percent; by default 1.
    #[schemars(range(max = MOST_PERCENT))]
    pub conflicting_percent: Option<u16>,
    /// The share of requests from untrusted peers that fires an alert, in percent; by default 10.
    #[schemars(range(max = MOST_PERCENT))]
    pub untrusted_percent: Option<u16>,
    /// `HOST:PORT` of each Envoy that Prometheus scrapes at `/stats/prometheus`, instead of pods.
    /// Required for an Envoy without a mesh.
    pub targets: Vec<String>,
    /// The address of the runbook, before `#` and the name of an alert. By default
    /// docs/monitoring.md of this project.
    pub runbook: Option<String>,
}

/// What `render keda` and `render hpa` write.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scaling {
    /// The name of the Deployment that is scaled.
    pub deployment: String,
    /// How many streams in flight a pod is to have.
    #[schemars(range(min = 1))]
    pub streams_per_pod: u16,
    /// The least number of pods, by default 2.
    #[schemars(range(min = 1))]
    pub min: Option<u16>,
    /// The largest number of pods, by default 10.
    #[schemars(range(min = 1))]
    pub max: Option<u16>,
    /// The Prometheus that KEDA asks, such as `http://prometheus.monitoring:9090`.
    pub prometheus: Option<String>,
}

impl Monitoring {
    /// How often Prometheus scrapes a proxy.
    #[must_use]
    pub fn scrape_interval(&self) -> TimeSpan {
        self.scrape_interval.unwrap_or(TimeSpan::seconds(5))
    }

    /// How far back alerts about events look.
    #[must_use]
    pub fn window(&self) -> TimeSpan {
        self.window.unwrap_or(TimeSpan::seconds(600))
    }

    /// How long a state must last.
    #[must_use]
    pub fn pending(&self) -> TimeSpan {
        self.pending.unwrap_or(TimeSpan::seconds(300))
    }

    /// How often a serving gate evaluates its count.
    #[must_use]
    pub fn evaluate_every(&self) -> TimeSpan {
        self.evaluate_every.unwrap_or(TimeSpan::seconds(30))
    }

    /// The shares of conflicting and of untrusted requests, in percent.
    #[must_use]
    pub fn percents(&self) -> (u16, u16) {
        (self.conflicting_percent.unwrap_or(1), self.untrusted_percent.unwrap_or(10))
    }

    pub(super) fn problems(&self) -> Vec<PolicyProblem> {
        let mut problems = Vec::new();
        let mut problem = |field: &str, message: String| {
            problems.push(PolicyProblem::new(format!("monitoring.{field}"), message));
        };
        let (interval, window) = (self.scrape_interval(), self.window());
        if interval < TimeSpan::seconds(1) {
            problem("scrape_interval", format!("{interval} is too short: write `1s` or more"));
        }
        let least = TimeSpan::seconds(interval.whole_seconds() * 4);
        if window < least {
            let message = format!(
                "{window} is too short for a scrape interval of {interval}: write `{least}` or more"
            );
            problem("window", message);
        }
        let every = self.evaluate_every();
        if every < TimeSpan::seconds(5) {
            problem("evaluate_every", format!("{every} is too short: write `5s` or more"));
        }
        let (conflicting, untrusted) = self.percents();
        for (field, percent) in
            [("conflicting_percent", conflicting), ("untrusted_percent", untrusted)]
        {
            if percent > MOST_PERCENT {
                problem(field, format!("{percent} is not from 0 to {MOST_PERCENT}"));
            }
        }
        for (index, target) in self.targets.iter().enumerate() {
            let port = target.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            let is_plain = target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
            if port.is_none_or(|port| port == 0) || !is_plain {
                let field = format!("targets[{index}]");
                problem(&field, format!("`{target}` is not `HOST:PORT`, such as `10.0.0.7:9901`"));
            }
        }
        problems
    }
}

impl Scaling {
    /// The least and the largest number of pods.
    #[must_use]
    pub fn bounds(&self) -> (u16, u16) {
        (self.min.unwrap_or(2), self.max.unwrap_or(10))
    }

    pub(super) fn problems(&self) -> Vec<PolicyProblem> {
        let mut problems = Vec::new();
        if self.streams_per_pod == 0 {
            let message = "0 has no number of pods: write how many streams a pod is to have";
            problems.push(PolicyProblem::new("scaling.streams_per_pod", message));
        }
        let (min, max) = self.bounds();
        if min == 0 || min > max {
            let message = format!("{min} is not from 1 to {max}, the largest number of pods");
            problems.push(PolicyProblem::new("scaling.min", message));
        }
        let is_url = |url: &str| url.starts_with("http://") || url.starts_with("https://");
        if let Some(url) = self.prometheus.as_ref().filter(|url| !is_url(url)) {
            let message =
                format!("`{url}` is no address: write `http://prometheus.monitoring:9090`");
            problems.push(PolicyProblem::new("scaling.prometheus", message));
        }
        problems
    }
}
