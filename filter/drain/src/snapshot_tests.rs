//! Tests of the pure decisions: answers, queries and signals follow from one view.

use wasm_bindgen_test::wasm_bindgen_test;

use crate::count_state::CountState;
use crate::effects::QUIT;
use crate::facts::Latch;
use crate::messages::LatchCheck;
use crate::observation::{App, EnvoyCount, Observation, Reason};
use crate::phase::Phase;
use crate::policy::{Finish, Policy};
use crate::record::Record;
use crate::samples::{AdminFault, BeforeQuery, EnvoySamples};
use crate::schedule::{Schedule, StatsQuery};
use crate::signals::{ASKING, IN_FLIGHT, LatchedSignal, SignalKind, SignalStep, step_of_waiter};
use crate::stats::Stats;
use crate::step::Step;
use crate::survey::Survey;
use crate::view::View;
use crate::waiting::{Needs, Waiter, Waiting, WaitsFor};
use crate::words::advice;

const NOW: u64 = 10_000;
const FIRST: Needs = Needs { round: 1, query: 1 };
const NEXT: Needs = Needs { round: 2, query: 1 };

/// A snapshot after Envoy and every counter have answered the first requests.
fn snapshot(phase: Phase, reason: Reason, count: CountState, envoy: EnvoyCount) -> View {
    let survey = Survey {
        count_state: count,
        in_flight: 0,
        counters: 3,
        lost: vec![7],
        may_revive: false,
        counting_since: 0,
        alive_until: NOW,
        completed_round: 1,
        ignorable_in_flight: [0; 2],
        others_in_flight: 0,
        others_died: false,
    };
    let observed = Observation {
        count,
        may_revive: false,
        known_until: NOW,
        holding: 0,
        in_flight: 0,
        others_in_flight: 0,
        read_at: NOW,
        begun: [5; 2],
        envoy,
        buffered: None,
        lingers: false,
        app: App::Asking,
    };
    let record = Record { phase, began: 9_000, deadline: 12_000, ..Record::default() };
    View {
        now: NOW,
        survey,
        stats: None,
        answered_query: 1,
        observed,
        record,
        reason,
        fault: None,
        notify: None,
        ends: None,
    }
}

/// A snapshot in which both counts are zero.
fn zero(phase: Phase, reason: Reason) -> View {
    snapshot(phase, reason, CountState::Exact, EnvoyCount::Holds(0))
}

fn waiter(waits_for: WaitsFor, needs: Needs, until: u64) -> Waiter {
    Waiter { stream: 4, waits_for, until, needs, path: "/quitquitquit".into() }
}

/// A gate that is quiet after half a second.
fn policy(finish: Finish) -> Policy {
    Policy { quiet: 500, finish, ..Policy::default() }
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
    use AdminFault::Refused;
    let of = |envoy, fault, admin: &str| {
        let view = snapshot(Phase::Serving, Reason::NotDraining, CountState::Partial, envoy);
        let policy = Policy { admin: admin.into(), ..Policy::default() };
        advice(&View { fault, ..view }, &policy).unwrap_or_default()
    };
    for (advice, words) in [
        (of(EnvoyCount::Absent, None, "admin"), "statsInclusionSuffixes"),
        (of(EnvoyCount::Absent, None, ""), "`gate.admin.cluster` is empty"),
        (of(EnvoyCount::Asking, Some(Refused), "admin"), "Envoy has no cluster `admin`"),
    ] {
        assert!(advice.contains(words), "{words}: {advice}");
    }
    assert_eq!(of(EnvoyCount::Holds(0), None, "admin"), "");
}

