//! Tests of the pure decisions: answers, queries and signals follow from one view.

use wasm_bindgen_test::wasm_bindgen_test;

use super::waiting::{HeldSignal, Needs, Waiter, Waiting, WaitsFor};
use super::words::advice;
use super::{
    LatchedSignal, Origin, QUIT, Refusal, Schedule, Shown, Signal, SignalStep, StatsQuery, View,
};
use crate::counts::{
    AdminFault, BeforeQuery, Census, EnvoySamples, Facts, Latch, LatchCheck, Stats, Survey,
};
use crate::requests::step_of_held;
use crate::state::{
    App, Begun, CountState, DrainPolicy, EnvoyCount, Finish, Millis, Moment, Observation, Phase,
    Reason, Record, Step, StreamNumber,
};

const NOW: Moment = Moment(10_000);
const LATER: Moment = Moment(10_001);
const FIRST: Needs = Needs { round: 1, query: Some(1) };
const NEXT: Needs = Needs { round: 2, query: Some(1) };

/// What counters replied to the first round.
fn survey() -> Survey {
    let nothing = Survey::new(&Census::default(), &DrainPolicy::default(), &Facts::default(), 0);
    Survey { counters: 3, alive_until: Some(NOW), completed_round: 1, ..nothing }
}

/// A snapshot after Envoy and every counter have answered the first requests.
fn snapshot(phase: Phase, reason: Reason, count: CountState, envoy: EnvoyCount) -> View {
    let observed = Observation {
        count,
        may_revive: false,
        known_until: NOW,
        holding: 0,
        in_flight: 0,
        others_in_flight: 0,
        read_at: NOW,
        begun: Begun { before: 5, after: 5 },
        envoy,
        connections: EnvoyCount::Absent,
        buffered: None,
        lingers: false,
        app: App::Awaited,
    };
    let record =
        Record { phase, began: Moment(9_000), deadline: Moment(12_000), ..Record::default() };
    View {
        now: NOW,
        survey: survey(),
        stats: None,
        answered_query: Some(1),
        observed,
        record,
        reason,
        fault: None,
        notify: None,
        agent: None,
        routes_have_failed: false,
        ends: None,
    }
}

/// A snapshot in which both counts are zero.
fn zero(phase: Phase, reason: Reason) -> View {
    snapshot(phase, reason, CountState::Exact, EnvoyCount::Holds(0))
}

fn waiter(waits_for: WaitsFor, needs: Needs, until: Moment) -> Waiter {
    Waiter { stream: StreamNumber(4), waits_for, until, needs, asked_at: None }
}

fn held(needs: Needs, until: Moment) -> HeldSignal {
    HeldSignal { stream: StreamNumber(4), signal: Signal::Quit(QUIT.into()), until, needs }
}

/// A gate that is quiet after half a second.
fn policy(finish: Finish) -> DrainPolicy {
    DrainPolicy { quiet: Millis(500), finish, ..DrainPolicy::default() }
}

const CLOSED: Latch = Latch {
    is_sealed: false,
    is_held: true,
    is_closed_by_own: true,
    is_taken: false,
    is_rejected: false,
};
const OPEN: Latch = Latch { is_held: false, is_closed_by_own: false, ..CLOSED };

/// The annotation of Istio makes Envoy export its count. It does not help where Envoy cannot be
/// asked.
#[wasm_bindgen_test(unsupported = test)]
fn the_advice_names_the_cause() {
    use AdminFault::NotSent;
    let of = |envoy, fault, admin: &str| {
        let view = snapshot(Phase::Serving, Reason::NotDraining, CountState::Partial, envoy);
        let policy = DrainPolicy { admin: admin.into(), ..DrainPolicy::default() };
        advice(&View { fault, ..view }, &policy).unwrap_or_default()
    };
    for (advice, words) in [
        (of(EnvoyCount::Absent, None, "admin"), "statsInclusionSuffixes"),
        (of(EnvoyCount::Absent, None, ""), "`gate.admin.cluster` is empty"),
        (of(EnvoyCount::Awaited, Some(NotSent), "admin"), "Envoy has no cluster `admin`"),
    ] {
        assert!(advice.contains(words), "{words}: {advice}");
    }
    assert_eq!(of(EnvoyCount::Holds(0), None, "admin"), "");
}

