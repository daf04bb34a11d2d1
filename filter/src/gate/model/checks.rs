//! Checks after each step: answers, signals, records and times.

use laststream_drain::step::Step;
use laststream_drain::timing::AFTER_DEADLINE;

use super::setup::{DEADLINE, OPEN_FOR, Setup};
use super::shared::Event;
use super::world::{Signal, Violation, World, is_open_anyway};
use crate::gate::phase::Phase;

impl World {
    /// Checks an event of this step: a gate's answer or signal.
    pub(super) fn note(&mut self, setup: &Setup, event: Event) {
        match event {
            Event::Answered { request, status, holding } => {
                let plan = setup.requests[request as usize];
                let state = &mut self.requests[request as usize];
                state.status = Some(status);
                let is_confirmed = state.is_confirmed || !setup.exports;
                if plan.cancels() && self.record(plan.gate).phase == Phase::Serving {
                    self.notes[plan.gate].was_asked = self.awaits_opening(setup, plan.gate);
                }
                if status != 200
                    || !plan.asks_for_opening()
                    || is_open_anyway(self.record(plan.gate).phase)
                {
                    return;
                }
                if holding > 0 {
                    self.report(Violation::OpenWithCounted);
                } else if !is_confirmed {
                    self.report(Violation::OpenWithUncounted);
                } else if !self.notes[plan.gate].was_asked {
                    self.report(Violation::OpenUnasked);
                }
            }
            Event::Passed { number, root } => self.note_signal(setup, number, root as usize),
        }
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
        let scope = setup.gates[gate];
        let Some(call) = self.shared.calls.iter().find(|call| call.number == number) else {
            return;
        };
        let ends_envoy = call.path == "/quitquitquit";
        let mut asked = setup.requests.iter().zip(&self.requests);
        let is_confirmed = !setup.exports
            || setup.finish != "nothing"
            || asked.any(|(plan, state)| {
                plan.path == call.path && plan.worker == call.worker && state.is_confirmed
            });
        if self.counted(setup, scope) {
            self.report(Violation::PassedWithCounted);
        } else if !is_confirmed {
            self.report(Violation::PassedWithUncounted);
        }
        self.has_passed = true;
        self.signals.push(Signal { number, ends_envoy });
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
            }
            notes.phase = record.phase as u8;
            notes.open_since = if is_open_anyway(record.phase) { now } else { 0 };
            let is_early = record.phase == Phase::Expired && now < notes.drains_since + DEADLINE;
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
        let (phase, deadline) = (record.phase, notes.drains_since + DEADLINE);
        let is_finished = setup.finish == "nothing" || record.finish.has_ended();
        let more = if is_finished { 0 } else { OPEN_FOR };
        let is_overdue = phase == Phase::Draining && now >= deadline
            || phase == Phase::Drained && now >= deadline.max(record.ended + AFTER_DEADLINE) + more;
        if is_overdue {
            self.report(Violation::Overdue);
        }
        if is_open_anyway(phase) && now >= notes.open_since + OPEN_FOR {
            self.report(Violation::OpenForEver);
        }
    }
}
