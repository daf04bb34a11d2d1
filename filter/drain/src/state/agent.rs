//! Istio's agent beside Envoy, which closes its port at SIGTERM and then waits for Envoy's end. A
//! gate that starts with the agent asks that port, and needs no stop hook. Pure.
//!
//! No false alarm may end an Envoy that serves. So a refusal means nothing before the agent has
//! answered once, three in a row begin a drain, an answer calls that drain off, and the last call
//! needs a refusal that is new.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use strum::VariantArray;

use super::moments::Moment;
use super::timing::{
    AGENT_INTERVAL, AGENT_PATIENCE, AGENT_SLACK, AGENT_STOPS_AFTER, ANSWERS_THAT_STAY,
    FAST_AGENT_INTERVAL, QUERY_SLACK, REFUSAL_VALID_FOR, REFUSALS_THAT_STOP,
};

/// What one question shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, VariantArray)]
pub enum AgentReply {
    /// Neither: a time-out, or another program's answer.
    #[default]
    Unknown,
    /// The agent has answered as only it does.
    Answers,
    /// The kernel says that nobody listens on its port.
    Refuses,
}

/// The last replies, as far as they are alike.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct AgentReplies {
    /// What each of them shows.
    pub reply: AgentReply,
    /// Their number.
    pub count: u64,
    /// The beginning of the first question.
    pub first: Moment,
    /// The beginning of the last question.
    pub last: Moment,
}

/// What all workers know of the agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Agent {
    /// Whether it has answered since Envoy started.
    pub has_answered: bool,
    /// The beginning of the last question; none before the first.
    pub asked_at: Option<Moment>,
    /// Whether that question has no reply yet.
    pub is_asked: bool,
    /// The last replies.
    pub replies: AgentReplies,
    /// The beginning of the drain that the agent's stop has begun.
    pub drain: Option<Moment>,
}

/// What follows from a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentTurn {
    /// The agent stops: the drain begins.
    Stops,
    /// It answers again: that drain is called off.
    Returns,
}

/// The agent, as a status shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// It answers: its stop will begin a drain.
    Answers,
    /// It has stopped: the drain ends Envoy at zero.
    Stopped,
    /// It has not answered since Envoy started, so its stop begins no drain.
    NeverAnswered,
    /// It did not reply to the last question.
    Silent,
}

impl Agent {
    /// Whether a question is due: one at a time, and sooner while refusals are being counted.
    pub(crate) fn is_due(&self, now: Moment) -> bool {
        let interval = if self.is_doubtful() { FAST_AGENT_INTERVAL } else { AGENT_INTERVAL };
        let pause = if self.is_asked { AGENT_PATIENCE + QUERY_SLACK } else { interval };
        self.asked_at.is_none_or(|asked| now - asked + AGENT_SLACK >= pause)
    }

    /// Records that a worker asks.
    pub(crate) fn ask(&mut self, now: Moment) {
        (self.asked_at, self.is_asked) = (Some(now), true);
    }