#[wasm_bindgen_test(unsupported = test)]
fn a_held_request_is_answered_once_answers_are_new_enough() {
    use EnvoyCount::Absent;
    use Phase::{Drained, Draining, Forced, Serving};
    for (phase, reason, waits_for, needs, until, expected) in [
        (Serving, Reason::NotDraining, WaitsFor::Counts, FIRST, LATER, true),
        (Serving, Reason::NotDraining, WaitsFor::Counts, NEXT, LATER, false),
        (Serving, Reason::NotDraining, WaitsFor::Counts, NEXT, NOW, true),
        (Serving, Reason::NotDraining, WaitsFor::Ready, NEXT, LATER, true),
        (Draining, Reason::Asking, WaitsFor::Ready, NEXT, LATER, false),
        (Drained, Reason::Open(Drained), WaitsFor::Opening, NEXT, LATER, false),
        (Drained, Reason::Open(Drained), WaitsFor::Opening, FIRST, LATER, true),
        (Draining, Reason::Asking, WaitsFor::Opening, FIRST, LATER, false),
        (Forced, Reason::Open(Forced), WaitsFor::Ready, NEXT, LATER, true),
        (Forced, Reason::Open(Forced), WaitsFor::Opening, NEXT, LATER, true),
    ] {
        let is_answered = zero(phase, reason).answers(&waiter(waits_for, needs, until));
        assert_eq!(is_answered, expected, "{phase} {waits_for:?} {needs:?}");
    }
    let drained = zero(Drained, Reason::Open(Drained));
    assert!(drained.answers(&waiter(WaitsFor::Ready, NEXT, NOW)), "its time is over");
    let newer_query = Needs { query: Some(2), ..FIRST };
    for needs in [NEXT, newer_query] {
        assert!(!drained.proves_open(needs), "{needs:?}: the answers are older than the request");
    }
    assert!(drained.proves_open(FIRST) && zero(Forced, Reason::Open(Forced)).proves_open(NEXT));
    let asks = snapshot(Serving, Reason::Asking, CountState::Exact, EnvoyCount::Awaited);
    assert!(!asks.has_answers(FIRST), "the counters have not told which requests hold the drain");
    assert!(asks.has_answers(Needs { query: None, ..FIRST }), "no query is needed");
    let mut absent = snapshot(Drained, Reason::Open(Drained), CountState::Assumed, Absent);
    assert!(!absent.has_answers(FIRST), "whether listeners drain is not known any more");
    absent.stats = Some(Stats::default());
    assert!(absent.has_answers(FIRST));
    let missing = View { stats: None, answered_query: None, ..absent };
    assert!(missing.has_answers(FIRST), "there is no admin interface");
}

#[wasm_bindgen_test(unsupported = test)]
fn a_signal_passes_at_zero_only() {
    let step =
        |view: &View, needs, until, is_busy| step_of_held(view, &held(needs, until), is_busy);
    let serving = zero(Phase::Serving, Reason::NotDraining);
    assert!(serving.decides(&held(FIRST, LATER)) && !serving.decides(&held(NEXT, LATER)));
    assert_eq!(step(&serving, FIRST, LATER, false), SignalStep::CloseLatch);
    assert_eq!(step(&serving, FIRST, LATER, true), SignalStep::Hold);
    assert_eq!(step(&serving, NEXT, NOW, false), SignalStep::Refuse(Refusal::Asking));
    let forced = zero(Phase::Forced, Reason::Open(Phase::Forced));
    assert!(forced.decides(&held(NEXT, LATER)));
    assert_eq!(step(&forced, NEXT, NOW, true), SignalStep::Send);
    let mut busy = zero(Phase::Drained, Reason::Open(Phase::Drained));
    busy.observed.holding = 1;
    assert_eq!(step(&busy, FIRST, LATER, false), SignalStep::Refuse(Refusal::InFlight));
    for (count, when_drained) in [
        (CountState::Leaking, SignalStep::CloseLatch),
        (CountState::Unknown, SignalStep::CloseLatch),
        (CountState::Rejected, SignalStep::CloseLatch),
        (CountState::Asking, SignalStep::AwaitNext),
    ] {
        let at = |phase| {
            let view = snapshot(phase, Reason::Asking, count, EnvoyCount::Holds(0));
            step(&view, FIRST, LATER, false)
        };
        assert_eq!(at(Phase::Drained), when_drained, "{count}");
        assert_ne!(at(Phase::Serving), SignalStep::CloseLatch, "{count}: one zero is not enough");
    }
    let mut stalled =
        snapshot(Phase::Drained, Reason::Asking, CountState::Leaking, EnvoyCount::Holds(0));
    stalled.observed.may_revive = true;
    assert_eq!(step(&stalled, FIRST, LATER, false), SignalStep::AwaitNext);
    assert_eq!(step(&stalled, FIRST, NOW, false), SignalStep::Refuse(Refusal::LateCounter));
}

