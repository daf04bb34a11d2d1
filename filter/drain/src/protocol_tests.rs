//! Sequences of events of one worker that once ended in a wrong answer or call. A [`Sim`] is the
//! shell: it stores the record, keeps the latch and answers for one counter and for Envoy.

use std::sync::Arc;

use wasm_bindgen_test::wasm_bindgen_test;

use super::Worker;
use crate::effects::{Answer, Call, Counter, Effect, QUIT};
use crate::ends::EndProgress;
use crate::event::{Command, Ended, Event, UNTIL_OPEN};
use crate::facts::{Counts, Facts, IndexEntry, Latch};
use crate::messages::Reply;
use crate::pacing::QueryPacing;
use crate::phase::Phase;
use crate::policy::{BeginCall, Finish, Policy};
use crate::record::Record;
use crate::scope::Scope;
use crate::step::{CallEnd, Step};

type Replies = Vec<(Reply, Option<String>)>;

struct Sim {
    worker: Worker,
    record: Record,
    pacing: QueryPacing,
    latch: Option<u64>,
    rounds: Vec<(u64, u64)>,
    calls: Vec<Call>,
    last: Vec<Effect>,
    holding: u64,
    total: u64,
    has_counter: bool,
}

impl Sim {
    fn new(policy: Policy) -> Self {
        Self {
            worker: Worker::new(Arc::new(policy)),
            record: Record::default(),
            pacing: QueryPacing::default(),
            latch: None,
            rounds: Vec::new(),
            calls: Vec::new(),
            last: Vec::new(),
            holding: 0,
            total: 0,
            has_counter: true,
        }
    }

    fn facts<'f>(&self, now: u64, replies: &'f Replies) -> Facts<'f> {
        let scope = Scope::Gateway;
        let entry = IndexEntry { queue: 7, scope, since: 1, configuration: 1, written_off: 0 };
        Facts {
            now,
            record: self.record.clone(),
            counts: Counts {
                gauges: vec![[self.holding, 0]],
                begun: [5; 2],
                ever_begun: [5, 0],
                others_in_flight: 0,
                read_at: now,
            },
            index: self.has_counter.then_some(entry).into_iter().collect(),
            rejected: Vec::new(),
            replies,
            queue: Some(1),
            pacing: self.pacing,
            latch: Latch {
                is_held: self.latch.is_some(),
                is_closed_by_own: self.latch.is_some_and(|until| until > now),
                ..Latch::default()
            },
            heals: 0,
            total: self.total,
            notify: Step::Due,
            ends: EndProgress::default(),
        }
    }

    fn at(&mut self, now: u64, event: Event) {
        self.with_replies(now, event, &Vec::new());
    }

    fn with_replies(&mut self, now: u64, event: Event, replies: &Replies) {
        let effects = self.worker.on(event, &self.facts(now, replies));
        self.record = effects.record;
        for effect in &effects.list {
            match effect {
                Effect::CloseLatch(until) => self.latch = self.latch.or(Some(*until)),
                Effect::OpenLatch => self.latch = None,
                Effect::ShareTotal(_, total) => self.total = *total,
                Effect::Ask(_, request) => self.rounds.push((request.round, request.sent_at)),
                Effect::Call(call) => {
                    let is_query = matches!(call, Call::Stats { .. });
                    assert!(!is_query || self.pacing.begin(now, 2_000), "a query comes too early");
                    self.calls.push(call.clone());
                }
                _ => {}
            }
        }
        self.last = effects.list;
    }

    /// The counter replies to the last round.
    fn reply(&mut self, now: u64) {
        let replies = self.replies();
        self.with_replies(now, Event::Message, &replies);
    }

    fn replies(&self) -> Replies {
        let (round, requested_at) = *self.rounds.last().expect("a round");
        vec![(Reply { queue: 7, round, requested_at, ..Reply::default() }, None)]
    }

    fn has_query(&self) -> bool {
        self.calls.iter().any(|call| matches!(call, Call::Stats { .. }))
    }

    /// Envoy answers the query: nothing is in flight.
    fn answer_query(&mut self, now: u64, total: u64) {
        let is_query = |call: &Call| matches!(call, Call::Stats { .. });
        let index = self.calls.iter().position(is_query).expect("a query");
        let call = self.calls.remove(index);
        self.pacing.end(now);
        let body = format!(
            "http.a.downstream_rq_active: 0\nhttp.a.downstream_rq_total: {total}\n\
             http.a.downstream_cx_tx_bytes_buffered: 0\nhttp.a.downstream_cx_http3_active: 0\n\
             server.concurrency: 0\n"
        );
        let ended = Ended { end: CallEnd::Answered(200), is_from_upstream: true, body };
        self.at(now, Event::CallEnded(call, ended));
    }
}

fn policy() -> Policy {
    let (finish, begin) = (Finish::DrainAgent, BeginCall::Nothing);
    Policy { finish, begin, patience: 200, ..Policy::default() }
}

fn request(stream: u32, command: Command) -> Event {
    Event::Request { stream, command, has_access: true }
}

fn quit(stream: u32) -> Event {
    request(stream, Command::Signal { path: QUIT.into(), is_graceful: false })
}

/// A record whose deadline has come.
fn expired() -> Record {
    let (phase, began, deadline) = (Phase::Expired, 1_000, 24_000);
    Record { phase, began, deadline, ended: deadline, ..Record::default() }
}