#[wasm_bindgen_test(unsupported = test)]
fn a_held_request_is_answered_once_answers_are_new_enough() {
    use EnvoyCount::Absent;
    use Phase::{Drained, Draining, Forced, Serving};
    const LATER: u64 = NOW + 1;
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
        (Forced, Reason::Open(Forced), WaitsFor::Signal, NEXT, LATER, true),
        (Serving, Reason::NotDraining, WaitsFor::Signal, NEXT, LATER, false),
    ] {
        let is_answered = zero(phase, reason).answers(&waiter(waits_for, needs, until));
        assert_eq!(is_answered, expected, "{phase} {waits_for:?} {needs:?} {until}");
    }
    let drained = zero(Drained, Reason::Open(Drained));
    assert!(drained.answers(&waiter(WaitsFor::Ready, NEXT, NOW)), "its time is over");
    assert!(!drained.proves_open(NEXT), "the answers are older than the request");
    assert!(drained.proves_open(FIRST) && zero(Forced, Reason::Open(Forced)).proves_open(NEXT));
    let asks = snapshot(Serving, Reason::Asking, CountState::Exact, EnvoyCount::Asking);
    assert!(!asks.has_answers(FIRST), "the counters have not told which requests hold the drain");
    assert!(asks.has_answers(Needs { query: 0, ..FIRST }), "no query is needed");
    let mut absent = snapshot(Drained, Reason::Open(Drained), CountState::Assumed, Absent);
    assert!(!absent.has_answers(FIRST), "whether listeners drain is not known any more");
    absent.stats = Some(Stats::default());
    assert!(absent.has_answers(FIRST));
    let missing = View { stats: None, answered_query: u64::MAX, ..absent };
    assert!(missing.has_answers(FIRST), "there is no admin interface");
}

#[wasm_bindgen_test(unsupported = test)]
fn a_signal_passes_at_zero_only() {
    let step = |view: &View, needs, until, is_busy| {
        step_of_waiter(view, &waiter(WaitsFor::Signal, needs, until), is_busy)
    };
    let serving = zero(Phase::Serving, Reason::NotDraining);
    assert_eq!(step(&serving, FIRST, NOW + 1, false), SignalStep::CloseLatch);
    assert_eq!(step(&serving, FIRST, NOW + 1, true), SignalStep::Hold);
    assert_eq!(step(&serving, NEXT, NOW, false), SignalStep::Refuse(ASKING));
    let forced = zero(Phase::Forced, Reason::Open(Phase::Forced));
    assert_eq!(step(&forced, NEXT, NOW, true), SignalStep::Send);
    let mut busy = zero(Phase::Drained, Reason::Open(Phase::Drained));
    busy.observed.holding = 1;
    assert_eq!(step(&busy, FIRST, NOW + 1, false), SignalStep::Refuse(IN_FLIGHT));
    for (count, when_drained) in [
        (CountState::Leaking, SignalStep::CloseLatch),
        (CountState::Unknown, SignalStep::CloseLatch),
        (CountState::Rejected, SignalStep::CloseLatch),
        (CountState::Asking, SignalStep::AwaitNext),
    ] {
        let at = |phase| {
            step(
                &snapshot(phase, Reason::Asking, count, EnvoyCount::Holds(0)),
                FIRST,
                NOW + 1,
                false,
            )
        };
        assert_eq!(at(Phase::Drained), when_drained, "{count}");
        assert_ne!(at(Phase::Serving), SignalStep::CloseLatch, "{count}: one zero is not enough");
    }
    let mut stalled =
        snapshot(Phase::Drained, Reason::Asking, CountState::Leaking, EnvoyCount::Holds(0));
    stalled.observed.may_revive = true;
    assert_eq!(step(&stalled, FIRST, NOW + 1, false), SignalStep::AwaitNext);
    assert!(matches!(step(&stalled, FIRST, NOW, false), SignalStep::Refuse(_)));
}

#[wasm_bindgen_test(unsupported = test)]
fn a_signal_waits_for_the_bytes_that_clients_have_not_read() {
    let mut unwritten = zero(Phase::Serving, Reason::NotDraining);
    unwritten.observed.buffered = Some(1);
    let at = |until| step_of_waiter(&unwritten, &waiter(WaitsFor::Signal, FIRST, until), false);
    assert_eq!(at(NOW + 1), SignalStep::AwaitNext);
    assert!(matches!(at(NOW), SignalStep::Refuse(_)), "its time is over");
    let until = NOW + 1;
    let kind = SignalKind::Operator { stream: 4, path: String::new(), until };
    let latched = LatchedSignal { kind, needs: FIRST, until: NOW + 1 };
    assert_eq!(latched.step(&unwritten, &policy(Finish::Nothing), &CLOSED), SignalStep::AwaitNext);
}

