//! Properties of every sequence of events of one worker. A [`World`] that is simpler than Envoy
//! stores the record, closes the latch, and answers requests and calls late, wrongly or never.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{Answer, Call, Effect, Effects, Event, Facts, Record, Worker};
use crate::count_state::CountState;
use crate::ends::EndProgress;
use crate::event::{Command, Ended};
use crate::facts::{Counts, IndexEntry, Latch};
use crate::messages::Reply;
use crate::observation::EnvoyCount;
use crate::pacing::QueryPacing;
use crate::phase::Phase;
use crate::policy::{BeginCall, Finish, Policy};
use crate::scope::Scope;
use crate::step::{CallEnd, Step};
use crate::timing::{MOST_ANSWERS, QUERY_INTERVAL, SHORT_TICK};

const COUNTER: u32 = 7;
const BUSY_STATS: &str = "http.a.downstream_rq_active: 1\nserver.concurrency: 1";
const IDLE_STATS: &str = "http.a.downstream_rq_active: 0\nserver.concurrency: 1";
const QUIT: &str = "/quitquitquit";

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
        1 => Just(CallEnd::Refused),
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

fn command() -> impl Strategy<Value = Command> {
    let signal = |path: &str, is_graceful| Command::Signal { path: path.into(), is_graceful };
    prop_oneof![
        4 => Just(Command::Status),
        2 => Just(Command::Streams(5)),
        6 => Just(Command::Ready),
        6 => Just(Command::PreStop(0)),
        6 => Just(Command::PreStop(u64::MAX)),
        6 => Just(Command::Drain),
        2 => Just(Command::Cancel),
        1 => Just(Command::Force("test".into())),
        12 => Just(signal(QUIT, false)),
        2 => Just(signal("/drain_listeners?graceful", true)),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    let begin = prop_oneof![
        Just(BeginCall::Nothing),
        Just(BeginCall::DrainListeners),
        Just(BeginCall::FailHealthChecks)
    ];
    let finish = prop_oneof![Just(Finish::Nothing), Just(Finish::DrainAgent), Just(Finish::Quit)];
    (begin, finish).prop_map(|(begin, finish)| Policy {
        quiet: 100,
        linger: 0,
        deadline: 3_000,
        patience: 200,
        begin,
        finish,
        open_for: 1_000,
        ..Policy::default()
    })
}

/// The rest of Envoy, and the requests that are not answered yet.
struct World {
    worker: Worker,
    policy: Policy,
    now: u64,
    record: Record,
    counts: Counts,
    latch: Latch,
    pacing: QueryPacing,
    next_reply: Option<Reply>,
    calls: Vec<Call>,
    /// The newest query and the newest round, asked and answered, and those asked when the latch
    /// was closed.
    asked: [u64; 2],
    answered: [u64; 2],
    before_latch: [u64; 2],
    requests: BTreeMap<u32, Command>,
    done: BTreeSet<u32>,
    next_stream: u32,
}

impl World {
    fn new(policy: Policy) -> Self {
        Self {
            worker: Worker::new(policy.clone().into()),
            policy,
            now: 3_600_000,
            record: Record::default(),
            counts: Counts { gauges: vec![[0; 2]], ..Counts::default() },
            latch: Latch::default(),
            pacing: QueryPacing::default(),
            next_reply: None,
            calls: Vec::new(),
            asked: [0; 2],
            answered: [0; 2],
            before_latch: [0; 2],
            requests: BTreeMap::new(),
            done: BTreeSet::new(),
            next_stream: 0,
        }
    }

    fn facts<'f>(&self, replies: &'f [(Reply, Option<String>)]) -> Facts<'f> {
        let counter = IndexEntry {
            queue: COUNTER,
            scope: Scope::Gateway,
            since: 1,
            configuration: 0,
            written_off: 0,
        };
        Facts {
            now: self.now,
            record: self.record.clone(),
            counts: self.counts.clone(),
            index: vec![
                counter,
                IndexEntry { queue: COUNTER + 1, ..counter },
                IndexEntry { queue: COUNTER + 2, scope: Scope::Outbound, ..counter },
            ],
            rejected: Vec::new(),
            replies,
            queue: Some(1),
            pacing: self.pacing,
            latch: self.latch,
            heals: 0,
            total: 0,
            notify: Step::Due,
            ends: EndProgress::default(),
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Tick => self.on(Event::Tick, &[]),
            Act::Message => self.on(Event::Message, &[]),
            Act::Send(command, times) => {
                for _ in 0..times {
                    self.next_stream += 1;
                    let (stream, command) = (self.next_stream, command.clone());
                    self.requests.insert(stream, command.clone());
                    self.on(Event::Request { stream, command, has_access: true }, &[]);
                }
            }
            Act::Streams(in_flight, begun) => {
                self.counts.gauges = vec![[in_flight, 0]];
                self.counts.begun = self.counts.begun.map(|before| before + begun);
                self.counts.ever_begun[0] += begun;
            }
            Act::Others(streams) => self.counts.others_in_flight = streams,
            Act::Reply => {
                let Some(reply) = self.next_reply else { return };
                self.answered[1] = reply.round;
                let [beside, outbound] = [(1, 0), (2, self.counts.others_in_flight)]
                    .map(|(next, in_flight)| Reply { queue: COUNTER + next, in_flight, ..reply });
                self.on(Event::Message, &[(reply, None), (beside, None), (outbound, None)]);
            }
            Act::End(call, end, body) => {
                if self.calls.is_empty() {
                    return;
                }
                let call = self.calls.remove(call % self.calls.len());
                if matches!(call, Call::Stats { .. }) {
                    self.pacing.end(self.now);
                    if end.is_success() && !body.is_empty() {
                        self.answered[0] = self.asked[0];
                    }
                }
                let ended = Ended { end, is_from_upstream: false, body: body.into() };
                self.on(Event::CallEnded(call, ended), &[]);
            }
            Act::Leave(stream) => {
                let gone = self.requests.keys().nth(stream % self.requests.len().max(1)).copied();
                if let Some(stream) = gone {
                    self.requests.remove(&stream);
                    self.on(Event::StreamGone(stream), &[]);
                }
            }
            Act::Take(is_taken) => {
                self.latch.is_taken = is_taken && !self.latch.is_sealed;
                self.latch.is_closed_by_own &= !is_taken;
            }
            Act::Delete(ends_envoy) => {
                self.calls.clear();
                (self.asked, self.answered, self.before_latch) = ([0; 2], [0; 2], [0; 2]);
                self.on(Event::Deleted { ends_envoy }, &[]);
                // Clients of a configuration that is gone have no answer to wait for.
                self.requests.clear();
                self.worker = Worker::new(self.policy.clone().into());
                self.on(Event::Configured, &[]);
            }
        }
    }

    fn on(&mut self, event: Event, replies: &[(Reply, Option<String>)]) {
        let before = self.worker.clone();
        let facts = self.facts(replies);
        let effects = self.worker.on(event.clone(), &facts);
        self.check(&event, &facts, &effects);
        check_other_worker(before, &facts, &effects);
        self.record = effects.record;
        let mut gone = Vec::new();
        for effect in effects.list {
            match effect {
                Effect::Respond(stream, _) => {
                    assert!(self.done.insert(stream), "two answers in one callback");
                    gone.push(stream);
                }
                Effect::Call(Call::Stats { with_totals }) => {
                    let limit = self.policy.stats_patience();
                    assert!(self.pacing.begin(self.now, limit), "a query that is not allowed");
                    self.asked[0] += 1;
                    self.calls.push(Call::Stats { with_totals });
                }
                Effect::Call(call) => self.calls.push(call),
                Effect::Ask(COUNTER, request) => {
                    self.asked[1] = request.round;
                    self.next_reply = Some(Reply {
                        queue: COUNTER,
                        in_flight: self.counts.gauges[0][0].min(9),
                        round: request.round,
                        requested_at: request.sent_at,
                        ..Reply::default()
                    });
                }
                Effect::CloseLatch(_) => {
                    self.before_latch = self.asked;
                    (self.latch.is_held, self.latch.is_closed_by_own) = (true, true);
                }
                Effect::OpenLatch => {
                    (self.latch.is_held, self.latch.is_closed_by_own) = (false, false);
                }
                Effect::SealLatch => self.latch = Latch { is_sealed: true, ..Latch::default() },
                _ => {}
            }
        }
        // The contexts of answered requests end.
        for stream in gone {
            self.requests.remove(&stream);
            self.on(Event::StreamGone(stream), &[]);
        }
    }

    fn check(&self, event: &Event, facts: &Facts<'_>, effects: &Effects) {
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
                Effect::Call(call) => self.check_call(call, facts, effects),
                Effect::CloseLatch(until) => {
                    assert!(*until > facts.now && !facts.latch.is_taken && !facts.latch.is_held);
                }
                Effect::Heal { .. } => {
                    let view = effects.view.as_ref().expect("an evaluation");
                    assert!(!view.survey.may_revive && view.survey.in_flight == 0);
                }
                _ => {}
            }
        }
    }

    /// Checks that a 200 which means that the gate is open is true at this moment.
    fn check_answer(
        &self,
        command: &Command,
        answer: &Answer,
        facts: &Facts<'_>,
        effects: &Effects,
    ) {
        let asks = matches!(command, Command::Ready | Command::PreStop(_));
        let is_open = matches!(answer, Answer::Outcome(200, _));
        if !asks || !is_open || effects.record.phase.is_unconditionally_open() {
            return;
        }
        let observed = effects.view.as_ref().expect("an evaluation").observed;
        let is_believed = matches!(observed.count, CountState::Exact | CountState::Assumed);
        assert_eq!(effects.record.phase, Phase::Drained);
        assert!(!is_believed || facts.counts.gauges[0][0] == 0, "200 at {observed:?}");
        assert!(matches!(observed.envoy, EnvoyCount::Holds(0)), "200 at {observed:?}");
    }

    /// Checks that a signal passes only at zero, behind the closed latch.
    fn check_call(&self, call: &Call, facts: &Facts<'_>, effects: &Effects) {
        let quits = match call {
            Call::Finish => self.policy.finish == Finish::Quit,
            Call::Signal { is_latched: true, path, .. } => path.starts_with(QUIT),
            Call::Signal { path, .. } => {
                let is_open = effects.record.phase.is_unconditionally_open();
                return assert!(is_open || path.contains("graceful"), "a signal without the latch");
            }
            _ => return,
        };
        let observed = effects.view.as_ref().expect("an evaluation").observed;
        let latch = facts.latch;
        assert!(latch.is_sealed || latch.is_closed_by_own, "{call:?} at {latch:?}");
        let mut since = self.answered.iter().zip(self.before_latch);
        let are_newer = since.all(|(answered, before)| *answered > before);
        assert!(latch.is_sealed || are_newer, "{call:?} by answers from before the latch");
        assert!(observed.envoy == EnvoyCount::Holds(0) && !observed.may_revive, "{observed:?}");
        assert!(!quits || observed.others_in_flight == 0, "{call:?} at {observed:?}");
        if *call == Call::Finish {
            assert_eq!(effects.record.phase, Phase::Drained);
            assert!(matches!(effects.record.finish, Step::Sent { .. }), "not claimed");
        }
    }
}

