//! The dashboard: panels as data, and Grafana's classic JSON model of them.

use serde_json::{Value, json};

use super::rules::{ABSENT, COUNT, IN_FLIGHT, PROGRESS, STATE, VERDICTS};
use crate::render::MARK_IN_JSON;

/// How a panel shows its series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The last value, large.
    Stat,
    /// Lines over time.
    Lines,
    /// Areas over time, one on the other.
    Areas,
    /// The last value of each series, as bars.
    Bars,
}

/// A panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panel {
    /// Its heading.
    pub title: &'static str,
    /// The reason for the panel.
    pub reason: &'static str,
    /// The form in which it shows its series.
    pub form: Form,
    /// The expression; `$job` stands for the chosen policies.
    pub expr: &'static str,
    /// The name of each series.
    pub legend: &'static str,
    /// Grafana's unit.
    pub unit: &'static str,
    /// Its width in 24ths.
    pub width: u64,
}

/// The panels from left to right, line by line.
pub const PANELS: &[Panel] = &[
    Panel {
        title: "Drains now",
        reason: "a rollout, a scale-down or a node drain is going on",
        form: Form::Stat,
        expr: "count(STATE{job=~\"$job\"} == 1) or vector(0)",
        legend: "draining",
        unit: "short",
        width: 4,
    },
    Panel {
        title: "Proxies without their gate",
        reason: "their next stop is not held",
        form: Form::Stat,
        expr: "count(ABSENT{job=~\"$job\"}) or vector(0)",
        legend: "absent",
        unit: "short",
        width: 4,
    },
    Panel {
        title: "Counts",
        reason: "only `exact` lets a drain end as soon as the last stream has",
        form: Form::Areas,
        expr: "sum by (count) (COUNT{job=~\"$job\"})",
        legend: "{{count}}",
        unit: "short",
        width: 16,
    },
    Panel {
        title: "Streams in flight, by workload",
        reason: "what the next stop of each workload has to wait for",
        form: Form::Areas,
        expr: "sum by (namespace, workload, scope) (IN_FLIGHT{job=~\"$job\"})",
        legend: "{{namespace}}/{{workload}} {{scope}}",
        unit: "short",
        width: 12,
    },
    Panel {
        title: "What drains wait for",
        reason: "the streams that hold each running drain; `laststream streams` names them",
        form: Form::Lines,
        expr: "laststream_gate_holding{job=~\"$job\"} and on (job, instance) (STATE == 1)",
        legend: "{{namespace}}/{{pod}}",
        unit: "short",
        width: 12,
    },
    Panel {
        title: "Deadline used",
        reason: "at 100 % the streams that are left are cut",
        form: Form::Lines,
        expr: "PROGRESS{job=~\"$job\"}",
        legend: "{{namespace}}/{{pod}}",
        unit: "percentunit",
        width: 12,
    },
    Panel {
        title: "What rollouts waited for",
        reason: "the longest drains of the chosen time, which decide how long a rollout takes",
        form: Form::Bars,
        expr: "topk(20, max by (namespace, workload, pod) \
            (max_over_time(laststream_gate_drain_seconds{job=~\"$job\"}[$__range])))",
        legend: "{{namespace}}/{{workload}} {{pod}}",
        unit: "s",
        width: 12,
    },
    Panel {
        title: "Late streams",
        reason: "streams that began after the drain had begun: clients or balancers that learn of \
            it late",
        form: Form::Lines,
        expr: "sum by (namespace, workload) (laststream_gate_late_streams{job=~\"$job\"} and on \
            (job, instance) (STATE > 0))",
        legend: "{{namespace}}/{{workload}}",
        unit: "short",
        width: 12,
    },
    Panel {
        title: "Scheme verdicts",
        reason: "`conflicting` and `untrusted` requests do not get the scheme of their client",
        form: Form::Areas,
        expr: "sum by (verdict) (VERDICTS{job=~\"$job\"})",
        legend: "{{verdict}}",
        unit: "reqps",
        width: 12,
    },
];

impl Panel {
    /// The expression with the names of the recorded series.
    #[must_use]
    pub fn expression(&self) -> String {
        // IN_FLIGHT and the others are words of their own in the expressions.
        [
            ("IN_FLIGHT", IN_FLIGHT),
            ("PROGRESS", PROGRESS),
            ("VERDICTS", VERDICTS),
            ("ABSENT", ABSENT),
            ("STATE", STATE),
            ("COUNT", COUNT),
        ]
        .into_iter()
        .fold(self.expr.to_owned(), |expr, (word, name)| expr.replace(word, name))
    }

    fn json(&self, id: usize, (x, y): (u64, u64)) -> Value {
        let (kind, options) = match self.form {
            Form::Stat => ("stat", json!({"reduceOptions": {"calcs": ["lastNotNull"]}})),
            Form::Bars => (
                "bargauge",
                json!({"orientation": "horizontal", "reduceOptions": {"calcs": ["lastNotNull"]}}),
            ),
            Form::Lines | Form::Areas => (
                "timeseries",
                json!({"legend": {"displayMode": "list", "placement": "bottom", "calcs": []},
                    "tooltip": {"mode": "multi"}}),
            ),
        };
        let custom = match self.form {
            Form::Areas => json!({"fillOpacity": 30, "stacking": {"mode": "normal"}}),
            Form::Lines => json!({"fillOpacity": 0}),
            Form::Stat | Form::Bars => json!({}),
        };
        json!({
            "id": id,
            "type": kind,
            "title": self.title,
            "description": self.reason,
            "datasource": source(),
            "gridPos": {"x": x, "y": y, "w": self.width, "h": HEIGHT},
            "fieldConfig": {
                "defaults": {"unit": self.unit, "min": 0, "custom": custom},
                "overrides": [],
            },
            "options": options,
            "targets": [{
                "refId": "A",
                "datasource": source(),
                "expr": self.expression(),
                "legendFormat": self.legend,
                "instant": self.form == Form::Bars,
                "range": self.form != Form::Bars,
            }],
        })
    }
}

const HEIGHT: u64 = 8;

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${source}"})
}

/// The dashboard as Grafana imports it. It is the same for every policy: the variable `job` lists
/// the policies.
#[must_use]
pub fn json() -> Value {
    let (mut x, mut y) = (0, 0);
    let mut panels = Vec::new();
    for (index, panel) in PANELS.iter().enumerate() {
        if x + panel.width > 24 {
            (x, y) = (0, y + HEIGHT);
        }
        panels.push(panel.json(index + 1, (x, y)));
        x += panel.width;
    }
    json!({
        "uid": "laststream",
        "title": "laststream: drains",
        "description": MARK_IN_JSON,
        "tags": ["laststream", "envoy"],
        "schemaVersion": 39,
        "version": 1,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "30s",
        "timezone": "browser",
        "time": {"from": "now-3h", "to": "now"},
        "annotations": {"list": []},
        "links": [],
        "panels": panels,
        "templating": {"list": [
            {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
            {
                "name": "job", "label": "policy", "type": "query", "datasource": source(),
                "query": format!("label_values({STATE}, job)"), "refresh": 2,
                "multi": true, "includeAll": true,
                "current": {"text": ["All"], "value": ["$__all"]},
            },
        ]},
    })
}