    /// Whether there are refusals, but not enough of them.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.has_answered && self.replies.reply == AgentReply::Refuses && !self.has_stopped()
    }

    fn has_stopped(&self) -> bool {
        let AgentReplies { reply, count, first, last } = self.replies;
        let is_sure = count >= REFUSALS_THAT_STOP && last - first >= AGENT_STOPS_AFTER;
        self.has_answered && reply == AgentReply::Refuses && is_sure
    }

    fn stays(&self) -> bool {
        self.replies.reply == AgentReply::Answers && self.replies.count >= ANSWERS_THAT_STAY
    }

    /// Records the reply to the question of that moment. That of a question that was given up
    /// changes nothing.
    pub(crate) fn record(&mut self, asked: Moment, reply: AgentReply) -> Option<AgentTurn> {
        if !self.is_asked || self.asked_at != Some(asked) {
            return None;
        }
        let had_stopped = self.has_stopped();
        self.is_asked = false;
        self.has_answered |= reply == AgentReply::Answers;
        if self.replies.reply != reply || self.replies.count == 0 {
            self.replies = AgentReplies { reply, count: 0, first: asked, last: asked };
        }
        self.replies.count += 1;
        self.replies.last = asked;
        if self.has_stopped() && !had_stopped {
            Some(AgentTurn::Stops)
        } else {
            self.stays().then_some(AgentTurn::Returns).filter(|_| self.drain.is_some())
        }
    }

    /// Whether the last call may be made: nobody has listened on the agent's port lately.
    pub(crate) fn permits_end(&self, now: Moment) -> bool {
        self.has_stopped() && now - self.replies.last <= REFUSAL_VALID_FOR
    }

    pub(crate) fn state(&self) -> AgentState {
        match self.replies.reply {
            _ if !self.has_answered => AgentState::NeverAnswered,
            _ if self.has_stopped() => AgentState::Stopped,
            AgentReply::Answers => AgentState::Answers,
            AgentReply::Refuses | AgentReply::Unknown => AgentState::Silent,
        }
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::AgentReply::{Answers, Refuses, Unknown};
    use super::{Agent, AgentReply, AgentState, AgentTurn, Moment};

    /// An agent that was asked at each of these moments.
    fn asked(replies: &[(u64, AgentReply)]) -> (Agent, Option<AgentTurn>) {
        let (mut agent, mut turn) = (Agent::default(), None);
        for &(at, reply) in replies {
            agent.ask(Moment(at));
            turn = agent.record(Moment(at), reply);
        }
        (agent, turn)
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn three_refusals_in_a_row_stop_an_agent_that_has_answered() {
        let stop = Some(AgentTurn::Stops);
        for (replies, expected) in [
            (&[(0, Answers), (1_000, Refuses), (1_250, Refuses), (1_500, Refuses)][..], stop),
            (&[(1_000, Refuses), (1_250, Refuses), (1_500, Refuses), (1_750, Refuses)], None),
            (&[(0, Answers), (1_000, Refuses), (1_500, Refuses)], None),
            (&[(0, Answers), (1_000, Refuses), (1_100, Refuses), (1_459, Refuses)], None),
            (&[(0, Answers), (1_000, Refuses), (1_250, Unknown), (1_500, Refuses)], None),
            (&[(0, Answers), (1, Refuses), (300, Answers), (600, Refuses), (900, Refuses)], None),
        ] {
            assert_eq!(asked(replies).1, expected, "{replies:?}");
        }
        let (mut agent, _) = asked(&[(0, Answers), (1, Refuses), (300, Refuses), (600, Refuses)]);
        agent.ask(Moment(1_600));
        assert_eq!(agent.record(Moment(1_600), Refuses), None, "it has stopped already");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn two_answers_in_a_row_call_the_drain_off() {
        let stopped = [(0, Answers), (1, Refuses), (300, Refuses), (600, Refuses)];
        for (later, expected) in [
            (&[(1_600, Answers)][..], None),
            (&[(1_600, Answers), (2_600, Answers)], Some(AgentTurn::Returns)),
            (&[(1_600, Answers), (2_600, Unknown), (3_600, Answers)], None),
        ] {
            let (mut agent, turn) = asked(&stopped);
            assert_eq!(turn, Some(AgentTurn::Stops));
            agent.drain = Some(Moment(600));
            let mut turn = None;
            for &(at, reply) in later {
                agent.ask(Moment(at));
                turn = agent.record(Moment(at), reply);
            }
            assert_eq!(turn, expected, "{later:?}");
        }
        assert_eq!(asked(&[(0, Answers), (1_000, Answers)]).1, None, "no drain of its own");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn one_worker_asks_and_a_lost_question_is_asked_again() {
        let mut agent = Agent::default();
        assert!(agent.is_due(Moment(5)));
        agent.ask(Moment(5));
        assert!(!agent.is_due(Moment(1_005)), "it runs");
        assert!(agent.is_due(Moment(2_005)), "its worker is gone");
        agent.ask(Moment(2_005));
        assert_eq!(agent.record(Moment(5), Answers), None);
        assert!(!agent.has_answered, "of a question that was given up");
        agent.record(Moment(2_005), Answers);
        assert!(!agent.is_due(Moment(2_800)) && agent.is_due(Moment(3_005)));
        agent.ask(Moment(3_005));
        agent.record(Moment(3_005), Refuses);
        assert!(agent.is_doubtful() && agent.is_due(Moment(3_255)));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn the_last_call_needs_a_new_refusal() {
        let stopped = [(0, Answers), (1, Refuses), (300, Refuses), (600, Refuses)];
        let (mut agent, _) = asked(&stopped);
        assert!(agent.permits_end(Moment(3_100)) && !agent.permits_end(Moment(3_101)));
        for reply in [Answers, Unknown] {
            agent.ask(Moment(700));
            agent.record(Moment(700), reply);
            assert!(!agent.permits_end(Moment(701)), "{reply:?}");
        }
        assert!(!asked(&stopped[..3]).0.permits_end(Moment(301)), "not sure yet");
        assert!(!asked(&stopped[1..]).0.permits_end(Moment(601)), "it has never answered");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_status_shows_the_last_reply() {
        let start = [(0, Answers), (1_000, Refuses), (1_300, Refuses), (1_600, Refuses)];
        for (replies, state) in [
            (&start[..0], AgentState::NeverAnswered),
            (&start[1..], AgentState::NeverAnswered),
            (&start[..1], AgentState::Answers),
            (&start[..2], AgentState::Silent),
            (&start[..], AgentState::Stopped),
            (&[(0, Answers), (1_000, Unknown)], AgentState::Silent),
        ] {
            assert_eq!(asked(replies).0.state(), state, "{replies:?}");
        }
    }
}
