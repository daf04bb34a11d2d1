//! The watch over Istio's agent: its stop begins the drain, in place of a stop hook.

use super::app::from_response;
use super::apply::Apply;
use super::cancelling;
use crate::requests::{Call, Client, Effect, Ended, Level};
use crate::state::{AgentReply, AgentTurn, App, CallEnd, Moment};

/// The agent's answer to `GET /drain`, which is the path of another method. Another program on its
/// port answers otherwise.
const ONLY_POST: u16 = 405;

impl Apply<'_, '_, '_> {
    /// Asks the agent, if that is due and no other worker asks.
    pub(crate) fn ask_agent(&mut self) {
        let now = self.callback.now();
        if self.policy.watches_agent && self.callback.shared.agent.is_due(now) {
            self.callback.shared.agent.ask(now);
            self.callback.call(Call::Agent { asked: now });
        }
    }

    pub(super) fn agent_has_answered(&mut self, asked: Moment, ended: &Ended) {
        match self.callback.shared.agent.record(asked, reply(ended)) {
            Some(AgentTurn::Stops) => {
                self.callback.log(Level::Warning, "Istio's agent stops");
                if self.begin_drain(Client::default()) {
                    self.callback.shared.agent.drain = Some(self.callback.record().began);
                }
            }
            Some(AgentTurn::Returns) => self.call_off(),
            None => {}
        }
    }

    /// Cancels the drain that the agent's stop has begun, unless it is over already.
    fn call_off(&mut self) {
        let drain = self.callback.shared.agent.drain.take();
        let began = self.callback.record().began;
        if drain != Some(began) || !self.callback.record().phase.is_draining() {
            return;
        }
        self.callback.log(Level::Warning, "Istio's agent answers again: the drain is called off");
        cancelling::cancel(self.callback.record(), self.policy);
        self.callback.shared.ends.stop(began);
        self.callback.push(Effect::StopEnds(began));
        self.callback.show_phase();
    }
}

fn reply(ended: &Ended) -> AgentReply {
    match ended.end {
        CallEnd::Answered(ONLY_POST) => AgentReply::Answers,
        _ if from_response(ended) == App::Gone => AgentReply::Refuses,
        _ => AgentReply::Unknown,
    }
}

#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;
