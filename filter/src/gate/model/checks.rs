//! Checks after each step: answers, signals, records and times.

use laststream_drain::sim::expected::{self, gates_of, is_open_anyway};
use laststream_drain::state::Step;
use laststream_drain::timing::{AFTER_DEADLINE, DEAD_AFTER, LATCH_LEASE, REFUSAL_VALID_FOR};

use super::setup::{OPEN_FOR, RequestPlan, Setup};
use super::shared::{Call, Event, Shared};
use super::worker::gate_of;
use super::world::{Life, Signal, Violation, World};
use crate::gate::Phase;

impl World {
    /// Checks an event of this step: a gate's answer or signal.
    pub(super) fn note(&mut self, setup: &Setup, event: Event) {
        match event {
            Event::Answered { request, status, holding, tells } => {
                let plan = setup.requests[request as usize];
                let state = &mut self.requests[request as usize];
                state.status = Some(status);
                let is_confirmed = state.is_confirmed || !setup.exports;
                if plan.cancels() && self.record(plan.gate).phase == Phase::Serving {
                    self.note_cancelled(setup, plan.gate, tells);
                }
                let phase = self.record(plan.gate).phase;
                if status != 200 || !plan.asks_for_opening() || is_open_anyway(phase) {
                    return;
                }
                if holding > self.standing_still(setup, plan.gate) {
                    self.report(Violation::OpenWithCounted);
                } else if !is_confirmed {
                    self.report(Violation::OpenWithUncounted);
                } else if !self.notes[plan.gate].was_asked {
                    self.report(Violation::OpenUnasked);
                }
            }
            Event::Passed { number, root } => self.note_signal(setup, number, gate_of(root)),
        }
    }

    /// `tells`: the client was told that the last call was sent.
    fn note_cancelled(&mut self, setup: &Setup, gate: usize, tells: bool) {
        let awaits_opening = self.awaits_opening(setup, gate);
        let notes = &mut self.notes[gate];
        notes.was_asked = awaits_opening;
        if setup.finish != "nothing" && !tells && !awaits_opening {
            notes.is_cancelled = true;
            if !self.signals.is_empty() {
                self.report(Violation::SentAfterCancel);
            }
        }
    }

    /// Streams that hold the drain, in a worker that has stood still for so long that its counter
    /// is dead. Envoy has ended them.
    fn standing_still(&self, setup: &Setup, gate: usize) -> u64 {
        let now = self.shared.clock;
        let is_dead =
            |life: Life| matches!(life, Life::Closed { at, .. } if now >= at + DEAD_AFTER.0);
        let streams = self.streams.iter().zip(&setup.streams);
        let dead = streams.filter(|(stream, plan)| {
            plan.scope == setup.gates[gate] && setup.holds(plan.kind) && is_dead(stream.life)
        });
        dead.count() as u64
    }

    /// Whether a request to this gate that may open it is not answered yet.
    fn awaits_opening(&self, setup: &Setup, gate: usize) -> bool {
        setup.requests.iter().zip(&self.requests).any(|(plan, state)| {
            let is_held = state.sent.is_some() && state.status.is_none();
            plan.gate == gate && plan.may_open() && is_held
        })
    }

    fn note_signal(&mut self, setup: &Setup, number: u32, gate: usize) {
        if is_open_anyway(self.record(gate).phase) {
            return;
        }
        let Some(call) = self.shared.calls.iter().find(|call| call.number == number).cloned()
        else {
            return;
        };
        let Some(signal) = expected::signal(&call.path) else { return };
        let is_its = |plan: &RequestPlan| plan.path == call.path && plan.worker == call.worker;
        let is_last_call = !setup.requests.iter().any(|plan| plan.path == call.path);
        let mut asked = setup.requests.iter().zip(&self.requests);
        let is_confirmed = !setup.exports
            || is_last_call && self.notes[gate].is_confirmed
            || asked.any(|(plan, state)| is_its(plan) && state.is_confirmed);
        let is_cut = |other: usize| {
            let scope = setup.gates[other];
            self.counted(setup, scope) || other != gate && self.orphaned(setup, scope)
        };
        if gates_of(&signal, gate, setup.gates.len()).any(is_cut) {
            self.report(Violation::PassedWithCounted);
        } else if !is_confirmed {
            self.report(Violation::PassedWithUncounted);
        } else if is_last_call && self.agent_stays(setup) {
            self.report(Violation::EndedBesideAgent);
        } else if is_last_call && self.notes[gate].is_cancelled {
            self.report(Violation::SentAfterCancel);
        } else if is_last_call && !setup.is_slow && self.is_sent_twice(&call) {
            self.report(Violation::SentTwice);
        }
        self.has_passed = true;
        let latched_until = self.shared.clock + LATCH_LEASE.0 / 2;
        self.signals.push(Signal { number, ends_envoy: signal.ends_envoy(), latched_until });
    }