#[wasm_bindgen_test(unsupported = test)]
fn a_signal_waits_for_the_bytes_that_clients_have_not_read() {
    let mut unwritten = zero(Phase::Serving, Reason::NotDraining);
    unwritten.observed.buffered = Some(1);
    let at = |until| step_of_held(&unwritten, &held(FIRST, until), false);
    assert_eq!(at(LATER), SignalStep::AwaitNext);
    assert_eq!(at(NOW), SignalStep::Refuse(Refusal::Unwritten), "its time is over");
    let latched = latched(operator(LATER));
    assert_eq!(latched.step(&unwritten, &CLOSED), SignalStep::AwaitNext);
}

fn operator(until: Moment) -> Origin {
    Origin::Operator(held(FIRST, until))
}

fn latched(origin: Origin) -> LatchedSignal {
    LatchedSignal { origin, needs: FIRST, until: LATER, shown: Shown::Yes }
}

#[wasm_bindgen_test(unsupported = test)]
fn a_latched_signal_is_sent_only_after_fresh_counts() {
    let drained = zero(Phase::Drained, Reason::Open(Phase::Drained));
    for origin in [operator(LATER), Origin::Finish] {
        let signal = latched(origin);
        assert_eq!(signal.step(&drained, &CLOSED), SignalStep::Send);
        assert_ne!(signal.step(&drained, &OPEN), SignalStep::Send, "the latch is open");
        let late = LatchedSignal { needs: NEXT, until: NOW, ..signal };
        assert!(late.is_ready(&drained, &CLOSED));
        assert_ne!(late.step(&drained, &CLOSED), SignalStep::Send, "the answers are too old");
    }
    let serving = zero(Phase::Serving, Reason::NotDraining);
    assert_eq!(latched(operator(LATER)).step(&serving, &CLOSED), SignalStep::Send);
    assert_eq!(latched(Origin::Finish).step(&serving, &CLOSED), SignalStep::Hold);
    let older = snapshot(Phase::Serving, Reason::Asking, CountState::Exact, EnvoyCount::Holds(1));
    assert_eq!(latched(operator(LATER)).step(&older, &CLOSED), SignalStep::AwaitNext);
    let step = latched(operator(NOW)).step(&older, &CLOSED);
    assert_eq!(step, SignalStep::Refuse(Refusal::Uncounted), "its time is over");
    let signal = latched(operator(LATER));
    assert!(signal.is_of_stream(StreamNumber(4)) && !signal.is_of_stream(StreamNumber(5)));
}

/// A schedule without work beyond that of the record and the held requests.
fn idle<'g>(
    (policy, samples, waiting): &'g (DrainPolicy, EnvoySamples, Waiting),
    record: &'g Record,
) -> Schedule<'g> {
    Schedule {
        policy,
        record,
        samples,
        waiting,
        latched: None,
        is_latch_held: false,
        is_healing: false,
        leads: true,
        may_finish: true,
        doubts_agent: false,
        opens_routes: false,
    }
}

fn record(phase: Phase, quiet_since: Option<Moment>) -> Record {
    Record { phase, began: Moment(9_000), quiet_since, ..Record::default() }
}

fn ago(time: u64) -> Option<Moment> {
    Some(NOW - Millis(time))
}

