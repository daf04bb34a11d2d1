//! The properties of every state, and the states that must be reachable.

use stateright::Property;

use super::Protocol;
use super::setup::{Goal, RequestPlan};
use super::world::{Life, Violation, World};
use crate::gate::Phase;

type Condition = fn(&Protocol, &World) -> bool;

pub(super) const BEHIND_THE_LATCH: &str = "no stream is accepted behind the latch";

/// Properties that hold in every state.
const NEVER: [(&str, Condition); 15] = [
    ("no 200 while a counted stream holds", |_, world| {
        world.violation != Some(Violation::OpenWithCounted)
    }),
    ("no 200 unless Envoy was asked since, while only counted streams were there", |_, world| {
        world.violation != Some(Violation::OpenWithUncounted)
    }),
    ("no gate opens that was not asked to", |_, world| {
        world.violation != Some(Violation::OpenUnasked)
    }),
    ("no signal passes while a counted stream is in flight", |_, world| {
        world.violation != Some(Violation::PassedWithCounted)
    }),
    ("no signal passes unless Envoy was asked since", |_, world| {
        world.violation != Some(Violation::PassedWithUncounted)
    }),
    (BEHIND_THE_LATCH, |_, world| world.violation != Some(Violation::AcceptedBehindLatch)),
    ("no last call is sent after a cancellation that does not tell of it", |_, world| {
        world.violation != Some(Violation::SentAfterCancel)
    }),
    ("no last call is made twice at once", |_, world| {
        world.violation != Some(Violation::SentTwice)
    }),
    ("no last call is made beside an agent that stays", |_, world| {
        world.violation != Some(Violation::EndedBesideAgent)
    }),
    ("no gauge is negative", |model, world| {
        model.0.outlives_death() || !world.shared.has_negative_gauge()
    }),
    ("no drain lasts much longer than its deadline", |_, world| {
        world.violation != Some(Violation::Overdue)
    }),
    ("no drain expires before its deadline", |_, world| {
        world.violation != Some(Violation::TooEarly)
    }),
    ("no gate stays open for ever", |_, world| world.violation != Some(Violation::OpenForEver)),
    ("the gate knows whether Envoy fails health checks", |_, world| {
        world.violation != Some(Violation::HealthUnknown)
    }),
    ("no drain without streams expires", |model, world| {
        !model.0.streams.is_empty() || !model.0.is_prompt || world.record(0).phase != Phase::Expired
    }),
];

fn goal(goal: Goal) -> (&'static str, Condition) {
    match goal {
        Goal::Drained => ("drained", |_, world| world.record(0).phase == Phase::Drained),
        Goal::Open => ("open", |model, world| {
            let mut requests = world.requests.iter().zip(&model.0.requests);
            requests.any(|(state, plan)| plan.asks_for_opening() && state.status == Some(200))
        }),
        Goal::Passed => ("a signal passes", |_, world| world.has_passed),
        Goal::Healed => ("healed", |_, world| world.shared.data.contains_key("laststream.heals")),
        Goal::Repaired => ("repaired", |_, world| {
            let heals = world.shared.data.get("laststream.heals");
            let is_open = world.requests.last().is_some_and(|last| last.status == Some(200));
            let is_over = world.streams.iter().all(|stream| stream.life == Life::Over);
            heals.is_some_and(|heals| heals == b"1 2")
                && is_open
                && is_over
                && world.shared.gauges().all(|gauge| gauge == 0)
        }),
        Goal::Expired => ("expired", |_, world| world.record(0).phase == Phase::Expired),
        Goal::ServingAgain => ("serving again", |_, world| {
            world.notes[0].was_asked && world.record(0).phase == Phase::Serving
        }),
        Goal::Refused => ("a stream is refused", |_, world| world.has_refused),
    }
}

pub(super) fn of(model: &Protocol) -> Vec<Property<Protocol>> {
    let mut properties: Vec<_> =
        NEVER.iter().map(|(name, condition)| Property::always(name, *condition)).collect();
    for (name, condition) in model.0.goals.iter().map(|reached| goal(*reached)) {
        properties.push(Property::sometimes(name, condition));
    }
    if model.0.streams.is_empty() && model.0.requests.iter().any(RequestPlan::asks_for_opening) {
        properties.push(Property::eventually("a drain without streams opens", |model, world| {
            goal(Goal::Open).1(model, world)
        }));
    }
    properties
}