/// Checks that another worker with the same knowledge makes no second call at this moment.
fn check_other_worker(mut other: Worker, facts: &Facts<'_>, effects: &Effects) {
    let is_claimed = |effect: &Effect| matches!(effect, Effect::Call(Call::Begin | Call::Finish));
    if effects.list.iter().any(is_claimed) {
        let facts = Facts { record: effects.record.clone(), ..facts.clone() };
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
            world.now += time;
            world.act(act);
        }
    }
}

/// Envoy counts a request that no counter knows, so the signal is tried again until its time is
/// over. Neither the answer that makes it fail nor a reply begins the next query at once.
#[test]
fn a_signal_is_tried_again_after_a_pause() {
    let mut world = World::new(Policy { begin: BeginCall::Nothing, ..Policy::default() });
    let path = QUIT.into();
    world.act(Act::Send(Command::Signal { path, is_graceful: false }, 1));
    for _ in 0..3 {
        let before = world.asked;
        world.act(Act::End(0, CallEnd::Answered(200), BUSY_STATS));
        world.act(Act::Reply);
        assert!(world.calls.is_empty() && world.asked[1] <= before[1] + 1, "{:?}", world.asked);
        for _ in 1..QUERY_INTERVAL / SHORT_TICK {
            world.now += SHORT_TICK;
            world.act(Act::Tick);
            world.act(Act::Reply);
            assert!(world.calls.is_empty(), "at {}", world.now);
        }
        world.now += SHORT_TICK;
        world.act(Act::Tick);
        assert_eq!(world.calls.len(), 1, "it is tried again");
    }
}
