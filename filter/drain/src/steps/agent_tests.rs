//! Drains that start with the stop of Istio's agent, against every behaviour of its port.

use wasm_bindgen_test::wasm_bindgen_test;

use crate::requests::Event;
use crate::requests::{Call, Command};
use crate::sim::{IDLE, Sim};
use crate::state::{
    AgentState, BeginCall, CallEnd, DrainPolicy, Finish, Millis, Moment, Phase, StreamNumber,
};

/// What happens to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    Answers,
    Refuses,
    /// A time-out.
    Hangs,
    /// Another program listens there.
    Foreign,
}

const REFUSED: &str = "upstream connect error or disconnect/reset before headers. reset reason: \
    remote connection failure, transport failure reason: delayed connect error: Connection refused";

impl Port {
    fn end(self) -> (CallEnd, &'static str) {
        match self {
            Self::Answers => (CallEnd::Answered(405), ""),
            Self::Refuses => (CallEnd::NotSent, REFUSED),
            Self::Hangs => (CallEnd::TimedOut, ""),
            Self::Foreign => (CallEnd::Answered(404), ""),
        }
    }
}

/// A gate, the agent's port, and the replies that the gate has seen.
struct World {
    sim: Sim,
    port: Port,
    /// Each question's moment, with what became of it.
    seen: Vec<(Moment, Port)>,
    finished_at: Option<Moment>,
}

impl World {
    fn new() -> Self {
        let policy = DrainPolicy {
            watches_agent: true,
            begin: BeginCall::Nothing,
            finish: Finish::Quit,
            quiet: Millis(200),
            linger: Millis(0),
            ..DrainPolicy::default()
        };
        let mut sim = Sim::new(policy);
        sim.on(Event::Configured);
        Self { sim, port: Port::Answers, seen: Vec::new(), finished_at: None }
    }

    /// Lets time pass. Counters and Envoy reply at once; Envoy does not end.
    fn pass(&mut self, time: u64) {
        let until = self.sim.now + Millis(time);
        while self.sim.now < until {
            let period = self.sim.tick.expect("a gate that watches ticks");
            self.sim.now = (self.sim.now + period).min(until);
            self.sim.on(Event::Tick);
            self.sim.reply();
            while !self.sim.calls.is_empty() {
                self.end_call();
                self.sim.reply();
            }
        }
    }

    fn end_call(&mut self) {
        let now = self.sim.now;
        let (end, body) = match self.sim.calls[0] {
            Call::Agent { asked } => {
                self.seen.push((asked, self.port));
                self.port.end()
            }
            Call::Finish => {
                self.finished_at = Some(now);
                assert!(self.may_finish(), "ended after {:?} at {now:?}", self.seen);
                assert_eq!(self.sim.counts.scopes[0].gauges.in_flight, 0);
                (CallEnd::NotSent, "") // made again, and judged again
            }
            _ => (CallEnd::Answered(200), IDLE),
        };
        self.sim.end_call(0, end, body);
    }

    /// The rule, in other words: it has answered, and the last three replies, or more, over 460 ms
    /// or longer, the newest of them at most 2.5 s ago, are refusals.
    fn may_finish(&self) -> bool {
        let row: Vec<Moment> = self
            .seen
            .iter()
            .rev()
            .map_while(|(at, port)| (*port == Port::Refuses).then_some(*at))
            .collect();
        let has_answered = self.seen.iter().any(|(_, port)| *port == Port::Answers);
        let (Some(last), Some(first)) = (row.first(), row.last()) else { return false };
        let is_long = row.len() >= 3 && *last - *first >= Millis(460);
        has_answered && is_long && self.sim.now - *last <= Millis(2_500)
    }

    fn streams(&mut self, in_flight: u64) {
        self.sim.counts.scopes[0].gauges.in_flight = in_flight;
    }

    fn phase(&self) -> Phase {
        self.sim.shared.record.phase
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn the_agents_stop_drains_and_ends_envoy_at_zero() {
    let mut world = World::new();
    world.streams(1);
    world.pass(10_000);
    assert_eq!(world.phase(), Phase::Serving);
    let asked = world.seen.len();
    assert!((9..=11).contains(&asked), "{asked} questions in ten seconds");
    world.port = Port::Refuses;
    world.pass(1_800);
    assert_eq!(world.phase(), Phase::Draining);
    world.pass(5_000);
    assert_eq!(world.finished_at, None, "a stream is in flight");
    world.streams(0);
    world.pass(400);
    assert!(world.finished_at.is_some(), "{:?}", world.sim.shared);
}

#[wasm_bindgen_test(unsupported = test)]
fn no_false_alarm_begins_a_drain() {
    for alarm in [Port::Hangs, Port::Foreign] {
        let mut world = World::new();
        world.pass(3_000);
        world.port = alarm;
        world.pass(60_000);
        assert_eq!(world.phase(), Phase::Serving, "{alarm:?}");
        world.port = Port::Refuses;
        world.pass(3_000);
        assert!(world.finished_at.is_some(), "a stop after {alarm:?} is seen");
    }
    let mut world = World::new();
    world.port = Port::Foreign;
    world.pass(3_000);
    world.port = Port::Refuses;
    world.pass(60_000);
    assert_eq!(world.phase(), Phase::Serving, "it has never answered");
    assert_eq!(world.sim.shared.agent.state(), AgentState::NeverAnswered);
}

#[wasm_bindgen_test(unsupported = test)]
fn an_agent_that_answers_again_calls_off_its_drain_only() {
    let mut world = World::new();
    world.streams(1);
    world.pass(2_000);
    world.port = Port::Refuses;
    world.pass(3_000);
    world.port = Port::Answers;
    world.pass(3_000);
    assert_eq!((world.phase(), world.finished_at), (Phase::Serving, None));
    world.sim.request(StreamNumber(3), Command::Drain);
    world.port = Port::Refuses;
    world.pass(3_000);
    world.port = Port::Answers;
    world.pass(3_000);
    assert_eq!(world.phase(), Phase::Draining, "an operator's drain goes on");
    world.streams(0);
    world.pass(3_000);
    assert_eq!((world.phase(), world.finished_at), (Phase::Drained, None), "the agent is there");
    assert!(world.sim.tick.is_some_and(|tick| tick >= Millis(1_000)), "nothing is in a hurry");
}

#[cfg(not(target_arch = "wasm32"))]
mod properties {
    use proptest::prelude::*;

    use super::{Port, World};
    use crate::state::Phase;

    fn port() -> impl Strategy<Value = Port> {
        prop_oneof![
            6 => Just(Port::Answers),
            6 => Just(Port::Refuses),
            1 => Just(Port::Hangs),
            1 => Just(Port::Foreign),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 300,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// The world judges each last call. In the end the agent stops for good.
        #[test]
        fn envoy_ends_only_at_zero_beside_an_agent_that_is_gone(
            turns in proptest::collection::vec((port(), 0..2_u64, 1..3_000_u64), 1..30),
        ) {
            let mut world = World::new();
            for (port, streams, time) in turns {
                world.port = port;
                world.streams(streams);
                world.pass(time);
            }
            (world.port, world.finished_at) = (Port::Answers, None);
            world.streams(1);
            world.pass(40_000);
            prop_assert_eq!(world.phase(), Phase::Serving);
            world.port = Port::Refuses;
            world.pass(3_000);
            world.streams(0);
            world.pass(2_000);
            prop_assert!(world.finished_at.is_some(), "{:?}", world.sim.shared);
        }
    }
}
