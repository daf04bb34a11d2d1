//! Properties of every sequence of events of one worker. A [`World`] that is simpler than Envoy
//! stores the record, closes the latch, and answers requests and calls late, wrongly or never.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::Worker;
use crate::counts::{Facts, Reply};
use crate::requests::{
    Answer, Call, Client, Command, Effect, Effects, Ended, Event, Hold, QUIT, Signal,
};
use crate::sim::expected::{is_open_anyway, wrong_opening};
use crate::sim::{COUNTER, Sim, entry};
use crate::state::timing::{MOST_ANSWERS, QUERY_INTERVAL, SHORT_TICK};
use crate::state::{
    BeginCall, CallEnd, CountState, DrainPolicy, EnvoyCount, Finish, Millis, Phase, Queue, Scope,
    Step, StreamNumber,
};

const BUSY_STATS: &str = "http.a.downstream_rq_active: 1\nserver.concurrency: 1";
const IDLE_STATS: &str = "http.a.downstream_rq_active: 0\nserver.concurrency: 1";

/// What happens next.
#[derive(Debug, Clone)]
enum Act {
    Tick,
    Message,
    /// Requests of this kind.
    Send(Command, usize),
    /// Streams in flight, and streams that have begun.
    Streams(u64, u64),
    Others(u64),
    /// The counter replies to its last request.
    Reply,
    /// A call ends; the number chooses one.
    End(usize, CallEnd, &'static str),
    /// The client of a request leaves; the number chooses one.
    Leave(usize),
    /// Another worker has taken the latch, or opens it.
    Take(bool),
    Delete(bool),
}

fn act() -> impl Strategy<Value = Act> {
    let few = || prop_oneof![20 => Just(0_u64), 4 => 1..3_u64, 1 => Just(u64::MAX)];
    let end = prop_oneof![
        12 => Just(CallEnd::Answered(200)),
        1 => Just(CallEnd::Answered(503)),
        1 => Just(CallEnd::TimedOut),
        1 => Just(CallEnd::Reset),
        1 => Just(CallEnd::NotSent),
    ];
    let body = prop_oneof![8 => Just(IDLE_STATS), 1 => Just(BUSY_STATS), 1 => Just("")];
    prop_oneof![
        10 => Just(Act::Tick),
        3 => Just(Act::Message),
        6 => (command(), prop_oneof![12 => Just(1), 1 => Just(100)])
            .prop_map(|(command, times)| Act::Send(command, times)),
        3 => (few(), 0..2_u64).prop_map(|(in_flight, begun)| Act::Streams(in_flight, begun)),
        1 => few().prop_map(Act::Others),
        14 => Just(Act::Reply),
        16 => (any::<usize>(), end, body).prop_map(|(call, end, body)| Act::End(call, end, body)),
        1 => any::<usize>().prop_map(Act::Leave),
        1 => any::<bool>().prop_map(Act::Take),
        1 => any::<bool>().prop_map(Act::Delete),
    ]
}

fn quit() -> Command {
    Command::Signal(Signal::Quit(QUIT.into()))
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        4 => Just(Command::Status(None)),
        2 => Just(Command::Streams { limit: 5, wait: None }),
        6 => Just(Command::Ready(None)),
        6 => Just(Command::PreStop(Hold::No)),
        6 => Just(Command::PreStop(Hold::UntilOpen)),
        6 => Just(Command::Drain),
        2 => Just(Command::Cancel),
        1 => Just(Command::Force("test".into())),
        12 => Just(quit()),
        2 => Just(Command::GracefulSignal(Signal::DrainListeners("/drain_listeners".into()))),
    ]
}

fn policy() -> impl Strategy<Value = DrainPolicy> {
    let begin = prop_oneof![
        Just(BeginCall::Nothing),
        Just(BeginCall::DrainListeners),
        Just(BeginCall::FailHealthChecks)
    ];
    let finish = prop_oneof![Just(Finish::Nothing), Just(Finish::DrainAgent), Just(Finish::Quit)];
    (begin, finish).prop_map(|(begin, finish)| DrainPolicy {
        quiet: Millis(100),
        linger: Millis(0),
        deadline: Millis(3_000),
        patience: Millis(200),
        begin,
        finish,
        open_for: Millis(1_000),
        ..DrainPolicy::default()
    })
}

/// The shell, and the requests that are not answered yet.
struct World {
    sim: Sim,
    policy: DrainPolicy,
    /// The newest query and the newest round, asked and answered, and those asked when the latch
    /// was closed.
    asked: [u64; 2],
    answered: [u64; 2],
    before_latch: [u64; 2],
    requests: BTreeMap<StreamNumber, Command>,
    done: BTreeSet<StreamNumber>,
    next_stream: u32,
}

