//! One callback of a worker while it is being decided: the record, and the effects so far.

use crate::effects::{Answer, Call, Effect, Gauge, Level};
use crate::facts::Facts;
use crate::record::Record;
use crate::step::Step;
use crate::timing::MOST_ANSWERS;

#[derive(Debug)]
pub(crate) struct Turn<'t, 'f> {
    pub(crate) facts: &'t Facts<'f>,
    pub(crate) record: Record,
    /// The newest total number of requests by Envoy's own count.
    pub(crate) total: u64,
    /// The progress of the last call before this evaluation.
    pub(crate) finish_before: Step,
    pub(crate) effects: Vec<Effect>,
    /// Whether the counters are asked at the end.
    pub(crate) wants_round: bool,
    /// Whether streams may be ended.
    pub(crate) is_tick: bool,
    answers: u64,
}

impl<'t, 'f> Turn<'t, 'f> {
    pub(crate) fn new(facts: &'t Facts<'f>) -> Self {
        Self {
            facts,
            record: facts.record.clone(),
            total: facts.total,
            finish_before: facts.record.finish,
            effects: Vec::new(),
            wants_round: false,
            is_tick: false,
            answers: 0,
        }
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

    pub(crate) fn answer(&mut self, stream: u32, answer: Answer) {
        self.answers += 1;
        self.push(Effect::Respond(stream, answer));
    }

    pub(crate) fn outcome(&mut self, stream: u32, status: u16, reason: impl Into<String>) {
        self.answer(stream, Answer::Outcome(status, reason.into()));
    }

    pub(crate) fn show_phase(&mut self) {
        let phase = self.record.phase;
        self.push(Effect::Set(Gauge::State, phase as u64));
    }

    /// Takes back the claim of the last call that this evaluation has made.
    pub(crate) fn postpone_finish(&mut self) {
        if matches!(self.record.finish, Step::UnderWay { since, .. } if since == self.facts.now) {
            self.record.finish = self.finish_before;
        }
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
}
