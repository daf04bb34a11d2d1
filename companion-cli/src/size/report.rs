//! Results as text, as JSON, and as a table for the documents.

use serde_json::{Value, json};

use super::lifetimes::{Histogram, Lifetimes};
use super::model::{Fleet, Load, Plan, Prediction, Strategy};
use crate::base::time_span::TimeSpan;
use crate::policy::{Sizing, Usual};

/// The content of a report.
#[derive(Debug, Clone)]
pub struct Report {
    /// The source of the streams.
    pub source: String,
    /// Reasons why the numbers may be wrong.
    pub warnings: Vec<String>,
    /// The load of a pod.
    pub load: Load,
    /// The proposed times.
    pub plan: Plan,
    /// The pods of the rollout.
    pub fleet: Fleet,
    /// The rollout with the proposed times.
    pub prediction: Prediction,
}

/// A share as percent, with as many digits as it needs.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0 %".into(),
        ..0.001 => "under 0.001 %".into(),
        ..1.0 => format!("{percent:.3} %"),
        _ => format!("{percent:.1} %"),
    }
}

/// A number of streams or pods.
fn amount(number: f64) -> String {
    match number {
        ..0.05 => "0".into(),
        ..10.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

/// A time in seconds, minutes or hours.
fn time(seconds: f64) -> String {
    match seconds {
        ..10.0 => format!("{seconds:.1} s"),
        ..600.0 => format!("{seconds:.0} s"),
        ..36_000.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.0} h", seconds / 3_600.0),
    }
}

impl Report {
    /// The report for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let sizing = &self.plan.sizing;
        let rate = self
            .load
            .per_second
            .map_or(String::new(), |rate| format!(", {} begin per second", amount(rate)));
        let mut lines = vec![
            format!(
                "streams: {} in flight per pod{rate}, from {}",
                amount(self.load.in_flight),
                self.source
            ),
            String::new(),
            "proposal for the policy".to_owned(),
            format!(
                "  drain: {{longest_request: {}, quiet: {}}}",
                sizing.longest_request, sizing.quiet
            ),
            format!("  deadline         {}", sizing.deadline),
            format!("  grace period     {}", sizing.grace_period),
            format!("  drainDuration    {}", sizing.drain_time()),
            String::new(),
        ];
        lines.extend(self.rollout());
        if self.plan.is_cut_off {
            lines.push(String::new());
            lines.push(self.unmeasured());
        }
        lines.join("\n")
    }

    /// The costs of the rollout, a line each.
    fn rollout(&self) -> Vec<String> {
        let prediction = &self.prediction;
        vec![
            format!("a rollout of {} pods, {}", self.fleet.pods, strategy(&self.fleet)),
            format!(
                "  cut or ended     {} of {} streams in flight, {}",
                amount(prediction.cut),
                amount(prediction.of),
                percent(prediction.cut_share)
            ),
            format!("  a pod stops in   {} on average", time(prediction.mean_stop)),
            format!(
                "  takes            {} until all new pods are ready, {} until the last old pod has \
                    gone",
                time(prediction.ready),
                time(prediction.gone)
            ),
            format!(
                "  holds            {} pods more than wanted, {} of them drain",
                amount(prediction.extra),
                amount(prediction.draining)
            ),
        ]
    }

    /// The reason why the proposal does not keep the wanted share.
    fn unmeasured(&self) -> String {
        let measured = self.load.lifetimes.measured();
        if self.load.lifetimes.longer_than(measured) == 0.0 {
            return "warning: too few streams were measured for this share (`--cut`): add \
                listings, or a histogram of durations"
                .to_owned();
        }
        format!(
            "warning: {} of the streams in flight last longer than {}, the longest time that was \
                measured: end them (`end` in the policy), exempt them, or measure longer ones",
            percent(self.load.lifetimes.longer_than(measured)),
            time(measured)
        )
    }

    /// The report for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let (sizing, prediction) = (&self.plan.sizing, &self.prediction);
        json!({
            "source": self.source,
            "warnings": self.warnings,
            "streams": {
                "in_flight_per_pod": self.load.in_flight,
                "per_second_per_pod": self.load.per_second,
            },
            "proposal": {
                "longest_request_ms": sizing.longest_request.millis(),
                "quiet_ms": sizing.quiet.millis(),
                "deadline_ms": sizing.deadline.millis(),
                "grace_period_ms": sizing.grace_period.millis(),
                "drain_duration_ms": sizing.drain_time().millis(),
                "is_cut_off": self.plan.is_cut_off,
            },
            "rollout": {
                "pods": self.fleet.pods,
                "cut_share": prediction.cut_share,
                "cut": prediction.cut,
                "in_flight": prediction.of,
                "mean_stop_s": prediction.mean_stop,
                "ready_s": prediction.ready,
                "gone_s": prediction.gone,
                "extra_pods": prediction.extra,
                "draining_pods": prediction.draining,
            },
        })
    }
}

