//! What the metrics and the log show of an evaluation.

use super::callback::Callback;
use crate::requests::words::sentence;
use crate::requests::{Effect, GateMetric, Level, View};
use crate::state::{DrainPolicy, Phase};

pub(crate) fn report(
    policy: &DrainPolicy,
    phase_before: Phase,
    view: &View,
    callback: &mut Callback<'_>,
) {
    let (record, facts) = (&view.record, callback.facts);
    let late = record.late_streams(facts.counts.begun());
    let lasted = record.duration(view.now);
    for (gauge, value) in [
        (GateMetric::Late, late),
        (GateMetric::Seconds, lasted.0 / 1_000),
        (GateMetric::Holding, view.observed.holding),
    ] {
        callback.push(Effect::Set(gauge, value));
    }
    if policy.counts_tcp {
        let connections = view.observed.open_connections().unwrap_or(0);
        callback.push(Effect::Set(GateMetric::Connections, connections));
    }
    callback.push(Effect::ShowCount(view.observed.count));
    if phase_before == record.phase {
        return;
    }
    callback.show_phase();
    if record.phase == Phase::Expired {
        callback.push(Effect::Increment(GateMetric::Expired));
    }
    let line = match record.phase {
        Phase::Serving => {
            "the drain is over, and Envoy is still alive: the gate serves again".into()
        }
        Phase::Draining => format!("the drain goes on: {}", sentence(view, policy)),
        open => {
            let ends = callback.shared.ends;
            let note = match ends.ordered {
                ordered if ends.began == Some(record.began) && ordered > 0 => {
                    format!("; the gate ended {ordered} streams at most")
                }
                _ => String::new(),
            };
            format!("the drain ends: {open} after {} ms; {late} streams came late{note}", lasted.0)
        }
    };
    callback.log(Level::Warning, line);
}
