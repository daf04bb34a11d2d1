//! Sequences of events of one worker that once ended in a wrong answer or call.

use wasm_bindgen_test::wasm_bindgen_test;

use crate::counts::Latch;
use crate::requests::{Answer, Call, Effect, Event, GateMetric, Hold, QUIT, Signal};
use crate::requests::{Client, Command};
use crate::sim::{COUNTER, GATE, IDLE, Sim, entry};
use crate::state::timing::{LATCH_LEASE, REPLY_TIMEOUT};
use crate::state::{
    BeginCall, CallEnd, DrainPolicy, Finish, Millis, Moment, Phase, Queue, Record, Scope, Step,
    StreamNumber,
};

const FIRST: StreamNumber = StreamNumber(2);
const SECOND: StreamNumber = StreamNumber(3);

fn policy() -> DrainPolicy {
    let (finish, begin) = (Finish::DrainAgent, BeginCall::Nothing);
    DrainPolicy { finish, begin, patience: Millis(200), ..DrainPolicy::default() }
}

fn quit() -> Command {
    Command::Signal(Signal::Quit(QUIT.into()))
}

/// A record whose deadline has come.
fn expired(now: Moment) -> Record {
    let (began, deadline) = (now - Millis(23_000), now);
    Record { phase: Phase::Expired, began, deadline, ended: Some(now), ..Record::default() }
}

fn has_signal(sim: &Sim) -> bool {
    sim.calls.iter().any(|call| matches!(call, Call::Signal { .. }))
}

fn pass(sim: &mut Sim, time: u64) {
    sim.now = sim.now + Millis(time);
}

/// A tick after ten milliseconds, with all replies and answers of Envoy.
fn step(sim: &mut Sim) {
    pass(sim, 10);
    sim.on(Event::Tick);
    sim.reply();
    if sim.query().is_some() {
        sim.answer_query(IDLE);
        sim.reply();
    }
}

/// A drained gate that has just closed the latch for its last call.
fn latched() -> Sim {
    let mut sim = Sim::new(policy());
    sim.request(FIRST, Command::Drain);
    sim.reply();
    close_latch(&mut sim);
    assert_eq!(sim.shared.record.phase, Phase::Drained);
    sim
}

