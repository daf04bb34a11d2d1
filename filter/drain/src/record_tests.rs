//! Single steps of the state machine. Properties of every sequence are in `record_properties`.

use wasm_bindgen_test::wasm_bindgen_test;

use super::{
    AFTER_DEADLINE, App, CountState, EnvoyCount, Observation, Phase, Reason, Record, Step,
};
use crate::policy::{BeginCall, Finish, Policy};
use crate::record::Action;

fn zero(now: u64) -> Observation {
    Observation {
        count: CountState::Exact,
        may_revive: false,
        known_until: now,
        holding: 0,
        in_flight: 0,
        begun: [0; 2],
        others_in_flight: 0,
        read_at: now,
        envoy: EnvoyCount::Holds(0),
        lingers: false,
        buffered: Some(0),
        app: App::Gone,
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn the_deadline_opens_a_gate_that_waits_for_its_last_call() {
    let mut policy = Policy::default();
    (policy.begin, policy.finish) = (BeginCall::Nothing, Finish::DrainAgent);
    let mut record = Record::default();
    record.drain(&policy, 1_000, 0);
    let end = record.deadline;
    for now in [1_000, end - 100] {
        record.evaluate(&policy, now, &zero(now));
    }
    assert_eq!(record.phase, Phase::Drained);
    let last = end + policy.open_for - 1;
    for now in [end, end + AFTER_DEADLINE, last] {
        assert!(!record.clone().drain(&policy, now, 0), "a poll of the same hook");
        let reason = record.clone().evaluate(&policy, now, &zero(now)).0;
        assert_eq!(reason, Reason::Open(Phase::Drained));
    }
    let now = last + AFTER_DEADLINE;
    assert_eq!(record.clone().evaluate(&policy, now, &zero(now)).0, Reason::NotDraining);
    record.finish = Step::Done;
    assert!(record.drain(&policy, end, 0), "a later hook has a deadline of its own");
}

#[wasm_bindgen_test(unsupported = test)]
fn the_begin_call_stays_recorded_after_the_drain() {
    let policy = Policy::default();
    let mut record = Record { phase: Phase::Drained, begin: Step::Done, ..Record::default() };
    record.evaluate(&policy, AFTER_DEADLINE, &zero(AFTER_DEADLINE));
    assert_eq!((record.phase, record.begin), (Phase::Serving, Step::Done));
    record.drain(&policy, AFTER_DEADLINE, 0);
    assert!(record.begin != Step::Due, "it stays known in the next drain");
    assert!(record.begin.claim(policy.patience, AFTER_DEADLINE), "which tells it again");
    record.begin_is_undone(&policy);
    assert!(record.begin.claim(policy.patience, AFTER_DEADLINE), "and again after it was undone");
    record.serve_again(&policy);
    record.begin_is_undone(&policy);
    assert_eq!(record.begin, Step::Due);
}

#[wasm_bindgen_test(unsupported = test)]
fn an_answer_without_bytes_does_not_restart_the_drain() {
    let mut policy = Policy::default();
    (policy.quiet, policy.linger, policy.begin) = (200, 400, BeginCall::Nothing);
    let mut record = Record::default();
    record.drain(&policy, 1_000_000, 0);
    for now in [1_000_000, 1_000_200] {
        record.evaluate(&policy, now, &zero(now));
    }
    assert_eq!(record.phase, Phase::Drained);
    let asking = Observation {
        count: CountState::Asking,
        envoy: EnvoyCount::Asking,
        lingers: true,
        buffered: None,
        ..zero(1_000_200)
    };
    record.evaluate(&policy, 1_000_210, &asking);
    assert_eq!(record.phase, Phase::Drained, "what is not known changes nothing");
}

/// A dead VM's count cannot be believed, and Envoy's answer is valid for a short time only. Between
/// two answers a request may be in flight.
#[wasm_bindgen_test(unsupported = test)]
fn the_quiet_period_begins_at_a_zero_that_is_known() {
    let mut policy = Policy::default();
    (policy.quiet, policy.begin) = (200, BeginCall::Nothing);
    let leaking = |now, envoy| Observation { count: CountState::Leaking, envoy, ..zero(now) };
    let mut record = Record::default();
    record.drain(&policy, 1_000, 0);
    for (now, envoy, expected) in [
        (1_000, EnvoyCount::Holds(1), Reason::Requests(CountState::Leaking, 1)),
        (1_100, EnvoyCount::Asking, Reason::Asking),
        (1_300, EnvoyCount::Holds(0), Reason::Quiet { since: 1_300 }),
        (1_400, EnvoyCount::Asking, Reason::Quiet { since: 1_300 }),
        (1_500, EnvoyCount::Asking, Reason::Asking),
        (1_510, EnvoyCount::Holds(0), Reason::Open(Phase::Drained)),
    ] {
        assert_eq!(record.evaluate(&policy, now, &leaking(now, envoy)).0, expected, "at {now}");
    }
    let begun = Observation { begun: [1; 2], ..leaking(1_520, EnvoyCount::Asking) };
    assert_eq!(record.evaluate(&policy, 1_520, &begun).0, Reason::Asking);
    assert_eq!(record.phase, Phase::Draining, "the request that has begun may be in flight");
}

/// Envoy counts a stream no more before the filter has seen its end. A worker that stands still in
/// between owns the stream, although its counter does not reply.
#[wasm_bindgen_test(unsupported = test)]
fn a_stream_of_a_worker_that_stands_still_holds_and_is_not_healed() {
    let policy = Policy { begin: BeginCall::Nothing, ..Policy::default() };
    let silent =
        Observation { count: CountState::Leaking, may_revive: true, holding: 1, ..zero(1_000) };
    let mut record = Record::default();
    record.drain(&policy, 1_000, 0);
    for now in [1_000, 3_000, 10_000] {
        let observed = Observation { known_until: now, ..silent };
        assert_eq!(record.evaluate(&policy, now, &observed), (Reason::Streams(1), None), "{now}");
    }
    let dead = Observation { may_revive: false, known_until: 11_000, read_at: 11_000, ..silent };
    let (reason, action) = record.evaluate(&policy, 11_000, &dead);
    assert_eq!((reason, action), (Reason::Quiet { since: 11_000 }, Some(Action::Heal)));
}

#[wasm_bindgen_test(unsupported = test)]
fn gauges_that_cannot_be_true_leave_the_decision_to_envoy_and_are_healed() {
    let policy = Policy { begin: BeginCall::Nothing, ..Policy::default() };
    let miscounted = |envoy| Observation { count: CountState::Miscounted, envoy, ..zero(1_000) };
    let mut record = Record::default();
    record.drain(&policy, 1_000, 0);
    for (envoy, reason, action) in [
        (EnvoyCount::Holds(1), Reason::Requests(CountState::Miscounted, 1), None),
        (EnvoyCount::Absent, Reason::Unsure(CountState::Miscounted), None),
        (EnvoyCount::Asking, Reason::Asking, None),
        (EnvoyCount::Holds(0), Reason::Quiet { since: 1_000 }, Some(Action::Heal)),
    ] {
        assert_eq!(record.evaluate(&policy, 1_000, &miscounted(envoy)), (reason, action));
    }
}

/// A quit ends the process under the streams of another gate.
#[wasm_bindgen_test(unsupported = test)]
fn a_quit_waits_for_the_streams_of_other_scopes() {
    for (finish, expected) in [(Finish::Quit, None), (Finish::DrainAgent, Some(Action::Finish))] {
        let policy = Policy { begin: BeginCall::Nothing, finish, ..Policy::default() };
        let mut record = Record::default();
        record.drain(&policy, 1_000, 0);
        record.evaluate(&policy, 1_000, &zero(1_000));
        let others = Observation { others_in_flight: 1, ..zero(2_000) };
        let (_, action) = record.evaluate(&policy, 2_000, &others);
        assert_eq!((record.phase, action), (Phase::Drained, expected), "{finish:?}");
        record.evaluate(&policy, 2_000, &zero(2_000));
        assert!(record.finish != Step::Due, "{finish:?}: they have ended");
    }
}

/// A stream that begins while the counts are read may be in flight after that.
#[wasm_bindgen_test(unsupported = test)]
fn a_stream_that_begins_between_two_reads_restarts_the_quiet_period() {
    let policy = Policy { begin: BeginCall::Nothing, ..Policy::default() };
    let mut record = Record::default();
    record.drain(&policy, 1_000, 0);
    for (now, begun, since) in [
        (1_000, [0, 0], 1_000),
        (1_500, [0, 1], 1_500),
        (1_600, [1, 1], 1_600),
        (1_700, [1, 1], 1_600),
    ] {
        let observed = Observation { begun, ..zero(now) };
        assert_eq!(record.evaluate(&policy, now, &observed).0, Reason::Quiet { since });
    }
}