    /// Whether Istio's agent has listened for longer than a refusal counts.
    fn agent_stays(&self, setup: &Setup) -> bool {
        let Shared { clock, agent_turned, agent_refuses, .. } = self.shared;
        setup.has_agent && !agent_refuses && clock > agent_turned + REFUSAL_VALID_FOR.0
    }

    /// Its stop asks the first gate to drain.
    pub(super) fn turn_agent(&mut self) {
        self.agent_turns -= 1;
        self.shared.agent_refuses ^= true;
        self.shared.agent_turned = self.shared.clock;
        self.notes[0].was_asked |= self.shared.agent_refuses;
    }

    /// Whether another worker makes this call, too.
    fn is_sent_twice(&self, call: &Call) -> bool {
        let is_same = |other: &&Call| other.path == call.path && other.ended.is_none();
        self.shared.calls.iter().filter(is_same).count() > 1
    }

    /// Checks the records of all gates after a step.
    pub(super) fn note_records(&mut self, setup: &Setup) {
        let now = self.shared.clock;
        for gate in 0..setup.gates.len() {
            let record = self.record(gate);
            let notes = &mut self.notes[gate];
            if notes.phase == record.phase as u8 {
                continue;
            }
            if notes.phase == Phase::Serving as u8 {
                notes.drains_since = now;
                notes.is_confirmed = false;
            }
            notes.phase = record.phase as u8;
            notes.open_since = if is_open_anyway(record.phase) { now } else { 0 };
            let is_early =
                record.phase == Phase::Expired && now < notes.drains_since + setup.deadline;
            let is_unasked = record.phase != Phase::Serving && !notes.was_asked;
            if is_early {
                self.report(Violation::TooEarly);
            }
            if is_unasked {
                self.report(Violation::OpenUnasked);
            }
        }
    }

    /// Checks that the first gate knows whether Envoy fails health checks, once no call about that
    /// is under way.
    pub(super) fn check_health(&mut self, setup: &Setup) {
        let begins = setup.begin == "fail_health_checks";
        if !begins || self.shared.calls.iter().any(|call| call.path.starts_with("/healthcheck/")) {
            return;
        }
        let record = self.record(0);
        let is_unknown = match record.phase {
            Phase::Serving => self.shared.is_unhealthy && record.begin == Step::Due,
            Phase::Draining | Phase::Drained => {
                !self.shared.is_unhealthy && record.begin == Step::Done
            }
            Phase::Expired | Phase::Forced => false,
        };
        if is_unknown {
            self.report(Violation::HealthUnknown);
        }
    }

    /// Checks after an evaluation of a gate that no phase lasts longer than allowed.
    pub(super) fn check_times(&mut self, setup: &Setup, gate: usize) {
        if setup.is_fine {
            return;
        }
        let (now, record, notes) = (self.shared.clock, self.record(gate), self.notes[gate]);
        let (phase, deadline) = (record.phase, notes.drains_since + setup.deadline);
        let is_finished = setup.finish == "nothing" || record.finish.has_ended();
        let more = if is_finished { 0 } else { OPEN_FOR };
        let is_overdue = phase == Phase::Draining && now >= deadline
            || phase == Phase::Drained
                && now
                    >= deadline.max(record.ended.unwrap_or_default().0 + AFTER_DEADLINE.0) + more;
        if is_overdue {
            self.report(Violation::Overdue);
        }
        if is_open_anyway(phase) && now >= notes.open_since + OPEN_FOR {
            self.report(Violation::OpenForEver);
        }
    }
}