/// Ticks, with all replies and answers, until the gate has closed the latch.
fn close_latch(sim: &mut Sim) {
    let begun = sim.now;
    while sim.closed_until.is_none() {
        assert!(sim.now < begun + Millis(2_000), "the latch is not closed");
        pass(sim, 10);
        sim.on(Event::Tick);
        sim.reply();
        sim.answer_query(IDLE);
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn a_drain_that_has_run_out_passes_no_signal() {
    let mut sim = Sim::new(policy());
    let end = sim.now;
    sim.counts.scopes[0].gauges.in_flight = 3;
    sim.shared.record = expired(end);
    pass(&mut sim, 30_500);
    sim.request(FIRST, quit());
    assert_eq!((sim.shared.record.phase, has_signal(&sim)), (Phase::Serving, false));
    (sim.now, sim.shared.record) = (end + Millis(500), expired(end));
    sim.request(FIRST, quit());
    assert!(has_signal(&sim), "an expired gate lets it go at once");
}

#[wasm_bindgen_test(unsupported = test)]
fn a_new_configuration_counts_no_expired_drain() {
    let mut sim = Sim::new(policy());
    sim.shared.record = expired(sim.now);
    sim.on(Event::Configured);
    assert!(!sim.effects.contains(&Effect::Increment(GateMetric::Expired)));
}

/// A drained gate that makes no last call.
fn drained() -> Sim {
    let deadline = Millis(5_000);
    let mut sim = Sim::new(DrainPolicy { finish: Finish::Nothing, deadline, ..policy() });
    sim.request(FIRST, Command::Drain);
    while sim.shared.record.phase != Phase::Drained {
        step(&mut sim);
    }
    sim
}

#[wasm_bindgen_test(unsupported = test)]
fn a_drain_whose_zero_was_proven_does_not_expire() {
    let mut sim = drained();
    sim.request(SECOND, Command::PreStop(Hold::UntilOpen));
    while sim.shared.record.phase == Phase::Drained {
        step(&mut sim);
    }
    assert_eq!(sim.shared.record.phase, Phase::Serving);
}

/// A drained gate cannot prove zero to a hook beside a counter that has died since. The hook waits,
/// or polls.
#[wasm_bindgen_test(unsupported = test)]
fn a_hook_of_a_drained_gate_waits_until_the_deadline_at_most() {
    const DEAD: Queue = Queue(9);
    for hold in [Hold::UntilOpen, Hold::AtMost(Millis(300))] {
        let mut sim = drained();
        sim.index.push(entry(DEAD, Scope::Outbound));
        let end = sim.shared.record.deadline;
        let mut answer = Some(503);
        while answer != Some(200) {
            assert!(sim.now <= end + Millis(10), "{hold:?}: held past the deadline");
            if answer.take().is_some() {
                sim.request(SECOND, Command::PreStop(hold));
            }
            pass(&mut sim, 10);
            sim.on(Event::Tick);
            sim.asked.retain(|(queue, _)| *queue != DEAD);
            sim.reply();
            sim.answer_query(IDLE);
            answer = sim.effects.iter().find_map(|effect| match effect {
                Effect::Respond(SECOND, Answer::Outcome(status, _)) => Some(*status),
                _ => None,
            });
        }
        assert_eq!(sim.shared.record.phase, Phase::Expired, "{hold:?}");
    }
}

/// The holder extends the lease for as long as its call is under way.
#[wasm_bindgen_test(unsupported = test)]
fn the_latch_stays_closed_while_the_last_call_is_under_way() {
    let mut sim = latched();
    while !sim.calls.contains(&Call::Finish) {
        step(&mut sim);
    }
    for _ in 0..500 {
        step(&mut sim);
        assert!(sim.closed_until.is_some_and(|until| until > sim.now), "at {:?}", sim.now);
    }
}

/// Envoy does not answer, or a counter does not reply: a proxy that serves must not refuse streams
/// for long.
#[wasm_bindgen_test(unsupported = test)]
fn the_latch_opens_soon_if_the_counts_do_not_come() {
    for envoy_answers in [false, true] {
        let mut sim = Sim::new(policy());
        sim.request(FIRST, Command::Status(None));
        sim.reply();
        sim.answer_query(IDLE);
        pass(&mut sim, 1_000);
        sim.request(SECOND, quit());
        close_latch(&mut sim);
        let closed_at = sim.now;
        while sim.closed_until.is_some() {
            pass(&mut sim, 10);
            sim.on(Event::Tick);
            if !envoy_answers {
                sim.reply();
            }
            assert!(sim.now <= closed_at + REPLY_TIMEOUT, "closed since {closed_at:?}");
        }
        assert!(!has_signal(&sim), "{envoy_answers}");
    }
}

/// A worker whose VM has died extends nothing.
#[wasm_bindgen_test(unsupported = test)]
fn the_latch_is_a_lease() {
    let mut sim = latched();
    let until = sim.closed_until.expect("closed");
    assert!(until - sim.now <= LATCH_LEASE);
    sim.now = until;
    assert!(!sim.facts().latch.is_closed_by_own);
    sim.on(Event::Tick);
    assert!(!sim.calls.contains(&Call::Finish) || sim.facts().latch.is_closed_by_own);
}

/// The query behind the latch begins when every counter has replied: a worker that stands still
/// may have ended a stream whose last bytes no sum of Envoy shows.
#[wasm_bindgen_test(unsupported = test)]
fn behind_the_latch_the_counters_reply_before_envoy_is_queried() {
    let mut sim = latched();
    for _ in 0..20 {
        pass(&mut sim, 10);
        sim.on(Event::Tick);
        assert_eq!(sim.query(), None, "no counter has replied");
    }
    sim.reply();
    assert!(sim.query().is_some());
}

/// Another signal must not use the latch of a call that is on its way.
#[wasm_bindgen_test(unsupported = test)]
fn no_signal_passes_behind_the_latch_of_another() {
    let mut sim = latched();
    while !sim.calls.contains(&Call::Finish) {
        step(&mut sim);
    }
    sim.request(SECOND, quit());
    for _ in 0..80 {
        step(&mut sim);
    }
    let finish = sim.calls.iter().position(|call| *call == Call::Finish).expect("under way");
    sim.end_call(finish, CallEnd::Answered(503), "");
    assert!(!has_signal(&sim), "{:?}", sim.calls);
}

/// Each failure of the last call costs one try, and nothing else does.
#[wasm_bindgen_test(unsupported = test)]
fn the_last_call_is_tried_three_times_however_slow_envoy_is() {
    let mut sim = latched();
    let mut tries = 0;
    let mut query_at = None;
    for _ in 0..4_000 {
        pass(&mut sim, 10);
        sim.on(Event::Tick);
        sim.reply();
        // Each answer takes 450 ms, more than twice the time limit of a call.
        query_at = query_at.or(sim.query().map(|_| sim.now));
        if query_at.is_some_and(|asked| sim.now >= asked + Millis(450)) {
            query_at = None;
            sim.answer_query(IDLE);
            sim.reply();
        }
        if let Some(finish) = sim.calls.iter().position(|call| *call == Call::Finish) {
            tries += 1;
            sim.end_call(finish, CallEnd::Answered(500), "");
            if tries == 3 {
                return assert_eq!(sim.shared.record.finish, Step::Failed);
            }
        }
    }
    panic!("{tries} tries");
}

#[wasm_bindgen_test(unsupported = test)]
fn a_second_cancellation_does_not_lift_the_ban_of_the_first() {
    let mut sim = Sim::new(DrainPolicy { begin: BeginCall::FailHealthChecks, ..policy() });
    let began = sim.now - Millis(1_000);
    let (phase, deadline) = (Phase::Draining, began + Millis(23_000));
    sim.shared.record = Record { phase, began, deadline, begin: Step::Done, ..Record::default() };
    sim.request(FIRST, Command::Cancel);
    assert!(sim.effects.contains(&Effect::StopEnds(began)));
    pass(&mut sim, 100);
    sim.request(SECOND, Command::Cancel);
    assert!(!sim.effects.iter().any(|effect| matches!(effect, Effect::StopEnds(_))));
    assert_eq!(sim.shared.ends.stopped, Some(began));
}

/// No counter is there: only Envoy's totals show that a request has begun and ended.
#[wasm_bindgen_test(unsupported = test)]
fn the_total_of_the_answer_that_ends_the_quiet_period_counts() {
    let mut sim = Sim::new(DrainPolicy { finish: Finish::Nothing, ..policy() });
    sim.index.clear();
    sim.request(FIRST, Command::PreStop(Hold::UntilOpen));
    let (began, mut total) = (sim.now, 100);
    while sim.now < began + Millis(1_600) {
        pass(&mut sim, 10);
        sim.on(Event::Tick);
        if sim.query().is_some() {
            let since = sim.shared.record.quiet_since;
            if total == 100 && since.is_some_and(|since| sim.now >= since + Millis(1_000)) {
                total += 1;
            }
            let body = IDLE.replace("rq_total: 0", &format!("rq_total: {total}"));
            sim.answer_query(&body);
        }
        let is_open =
            |effect: &Effect| matches!(effect, Effect::Respond(FIRST, Answer::Outcome(200, _)));
        assert!(!sim.effects.iter().any(is_open), "at {:?}, total {total}", sim.now);
    }
    assert_eq!(total, 101, "a request has begun");
}

/// The drain that a hook at this gate waits for opens this long after it has begun.
fn opens_after(sim: &mut Sim, answers: impl Fn(u64) -> bool) -> Millis {
    sim.request(FIRST, Command::PreStop(Hold::UntilOpen));
    let began = sim.now;
    let mut queries = 0;
    loop {
        pass(sim, 10);
        assert!(sim.now < began + Millis(20_000), "it does not open");
        sim.on(Event::Tick);
        sim.reply();
        if sim.query().is_some() {
            queries += 1;
            if answers(queries) {
                sim.answer_query(IDLE);
                sim.reply();
            } else {
                sim.calls.clear(); // lost
            }
        }
        let is_open =
            |effect: &Effect| matches!(effect, Effect::Respond(FIRST, Answer::Outcome(200, _)));
        if sim.effects.iter().any(is_open) {
            return sim.now - began;
        }
    }
}

/// Whichever answer of Envoy is lost, an idle drain ends soon.
#[wasm_bindgen_test(unsupported = test)]
fn one_lost_answer_does_not_hold_an_idle_drain() {
    for lost in 0..4 {
        let mut sim = Sim::new(DrainPolicy { finish: Finish::Nothing, ..policy() });
        let took = opens_after(&mut sim, |query| query != lost);
        assert!(took <= Millis(1_300), "{took:?} without the answer {lost}");
    }
}

/// A worker stands still in the end of a stream, before its last bytes are written: the gauges and
/// Envoy's sums are zero.
#[wasm_bindgen_test(unsupported = test)]
fn a_counter_that_is_late_keeps_the_gate_closed() {
    let mut sim = Sim::new(DrainPolicy { finish: Finish::Nothing, ..policy() });
    let scope = sim.index[0].scope;
    sim.index.push(entry(Queue(8), scope));
    sim.request(FIRST, Command::PreStop(Hold::UntilOpen));
    sim.reply();
    let stops_at = sim.now + Millis(500);
    while sim.now < stops_at + Millis(9_000) {
        pass(&mut sim, 10);
        sim.on(Event::Tick);
        if sim.now >= stops_at {
            sim.asked.retain(|(queue, _)| *queue == COUNTER);
        }
        sim.reply();
        sim.answer_query(IDLE);
        assert!(sim.shared.record.phase == Phase::Draining, "at {:?}", sim.now - stops_at);
    }
}

/// An excluded stream is in flight. Once Envoy's sums have proven to lack it, the one request in
/// them is another one.
#[wasm_bindgen_test(unsupported = test)]
fn nothing_is_subtracted_from_sums_that_lack_streams() {
    for (first, lacks) in [(1, false), (0, true)] {
        let mut sim = Sim::new(DrainPolicy { finish: Finish::Nothing, ..policy() });
        sim.request(FIRST, Command::PreStop(Hold::UntilOpen));
        let until = sim.now + Millis(3_000);
        let mut active = first;
        while sim.now < until && sim.shared.record.phase == Phase::Draining {
            pass(&mut sim, 10);
            sim.on(Event::Tick);
            let mut replies = sim.take_replies();
            replies.iter_mut().for_each(|(reply, _)| reply.excluded = 1);
            if sim.worker.receive(sim.now, replies) {
                sim.on(Event::Message);
            }
            if sim.query().is_some() {
                sim.answer_query(&IDLE.replace("rq_active: 0", &format!("rq_active: {active}")));
                active = 1;
            }
        }
        assert_eq!(sim.shared.record.phase == Phase::Draining, lacks, "{first} at first");
    }
}

/// All gates were asked once; only one goes on asking.
#[wasm_bindgen_test(unsupported = test)]
fn a_gate_that_does_not_lead_asks_nothing() {
    let mut sim = Sim::new(policy());
    sim.counts.scopes[0].gauges.in_flight = 1;
    sim.request(FIRST, Command::Drain);
    sim.reply();
    assert!(sim.shared.is_led_by(Some(GATE), sim.now));
    sim.shared.lead_from_now_on(Some(Queue(99)), sim.now);
    let mut rounds = 0;
    for _ in 0..2 {
        pass(&mut sim, 1_000);
        sim.on(Event::Tick);
        rounds += sim.asked.len();
        sim.asked.clear();
    }
    assert_eq!((rounds, sim.tick), (0, Some(Millis(1_000))));
    pass(&mut sim, 1_000);
    sim.on(Event::Tick);
    assert!(sim.shared.is_led_by(Some(GATE), sim.now), "it is silent");
    pass(&mut sim, 100);
    sim.on(Event::Tick);
    assert!(!sim.asked.is_empty());
}

/// Requests for readiness from strangers join the last round, and begin no query.
#[wasm_bindgen_test(unsupported = test)]
fn strangers_keep_nothing_busy() {
    let mut sim = Sim::new(policy());
    let mut asked = 0;
    for stream in 0..200 {
        pass(&mut sim, 10);
        let client = Client { has_access: false, longest_drain: None };
        let stream = StreamNumber(100 + stream);
        sim.on(Event::Request { stream, command: Command::Ready(None), client });
        asked += sim.asked.len();
        sim.reply();
        assert_eq!(sim.query(), None);
        sim.on(Event::StreamGone(stream));
    }
    assert!(asked <= 3, "{asked} rounds in two seconds");
}

/// A gate that has not followed the drain asks Envoy at once, before the counters have replied.
#[wasm_bindgen_test(unsupported = test)]
fn readiness_waits_for_the_query_that_proves_it() {
    let mut sim = Sim::new(policy());
    let (now, ended) = (sim.now, Some(sim.now));
    let quiet_since = Some(now - Millis(1_500));
    sim.shared.record = Record {
        phase: Phase::Drained,
        began: now - Millis(9_000),
        deadline: now + Millis(20_000),
        finish: Step::Done,
        quiet_since,
        ended,
        ..Record::default()
    };
    sim.request(SECOND, Command::Ready(Some(Millis(4_000))));
    sim.answer_query(IDLE);
    let mut answer = None;
    for _ in 0..20 {
        sim.reply();
        let answers = |effect: &Effect| match effect {
            Effect::Respond(SECOND, Answer::Outcome(status, _)) => Some(*status),
            _ => None,
        };
        answer = answer.or_else(|| sim.effects.iter().find_map(answers));
        step(&mut sim);
        answer = answer.or_else(|| sim.effects.iter().find_map(answers));
    }
    assert_eq!(answer, Some(200));
}

/// On a loaded machine a round takes longer than a client without a word about it would wait.
#[wasm_bindgen_test(unsupported = test)]
fn a_question_waits_for_late_counters_as_long_as_its_client_says() {
    let is_answered = |sim: &Sim, expected: StreamNumber| {
        let answers =
            |effect: &Effect| matches!(effect, Effect::Respond(stream, _) if *stream == expected);
        sim.effects.iter().any(answers)
    };
    let commands: [fn(Option<Millis>) -> Command; 3] =
        [Command::Status, Command::Ready, |wait| Command::Streams { limit: 10, wait }];
    for command in commands {
        let mut sim = latched();
        sim.request(SECOND, command(Some(Millis(5_000))));
        pass(&mut sim, 4_900);
        sim.on(Event::Tick);
        assert!(!is_answered(&sim, SECOND), "{:?}", command(None));
        pass(&mut sim, 100);
        sim.on(Event::Tick);
        assert!(is_answered(&sim, SECOND), "{:?}", command(None));
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn a_sealed_latch_is_not_closed_again() {
    let mut sim = latched();
    sim.latch = Latch { is_sealed: true, ..Latch::default() };
    sim.closed_until = None;
    sim.on(Event::Tick);
    assert!(!sim.effects.contains(&Effect::CloseLatch));
}