impl World {
    fn new(policy: DrainPolicy) -> Self {
        let mut sim = Sim::new(policy.clone());
        sim.index.push(entry(Queue(COUNTER.0 + 1), Scope::Gateway));
        sim.index.push(entry(Queue(COUNTER.0 + 2), Scope::Outbound));
        Self {
            sim,
            policy,
            asked: [0; 2],
            answered: [0; 2],
            before_latch: [0; 2],
            requests: BTreeMap::new(),
            done: BTreeSet::new(),
            next_stream: 0,
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Tick => self.on(Event::Tick),
            Act::Message => self.on(Event::Message),
            Act::Send(command, times) => {
                for _ in 0..times {
                    self.next_stream += 1;
                    let (stream, command) = (StreamNumber(self.next_stream), command.clone());
                    self.requests.insert(stream, command.clone());
                    let client = Client { has_access: true, longest_drain: None };
                    self.on(Event::Request { stream, command, client });
                }
            }
            Act::Streams(in_flight, begun) => {
                let counts = &mut self.sim.counts;
                counts.scopes[0].gauges.in_flight = in_flight;
                counts.scopes[0].begun += begun;
                counts.begun_before = counts.begun();
                counts.ever_begun.own += begun;
            }
            Act::Others(streams) => self.sim.counts.others_in_flight = streams,
            Act::Reply => self.reply(),
            Act::End(call, end, body) => {
                if self.sim.calls.is_empty() {
                    return;
                }
                let call = self.sim.calls.remove(call % self.sim.calls.len());
                if let Call::Stats { query, .. } = call
                    && end.is_success()
                    && !body.is_empty()
                {
                    self.answered[0] = self.answered[0].max(query);
                }
                self.on(Event::CallEnded(call, Ended { end, body: body.into() }));
            }
            Act::Leave(stream) => {
                let gone = self.requests.keys().nth(stream % self.requests.len().max(1)).copied();
                if let Some(stream) = gone {
                    self.requests.remove(&stream);
                    self.on(Event::StreamGone(stream));
                }
            }
            Act::Take(is_taken) => {
                self.sim.latch.is_taken = is_taken && !self.sim.latch.is_sealed;
                if is_taken && self.sim.closed_until.is_some() {
                    self.sim.closed_until = Some(self.sim.now);
                }
            }
            Act::Delete(ends_envoy) => {
                self.sim.calls.clear();
                (self.asked, self.answered, self.before_latch) = ([0; 2], [0; 2], [0; 2]);
                self.on(Event::Deleted { ends_envoy });
                // Clients of a configuration that is gone have no answer to wait for.
                self.requests.clear();
                self.sim.worker = Worker::new(self.policy.clone().into());
                self.on(Event::Configured);
            }
        }
    }

    fn reply(&mut self) {
        let others = self.sim.counts.others_in_flight;
        let mut replies: Vec<(Reply, Option<String>)> = self.sim.take_replies();
        for (reply, _) in &mut replies {
            reply.in_flight = reply.in_flight.min(9);
            if reply.queue == Queue(COUNTER.0 + 2) {
                reply.in_flight = others;
            }
            self.answered[1] = reply.round;
        }
        if !replies.is_empty() && self.sim.worker.receive(self.sim.now, replies) {
            self.on(Event::Message);
        }
    }

    fn on(&mut self, event: Event) {
        let (before, facts) = (self.sim.worker.clone(), self.sim.facts());
        let mut twin = before.clone();
        let effects = twin.on(event.clone(), &facts);
        self.check(&event, &facts, &effects);
        check_other_worker(before, &facts, &effects);
        if effects.list.contains(&Effect::CloseLatch) {
            self.before_latch = self.asked;
        }
        self.sim.on(event);
        let mut gone = Vec::new();
        for effect in &self.sim.effects {
            match effect {
                Effect::Respond(stream, _) => {
                    assert!(self.done.insert(*stream), "two answers in one callback");
                    gone.push(*stream);
                }
                Effect::Call(Call::Stats { query, .. }) => self.asked[0] = *query,
                Effect::Ask(COUNTER, request) => self.asked[1] = request.round,
                _ => {}
            }
        }
        // The contexts of answered requests end.
        for stream in gone {
            self.requests.remove(&stream);
            self.on(Event::StreamGone(stream));
        }
    }

    fn check(&self, event: &Event, facts: &Facts, effects: &Effects) {
        let answers = effects.list.iter().filter(|effect| matches!(effect, Effect::Respond(..)));
        let answers = answers.count() as u64;
        assert!(answers <= MOST_ANSWERS, "{answers} answers in one callback");
        let is_silent =
            matches!(event, Event::StreamGone(_) | Event::Deleted { .. } | Event::Configured);
        assert!(!is_silent || answers == 0, "an answer to {event:?}");
        for effect in &effects.list {
            match effect {
                Effect::Respond(stream, answer) => {
                    assert!(!self.done.contains(stream), "two answers to one request");
                    // The client of a request whose call is under way may have left.
                    if let Some(command) = self.requests.get(stream) {
                        self.check_answer(command, answer, facts, effects);
                    }
                }
                Effect::CloseLatch => assert!(!facts.latch.is_taken && !facts.latch.is_held),
                Effect::Call(call) => self.check_call(call, facts, effects),
                Effect::Heal { .. } => {
                    let view = effects.view.as_ref().expect("an evaluation");
                    assert!(!view.survey.may_revive && view.survey.in_flight == 0);
                }
                _ => {}
            }
        }
    }