#[wasm_bindgen_test(unsupported = test)]
fn a_latched_signal_is_sent_only_after_fresh_counts() {
    let operator = SignalKind::Operator { stream: 4, path: String::new(), until: NOW + 1 };
    let latched =
        |kind: &SignalKind| LatchedSignal { kind: kind.clone(), needs: FIRST, until: NOW + 1 };
    let drained = zero(Phase::Drained, Reason::Open(Phase::Drained));
    for kind in [&operator, &SignalKind::Finish] {
        assert_eq!(latched(kind).step(&drained, &policy(Finish::Quit), &CLOSED), SignalStep::Send);
        assert_ne!(
            latched(kind).step(&drained, &policy(Finish::Quit), &OPEN),
            SignalStep::Send,
            "the latch is open"
        );
        let late = LatchedSignal { needs: NEXT, until: NOW, ..latched(kind) };
        assert!(late.is_ready(&drained, &CLOSED));
        assert_ne!(
            late.step(&drained, &policy(Finish::Quit), &CLOSED),
            SignalStep::Send,
            "the answers are too old"
        );
    }
    let serving = zero(Phase::Serving, Reason::NotDraining);
    assert_eq!(latched(&operator).step(&serving, &policy(Finish::Quit), &CLOSED), SignalStep::Send);
    assert_eq!(
        latched(&SignalKind::Finish).step(&serving, &policy(Finish::Quit), &CLOSED),
        SignalStep::Hold
    );
    let counts = |envoy| snapshot(Phase::Serving, Reason::Asking, CountState::Exact, envoy);
    let older = counts(EnvoyCount::Holds(1));
    assert_eq!(
        latched(&operator).step(&older, &policy(Finish::Quit), &CLOSED),
        SignalStep::AwaitNext
    );
    let gone = SignalKind::Operator { stream: 4, path: String::new(), until: NOW };
    assert!(
        matches!(
            latched(&gone).step(&older, &policy(Finish::Quit), &CLOSED),
            SignalStep::Refuse(_)
        ),
        "its time is over"
    );
    assert!(latched(&operator).is_of_stream(4) && !latched(&operator).is_of_stream(5));
}

/// A schedule without work beyond that of the record and the held requests.
fn idle<'g>(
    (policy, samples, waiting): &'g (Policy, EnvoySamples, Waiting),
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
    }
}

fn record(phase: Phase, quiet_since: u64) -> Record {
    Record { phase, began: 9_000, quiet_since, ..Record::default() }
}

#[wasm_bindgen_test(unsupported = test)]
fn the_gate_ticks_while_there_is_something_to_do() {
    let parts = (policy(Finish::Nothing), EnvoySamples::default(), Waiting::default());
    for (phase, quiet_since, expected) in [
        (Phase::Serving, 0, 0),
        (Phase::Draining, 0, 100),
        (Phase::Draining, NOW - 100, 100),
        (Phase::Draining, NOW - 460, 40),
        (Phase::Draining, NOW - 600, 10),
        (Phase::Drained, 0, 1_000),
        (Phase::Expired, 0, 1_000),
    ] {
        let record = record(phase, quiet_since);
        let schedule = idle(&parts, &record);
        assert_eq!(schedule.tick_period(NOW), expected, "{phase} {quiet_since}");
        assert_eq!(Schedule { latched: Some(FIRST), ..schedule }.tick_period(NOW), 10);
        let is_serving = phase == Phase::Serving;
        let check = if is_serving { LatchCheck::Off } else { LatchCheck::ForAWhile };
        assert_eq!(schedule.latch_check(false), check, "{phase}");
        assert_eq!(schedule.latch_check(true), LatchCheck::Always);
    }
    let serving = record(Phase::Serving, 0);
    for schedule in [
        Schedule { is_latch_held: true, ..idle(&parts, &serving) },
        Schedule { is_healing: true, ..idle(&parts, &serving) },
    ] {
        assert_eq!(schedule.tick_period(NOW), 100);
    }
    let finishes = (policy(Finish::DrainAgent), EnvoySamples::default(), parts.2);
    let drained = record(Phase::Drained, 0);
    assert_eq!(idle(&finishes, &drained).tick_period(NOW), 10, "the last call is due");
    let done = Record { finish: Step::Done, ..drained };
    assert_eq!(idle(&finishes, &done).tick_period(NOW), 1_000);
}

