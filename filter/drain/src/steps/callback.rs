//! One callback of a worker while it is being decided: the shared value, and the effects so far.

use crate::counts::Facts;
use crate::requests::{Answer, Call, Effect, Effects, GateMetric, Level, Outcome, View};
use crate::state::timing::MOST_ANSWERS;
use crate::state::{Moment, Phase, Record, Shared, StreamNumber};

#[derive(Debug)]
pub(crate) struct Callback<'f> {
    pub(crate) facts: &'f Facts,
    pub(crate) shared: Shared,
    /// Whether the counters are asked at the end.
    pub(crate) wants_round: bool,
    /// Whether streams may be ended.
    pub(crate) is_tick: bool,
    effects: Vec<Effect>,
    answers: u64,
}

impl<'f> Callback<'f> {
    pub(crate) fn new(facts: &'f Facts) -> Self {
        Self {
            facts,
            shared: facts.shared.clone(),
            wants_round: false,
            is_tick: false,
            effects: Vec::new(),
            answers: 0,
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.facts.now
    }

    pub(crate) fn record(&mut self) -> &mut Record {
        &mut self.shared.record
    }

    pub(crate) fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub(crate) fn call(&mut self, call: Call) {
        self.push(Effect::Call(call));
    }

    pub(crate) fn log(&mut self, level: Level, line: impl Into<String>) {
        self.push(Effect::Log(level, line.into()));
    }

    /// How many more requests this callback can answer.
    pub(crate) fn answers_left(&self) -> usize {
        MOST_ANSWERS.saturating_sub(self.answers) as usize
    }

    pub(crate) fn answer(&mut self, stream: StreamNumber, answer: Answer) {
        self.answers += 1;
        self.push(Effect::Respond(stream, answer));
    }

    /// Answers with what became of a command. The state is that of the end of this callback.
    pub(crate) fn outcome(&mut self, stream: StreamNumber, status: u16, reason: impl Into<String>) {
        let outcome = Outcome { state: Phase::Serving, reason: reason.into(), holding: None };
        self.answer(stream, Answer::Outcome(status, outcome));
    }

    pub(crate) fn show_phase(&mut self) {
        let phase = self.shared.record.phase;
        self.push(Effect::Set(GateMetric::State, phase as u64));
    }

    pub(crate) fn seal(&mut self) {
        if !self.facts.latch.is_sealed {
            self.log(
                Level::Warning,
                "new streams are refused from now on: the signal to end was sent",
            );
        }
        self.push(Effect::SealLatch);
        self.wants_round = true;
    }

    pub(crate) fn into_effects(mut self, view: Option<View>) -> Effects {
        for effect in &mut self.effects {
            if let Effect::Respond(_, Answer::Outcome(_, outcome)) = effect {
                outcome.state = self.shared.record.phase;
                outcome.holding = view.as_ref().map(|view| view.observed.holding);
            }
        }
        Effects {
            shared: self.shared,
            list: self.effects,
            #[cfg(test)]
            view,
        }
    }
}