#[wasm_bindgen_test(unsupported = test)]
fn the_gate_ticks_while_there_is_something_to_do() {
    let parts = (policy(Finish::Nothing), EnvoySamples::default(), Waiting::default());
    for (phase, quiet_since, leading, following) in [
        (Phase::Serving, None, None, None),
        (Phase::Draining, None, Some(100), Some(1_000)),
        (Phase::Draining, ago(100), Some(100), Some(1_000)),
        (Phase::Draining, ago(460), Some(40), Some(1_000)),
        (Phase::Draining, ago(600), Some(10), Some(1_000)),
        (Phase::Draining, ago(1_600), Some(100), Some(1_000)),
        (Phase::Drained, None, Some(1_000), Some(1_000)),
        (Phase::Expired, None, Some(1_000), Some(1_000)),
    ] {
        let record = record(phase, quiet_since);
        let schedule = idle(&parts, &record);
        let follower = Schedule { leads: false, ..schedule };
        assert_eq!(schedule.tick_period(NOW), leading.map(Millis), "{phase} {quiet_since:?}");
        assert_eq!(follower.tick_period(NOW), following.map(Millis), "{phase} {quiet_since:?}");
        assert_eq!(schedule.asks_on_ticks(), phase != Phase::Serving, "{phase}");
        assert!(!follower.asks_on_ticks(), "{phase}");
        let latched = Schedule { latched: Some(FIRST), ..schedule };
        assert_eq!(latched.tick_period(NOW), Some(Millis(10)));
        let is_serving = phase == Phase::Serving;
        let check = if is_serving { LatchCheck::Off } else { LatchCheck::ForAWhile };
        assert_eq!(schedule.latch_check(false), check, "{phase}");
        assert_eq!(schedule.latch_check(true), LatchCheck::Always);
    }
    let serving = record(Phase::Serving, None);
    for schedule in [
        Schedule { is_latch_held: true, ..idle(&parts, &serving) },
        Schedule { is_healing: true, ..idle(&parts, &serving) },
    ] {
        assert_eq!(schedule.tick_period(NOW), Some(Millis(100)));
    }
    let finishes = (policy(Finish::DrainAgent), EnvoySamples::default(), parts.2);
    let drained = record(Phase::Drained, None);
    let due = idle(&finishes, &drained);
    assert_eq!(due.tick_period(NOW), Some(Millis(10)), "the last call is due");
    let done = Record { finish: Step::Done, ..drained.clone() };
    assert_eq!(idle(&finishes, &done).tick_period(NOW), Some(Millis(1_000)));
}

#[wasm_bindgen_test(unsupported = test)]
fn envoy_is_queried_when_its_count_can_open_the_gate() {
    use StatsQuery::{Due, DueIfNothingHolds, NotDue};
    let query = |(waits_for, needs), record: &Record, is_fresh: bool, needs_totals| {
        let mut samples = EnvoySamples::default();
        let at = NOW - Millis(if is_fresh { 60 } else { 5_000 });
        let number = samples.begin_query(BeforeQuery { at, ..BeforeQuery::default() });
        samples.end_query(number, at, 1, Ok(Stats { active: Some(0), ..Stats::default() }));
        let mut waiting = Waiting::default();
        waiting.requests.push(waiter(waits_for, needs, LATER));
        let parts = (policy(Finish::Nothing), samples, waiting);
        idle(&parts, record).stats_query(NOW, &survey(), needs_totals)
    };
    let hook = (WaitsFor::Opening, FIRST);
    for (phase, quiet_since, needs_totals, expected) in [
        (Phase::Serving, None, true, NotDue),
        (Phase::Draining, None, false, NotDue),
        (Phase::Draining, None, true, Due),
        (Phase::Draining, ago(499), false, NotDue),
        (Phase::Draining, ago(500), false, DueIfNothingHolds),
        (Phase::Drained, None, false, DueIfNothingHolds),
        (Phase::Expired, None, true, NotDue),
    ] {
        let seen = query(hook, &record(phase, quiet_since), false, needs_totals);
        assert_eq!(seen, expected, "{phase} {quiet_since:?} {needs_totals}");
    }
    let serving = record(Phase::Serving, None);
    let status = |query| (WaitsFor::Counts, Needs { round: 1, query });
    assert_eq!(query(status(Some(2)), &serving, true, false), Due, "it has not begun");
    assert_eq!(query(status(Some(1)), &serving, true, false), DueIfNothingHolds, "answered");
    assert_eq!(query(status(Some(1)), &serving, false, false), Due, "its answer is too old");
    assert_eq!(query(status(None), &serving, true, false), DueIfNothingHolds);
}