#[wasm_bindgen_test(unsupported = test)]
fn envoy_is_queried_when_its_count_can_open_the_gate() {
    use StatsQuery::{Due, DueIfNothingHolds, NotDue};
    let query = |(waits_for, needs), record: &Record, is_fresh: bool, needs_totals| {
        let mut samples = EnvoySamples::default();
        let at = if is_fresh { NOW - 60 } else { NOW - 5_000 };
        samples.begin_query(BeforeQuery { at, ..BeforeQuery::default() });
        samples.end_query(at, 1, Ok(Stats { active: Some(0), ..Stats::default() }));
        let mut waiting = Waiting::default();
        waiting.hold(waiter(waits_for, needs, NOW + 1));
        idle(&(policy(Finish::Nothing), samples, waiting), record).stats_query(NOW, needs_totals)
    };
    let hook = (WaitsFor::Opening, FIRST);
    for (phase, quiet_since, needs_totals, expected) in [
        (Phase::Serving, 0, true, NotDue),
        (Phase::Draining, 0, false, NotDue),
        (Phase::Draining, 0, true, Due),
        (Phase::Draining, NOW - 499, false, NotDue),
        (Phase::Draining, NOW - 500, false, DueIfNothingHolds),
        (Phase::Drained, 0, false, DueIfNothingHolds),
        (Phase::Expired, 0, true, NotDue),
    ] {
        let seen = query(hook, &record(phase, quiet_since), false, needs_totals);
        assert_eq!(seen, expected, "{phase} {quiet_since} {needs_totals}");
    }
    let serving = record(Phase::Serving, 0);
    let status = |query| (WaitsFor::Counts, Needs { round: 1, query });
    assert_eq!(query(status(2), &serving, true, false), Due, "it has not begun");
    assert_eq!(query(status(1), &serving, true, false), DueIfNothingHolds, "it was answered");
    assert_eq!(query(status(1), &serving, false, false), Due, "its answer is too old");
    assert_eq!(query((WaitsFor::Signal, Needs::default()), &serving, true, false), NotDue);
}

#[wasm_bindgen_test(unsupported = test)]
fn the_app_is_asked_at_intervals_and_when_the_quiet_period_ends() {
    let parts = (policy(Finish::Nothing), EnvoySamples::default(), Waiting::default());
    for (phase, quiet_since, asked_at, expected) in [
        (Phase::Serving, 0, 0, false),
        (Phase::Draining, 0, NOW - 50, true),
        (Phase::Draining, 0, NOW - 49, false),
        (Phase::Draining, NOW - 500, NOW - 1, true),
        (Phase::Draining, NOW - 500, NOW, false),
    ] {
        let record = record(phase, quiet_since);
        let is_due = idle(&parts, &record).is_app_query_due(NOW, asked_at);
        assert_eq!(is_due, expected, "{phase} {quiet_since} {asked_at}");
    }
}

/// A signal to end stops the process under the streams of all scopes; another one does not.
#[wasm_bindgen_test(unsupported = test)]
fn a_quit_waits_for_the_streams_of_other_scopes() {
    let mut others = zero(Phase::Drained, Reason::Open(Phase::Drained));
    others.observed.others_in_flight = 1;
    let step = |path: &str| {
        let waiter = Waiter { path: path.into(), ..waiter(WaitsFor::Signal, FIRST, NOW + 1) };
        step_of_waiter(&others, &waiter, false)
    };
    assert!(matches!(step(QUIT), SignalStep::Refuse(_)));
    assert_eq!(step("/drain_listeners"), SignalStep::CloseLatch);
    let finish = LatchedSignal { kind: SignalKind::Finish, needs: FIRST, until: NOW + 1 };
    for (call, expected) in
        [(Finish::Quit, SignalStep::Hold), (Finish::DrainAgent, SignalStep::Send)]
    {
        assert_eq!(finish.step(&others, &policy(call), &CLOSED), expected, "{call:?}");
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn a_latch_that_is_lost_or_that_streams_do_not_see_sends_nothing() {
    let drained = zero(Phase::Drained, Reason::Open(Phase::Drained));
    let signal = LatchedSignal { kind: SignalKind::Finish, needs: FIRST, until: NOW + 1 };
    let waiting = LatchedSignal { needs: NEXT, ..signal.clone() };
    assert!(!waiting.is_ready(&drained, &CLOSED), "its answers come");
    assert!(waiting.is_ready(&drained, &OPEN), "it need not wait for them");
    let sealed = Latch { is_sealed: true, is_closed_by_own: false, ..CLOSED };
    assert_eq!(signal.step(&drained, &policy(Finish::Quit), &sealed), SignalStep::Send);
    let rejected = Latch { is_rejected: true, ..OPEN };
    let step = signal.step(&drained, &policy(Finish::Quit), &rejected);
    assert!(matches!(step, SignalStep::Refuse(_)), "{step:?}");
}