fn strategy(fleet: &Fleet) -> String {
    let startup = time(fleet.startup);
    match fleet.strategy {
        Strategy::Deployment { surge, unavailable } => {
            format!("{surge} more and {unavailable} fewer at a time, {startup} to start")
        }
        Strategy::InPlace { pods } => format!("{pods} at a time in place, {startup} to start"),
    }
}

/// A kind of made-up streams, for the table.
struct Kind {
    name: &'static str,
    in_flight: f64,
    /// Upper bounds in seconds, and how many of 10,000 streams are over by then.
    durations: &'static [(f64, f64)],
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "an API: 99 % below 1 s, the longest 10 s",
        in_flight: 20.0,
        durations: &[(0.1, 7_000.0), (1.0, 9_900.0), (5.0, 9_990.0), (10.0, 10_000.0)],
    },
    Kind {
        name: "downloads: half below 10 s, the longest 5 min",
        in_flight: 20.0,
        durations: &[(1.0, 1_000.0), (10.0, 5_000.0), (60.0, 9_000.0), (300.0, 10_000.0)],
    },
    Kind {
        name: "WebSockets: half below 10 min, the longest 8 h",
        in_flight: 200.0,
        durations: &[(60.0, 1_000.0), (600.0, 5_000.0), (3_600.0, 9_000.0), (28_800.0, 10_000.0)],
    },
];

/// The times of a kind in the table: those of the proposal for one stream in a thousand, with a
/// longest request of at most five minutes, because otherwise it would be hours.
fn table_sizing(load: &Load) -> Sizing {
    let plan = load.plan(0.001, Usual::ISTIO.delay(), Usual::ISTIO.agent());
    let longest = plan.sizing.longest_request.min(TimeSpan::seconds(300));
    crate::policy::drain_sizing(
        longest,
        plan.sizing.quiet,
        Usual::ISTIO.delay(),
        Usual::ISTIO.agent(),
    )
}

/// The table for the documents: the costs of rollouts of Deployments.
#[must_use]
pub fn table() -> String {
    let mut rows = String::from(
        "| streams | pods | deadline | cut or ended | a pod stops in | until new pods are ready | \
         until the last old pod has gone | pods more than wanted |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for kind in &KINDS {
        let durations = Histogram { buckets: kind.durations.to_vec(), total: 10_000.0 };
        let load = Load {
            in_flight: kind.in_flight,
            per_second: Some(kind.in_flight / durations.mean()),
            lifetimes: Lifetimes::of_durations(&durations),
        };
        let sizing = table_sizing(&load);
        for pods in [10, 1_000, 10_000] {
            let quarter = pods / 4;
            let strategy = Strategy::Deployment {
                surge: quarter + u32::from(pods % 4 > 0),
                unavailable: quarter,
            };
            let seen = load.predict(&sizing, &Fleet { pods, startup: 15.0, strategy });
            rows.push_str(&format!(
                "| {} | {pods} | {} | {} of {} | {} | {} | {} | {} |\n",
                kind.name,
                sizing.deadline,
                amount(seen.cut),
                amount(seen.of),
                time(seen.mean_stop),
                time(seen.ready),
                time(seen.gone),
                amount(seen.extra),
            ));
        }
    }
    rows
}
