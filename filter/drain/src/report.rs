//! What the metrics and the log show of an evaluation.

use crate::effects::{Counter, Effect, Gauge, Level};
use crate::phase::Phase;
use crate::policy::Policy;
use crate::turn::Turn;
use crate::view::View;
use crate::words::sentence;

pub(crate) fn report(policy: &Policy, phase_before: Phase, view: &View, turn: &mut Turn<'_, '_>) {
    let (record, facts) = (&view.record, turn.facts);
    let late = record.late_streams(facts.counts.begun[1]);
    let lasted = record.duration(view.now);
    for (gauge, value) in [
        (Gauge::Late, late),
        (Gauge::Seconds, lasted / 1_000),
        (Gauge::Holding, view.observed.holding),
        (Gauge::Count, view.observed.count as u64),
    ] {
        turn.push(Effect::Set(gauge, value));
    }
    if phase_before == record.phase {
        return;
    }
    turn.show_phase();
    if record.phase == Phase::Expired {
        turn.push(Effect::Increment(Counter::Expired));
    }
    let line = match record.phase {
        Phase::Serving => {
            "the drain is over, and Envoy is still alive: the gate serves again".into()
        }
        Phase::Draining => format!("the drain goes on: {}", sentence(view, policy)),
        open => {
            let ended = match facts.ends.ordered {
                ordered if facts.ends.began == record.began && ordered > 0 => {
                    format!("; the gate ended {ordered} streams at most")
                }
                _ => String::new(),
            };
            format!("the drain ends: {open} after {lasted} ms; {late} streams came late{ended}")
        }
    };
    turn.log(Level::Warning, line);
}