/// A drained gate that has closed the latch for its last call.
fn latched() -> (Sim, u64) {
    let mut sim = Sim::new(policy());
    sim.at(10_000, request(2, Command::Drain));
    sim.reply(10_001);
    let mut now = 10_010;
    while sim.latch.is_none() {
        assert!(now < 12_000, "the latch is not closed");
        sim.at(now, Event::Tick);
        sim.reply(now + 1);
        if sim.has_query() && sim.latch.is_none() {
            sim.answer_query(now + 2, 0);
        }
        now += 10;
    }
    assert_eq!(sim.record.phase, Phase::Drained);
    (sim, now)
}

#[wasm_bindgen_test(unsupported = test)]
fn a_drain_that_has_run_out_passes_no_signal() {
    let mut sim = Sim::new(policy());
    (sim.holding, sim.record) = (3, expired());
    sim.at(24_000 + 30_000 + 500, quit(9));
    let is_signal = |call: &Call| matches!(call, Call::Signal { .. });
    assert_eq!((sim.record.phase, sim.calls.iter().any(is_signal)), (Phase::Serving, false));
    (sim.holding, sim.record) = (3, expired());
    sim.at(24_500, quit(9));
    assert!(sim.calls.iter().any(is_signal), "an expired gate lets it go at once");
}

#[wasm_bindgen_test(unsupported = test)]
fn a_new_configuration_counts_no_expired_drain() {
    let mut sim = Sim::new(policy());
    sim.record = expired();
    sim.at(25_000, Event::Configured);
    assert!(!sim.last.contains(&Effect::Increment(Counter::Expired)));
}

/// A counter is busy for longer than the claim of the last call lasts, and replies in the callback
/// in which the call is claimed anew.
#[wasm_bindgen_test(unsupported = test)]
fn the_latch_stays_closed_while_the_last_call_is_under_way() {
    let (mut sim, mut now) = latched();
    let end = now + 450;
    while now < end || sim.has_query() {
        if sim.has_query() {
            sim.answer_query(now + 5, 0);
        }
        now += 10;
        sim.at(now, Event::Tick);
    }
    sim.reply(now + 5);
    while !sim.calls.contains(&Call::Finish) {
        now += 10;
        assert!(now < end + 2_000, "the last call is not made");
        if sim.has_query() {
            sim.answer_query(now, 0);
        }
        sim.at(now + 1, Event::Tick);
        sim.reply(now + 2);
    }
    for _ in 0..10 {
        now += 10;
        if sim.has_query() {
            sim.answer_query(now, 0);
        }
        sim.reply(now + 1);
        sim.at(now + 2, Event::Tick);
        assert!(sim.latch.is_some(), "at {now}");
    }
}

/// Another signal must not use the latch of a call that is on its way.
#[wasm_bindgen_test(unsupported = test)]
fn no_signal_passes_behind_the_latch_of_another() {
    let (mut sim, mut now) = latched();
    sim.answer_query(now, 0);
    sim.reply(now + 1);
    assert!(sim.calls.contains(&Call::Finish), "{:?}", sim.calls);
    sim.at(now + 30, quit(9));
    for _ in 0..20 {
        now += 50;
        if sim.has_query() {
            sim.answer_query(now, 0);
        }
        sim.reply(now + 1);
        sim.at(now + 2, Event::Tick);
    }
    sim.calls.retain(|call| *call != Call::Finish);
    let refused = Ended::without_answer(CallEnd::Answered(503));
    let replies = sim.replies();
    sim.with_replies(now + 3, Event::CallEnded(Call::Finish, refused), &replies);
    assert!(!sim.calls.iter().any(|call| matches!(call, Call::Signal { .. })), "{:?}", sim.calls);
}

#[wasm_bindgen_test(unsupported = test)]
fn a_second_cancellation_does_not_lift_the_ban_of_the_first() {
    let mut sim = Sim::new(Policy { begin: BeginCall::FailHealthChecks, ..policy() });
    let (phase, began, deadline) = (Phase::Draining, 9_000, 32_000);
    sim.record = Record { phase, began, deadline, begin: Step::Done, ..Record::default() };
    sim.at(10_000, request(2, Command::Cancel));
    assert!(sim.last.contains(&Effect::StopEnds(9_000)));
    sim.at(10_100, request(3, Command::Cancel));
    assert!(!sim.last.contains(&Effect::StopEnds(0)));
}

/// No counter is there: only Envoy's totals show that a request has begun and ended.
#[wasm_bindgen_test(unsupported = test)]
fn the_total_of_the_answer_that_ends_the_quiet_period_counts() {
    let mut sim = Sim::new(Policy { finish: Finish::Nothing, ..policy() });
    sim.has_counter = false;
    sim.at(10_000, request(2, Command::PreStop(UNTIL_OPEN)));
    let mut total = 100;
    for now in (10_005..11_600).step_by(10) {
        if sim.has_query() {
            let end = sim.record.quiet_since + 1_000;
            if sim.record.quiet_since > 0 && sim.pacing.began >= end && total == 100 {
                total += 1;
            }
            sim.answer_query(now, total);
        } else {
            sim.at(now, Event::Tick);
        }
        let is_open =
            |effect: &Effect| matches!(effect, Effect::Respond(2, Answer::Outcome(200, _)));
        assert!(!sim.last.iter().any(is_open), "at {now}, total {total}");
    }
    assert_eq!(total, 101, "a request has begun");
}