/// A worker that has not replied since the quiet period ended, or since the latch was closed, may
/// own bytes that no sum shows.
#[wasm_bindgen_test(unsupported = test)]
fn envoy_is_queried_after_every_worker_has_replied() {
    let mut samples = EnvoySamples::default();
    let number = samples.begin_query(BeforeQuery::default());
    samples.end_query(number, Moment(1), 1, Ok(Stats { active: Some(0), ..Stats::default() }));
    let parts = (policy(Finish::Nothing), samples, Waiting::default());
    let record = record(Phase::Draining, ago(600));
    let draining = idle(&parts, &record);
    let latched = Schedule { latched: Some(Needs { round: 1, query: Some(2) }), ..draining };
    for (schedule, survey, expected) in [
        (draining, survey(), StatsQuery::DueIfNothingHolds),
        (draining, Survey { alive_until: ago(101), ..survey() }, StatsQuery::NotDue),
        (latched, survey(), StatsQuery::Due),
        (latched, Survey { completed_round: 0, ..survey() }, StatsQuery::NotDue),
    ] {
        assert_eq!(schedule.stats_query(NOW, &survey, false), expected, "{survey:?}");
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn the_app_is_asked_at_intervals_and_when_the_quiet_period_ends() {
    let parts = (policy(Finish::Nothing), EnvoySamples::default(), Waiting::default());
    for (phase, quiet_since, asked, expected) in [
        (Phase::Serving, None, 9_000, false),
        (Phase::Draining, None, 50, true),
        (Phase::Draining, None, 49, false),
        (Phase::Draining, ago(500), 1, true),
        (Phase::Draining, ago(500), 0, false),
    ] {
        let record = record(phase, quiet_since);
        let is_due = idle(&parts, &record).is_app_query_due(NOW, NOW - Millis(asked));
        assert_eq!(is_due, expected, "{phase} {quiet_since:?} {asked}");
    }
}

/// A signal to end stops the process under the streams of all scopes; another one does not.
#[wasm_bindgen_test(unsupported = test)]
fn a_signal_that_ends_envoy_waits_for_the_streams_of_other_scopes() {
    let mut others = zero(Phase::Drained, Reason::Open(Phase::Drained));
    others.observed.others_in_flight = 1;
    let step = |signal| step_of_held(&others, &HeldSignal { signal, ..held(FIRST, LATER) }, false);
    let refused = SignalStep::Refuse(Refusal::InFlightElsewhere);
    assert_eq!(step(Signal::Quit(QUIT.into())), refused);
    assert_eq!(step(Signal::DrainListeners("/drain_listeners".into())), SignalStep::CloseLatch);
    assert_eq!(latched(Origin::Finish).step(&others, &CLOSED), SignalStep::Hold);
}

#[wasm_bindgen_test(unsupported = test)]
fn a_latch_that_is_lost_or_that_streams_do_not_see_sends_nothing() {
    let drained = zero(Phase::Drained, Reason::Open(Phase::Drained));
    let signal = latched(Origin::Finish);
    let waiting = LatchedSignal { needs: NEXT, ..signal.clone() };
    assert!(!waiting.is_ready(&drained, &CLOSED), "its answers come");
    assert!(waiting.is_ready(&drained, &OPEN), "it need not wait for them");
    let sealed = Latch { is_sealed: true, is_closed_by_own: false, ..CLOSED };
    assert_eq!(signal.step(&drained, &sealed), SignalStep::Send);
    let rejected = Latch { is_rejected: true, ..OPEN };
    assert_eq!(signal.step(&drained, &rejected), SignalStep::Refuse(Refusal::LatchUnseen));
}