    /// Checks that a 200 which means that the gate is open is true at this moment.
    fn check_answer(&self, command: &Command, answer: &Answer, facts: &Facts, effects: &Effects) {
        let asks = matches!(command, Command::Ready(_) | Command::PreStop(_));
        let is_open = matches!(answer, Answer::Outcome(200, _));
        let record = &effects.shared.record;
        if !asks || !is_open || is_open_anyway(record.phase) {
            return;
        }
        let observed = effects.view.as_ref().expect("an evaluation").observed;
        let is_believed = matches!(observed.count, CountState::Exact | CountState::Assumed);
        let in_flight = facts.counts.scopes[0].gauges.in_flight;
        let (waiting, lasted) = (if is_believed { in_flight } else { 0 }, facts.now - record.began);
        let wrong = wrong_opening(record.phase, waiting, lasted, self.policy.deadline);
        assert_eq!(wrong, None, "200 at {observed:?}");
        assert!(matches!(observed.envoy, EnvoyCount::Holds(0)), "200 at {observed:?}");
    }

    /// Checks that a signal passes only at zero, behind the closed latch.
    fn check_call(&self, call: &Call, facts: &Facts, effects: &Effects) {
        match call {
            Call::Signal { is_latched: false, signal, .. } => {
                let is_open = is_open_anyway(effects.shared.record.phase);
                return assert!(is_open || !signal.ends_envoy(), "a signal without the latch");
            }
            _ if !call.needs_latch() => return,
            _ => {}
        }
        let observed = effects.view.as_ref().expect("an evaluation").observed;
        let latch = facts.latch;
        assert!(latch.is_sealed || latch.is_closed_by_own, "{call:?} at {latch:?}");
        let mut since = self.answered.iter().zip(self.before_latch);
        let are_newer = since.all(|(answered, before)| *answered > before);
        assert!(latch.is_sealed || are_newer, "{call:?} by answers from before the latch");
        assert!(observed.envoy == EnvoyCount::Holds(0) && !observed.may_revive, "{observed:?}");
        assert!(!call.ends_envoy() || observed.others_in_flight == 0, "{call:?} at {observed:?}");
        if *call == Call::Finish {
            assert_eq!(effects.shared.record.phase, Phase::Drained);
            assert!(matches!(effects.shared.record.finish, Step::Sent { .. }), "not claimed");
        }
    }
}

/// Checks that another worker with the same knowledge makes no second call at this moment.
fn check_other_worker(mut other: Worker, facts: &Facts, effects: &Effects) {
    let is_claimed = |effect: &Effect| matches!(effect, Effect::Call(Call::Begin | Call::Finish));
    if effects.list.iter().any(is_claimed) {
        let facts = Facts { shared: effects.shared.clone(), ..facts.clone() };
        let second = other.on(Event::Message, &facts).list;
        assert!(!second.iter().any(is_claimed), "a second call");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_worker_answers_and_signals_only_at_zero(
        policy in policy(),
        acts in proptest::collection::vec(
            (prop_oneof![6 => 0..30_u64, 1 => 50..1_500_u64], act()),
            1..120,
        ),
    ) {
        let mut world = World::new(policy);
        for (time, act) in acts {
            world.sim.now = world.sim.now + Millis(time);
            world.act(act);
        }
    }
}

/// Envoy counts a request that no counter knows, so the signal is tried again until its time is
/// over. Neither the answer that makes it fail nor a reply begins the next query at once.
#[test]
fn a_signal_is_tried_again_after_a_pause() {
    let mut world = World::new(DrainPolicy { begin: BeginCall::Nothing, ..DrainPolicy::default() });
    world.act(Act::Send(quit(), 1));
    for _ in 0..3 {
        let before = world.asked;
        world.act(Act::End(0, CallEnd::Answered(200), BUSY_STATS));
        world.act(Act::Reply);
        let (calls, asked) = (&world.sim.calls, world.asked);
        assert!(calls.is_empty() && asked[1] <= before[1] + 1, "{asked:?}");
        for _ in 1..QUERY_INTERVAL.0 / SHORT_TICK.0 {
            world.sim.now = world.sim.now + SHORT_TICK;
            world.act(Act::Tick);
            world.act(Act::Reply);
            assert!(world.sim.calls.is_empty(), "at {:?}", world.sim.now);
        }
        world.sim.now = world.sim.now + SHORT_TICK;
        world.act(Act::Tick);
        assert_eq!(world.sim.calls.len(), 1, "it is tried again");
    }
}
