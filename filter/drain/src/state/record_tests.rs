//! Single steps of the state machine. Properties of every sequence are in `record_properties`.

use wasm_bindgen_test::wasm_bindgen_test;

use super::{
    AFTER_DEADLINE, Action, App, CountState, DrainPolicy, EnvoyCount, Finish, Millis, Moment,
    Observation, Phase, Reason, Record, Step,
};
use crate::state::{BeginCall, Begun, CallEnd};

/// An observation at this moment in which nothing is in flight.
fn zero(now: u64) -> Observation {
    let now = Moment(now);
    Observation {
        count: CountState::Exact,
        may_revive: false,
        known_until: now,
        holding: 0,
        in_flight: 0,
        begun: Begun::default(),
        others_in_flight: 0,
        read_at: now,
        envoy: EnvoyCount::Holds(0),
        connections: EnvoyCount::Absent,
        lingers: false,
        buffered: Some(0),
        app: App::Gone,
    }
}

fn drain(record: &mut Record, policy: &DrainPolicy, now: u64) -> bool {
    record.drain(policy, Moment(now), 0, policy.deadline)
}

fn evaluate(
    record: &mut Record,
    policy: &DrainPolicy,
    now: u64,
    observed: &Observation,
) -> (Reason, Option<Action>) {
    record.evaluate(policy, Moment(now), observed)
}

#[wasm_bindgen_test(unsupported = test)]
fn the_deadline_opens_a_gate_that_waits_for_its_last_call() {
    let mut policy = DrainPolicy::default();
    (policy.begin, policy.finish) = (BeginCall::Nothing, Finish::DrainAgent);
    let mut record = Record::default();
    drain(&mut record, &policy, 1_000);
    let end = record.deadline.0;
    for now in [1_000, end - 100] {
        evaluate(&mut record, &policy, now, &zero(now));
    }
    assert_eq!(record.phase, Phase::Drained);
    let last = end + policy.open_for.0 - 1;
    for now in [end, end + AFTER_DEADLINE.0, last] {
        assert!(!drain(&mut record.clone(), &policy, now), "a poll of the same hook");
        let reason = evaluate(&mut record.clone(), &policy, now, &zero(now)).0;
        assert_eq!(reason, Reason::Open(Phase::Drained));
    }
    let now = last + AFTER_DEADLINE.0;
    assert_eq!(evaluate(&mut record.clone(), &policy, now, &zero(now)).0, Reason::NotDraining);
    record.finish = Step::Done;
    assert!(drain(&mut record, &policy, end), "a later hook has a deadline of its own");
}

#[wasm_bindgen_test(unsupported = test)]
fn a_hook_without_a_proof_of_zero_waits_until_the_deadline_only() {
    let policy = DrainPolicy { begin: BeginCall::Nothing, ..DrainPolicy::default() };
    let mut record = Record::default();
    drain(&mut record, &policy, 1_000);
    let (end, asked_at) = (record.deadline.0, record.deadline.0 - 200);
    for now in [1_000, end - 100] {
        evaluate(&mut record, &policy, now, &zero(now));
    }
    record.unproven_since = Some(Moment(asked_at));
    record.prove(Moment(asked_at - 1));
    let mut unproven = record.clone();
    assert!(!drain(&mut unproven, &policy, end), "a poll of the same hook");
    let reason = evaluate(&mut unproven, &policy, end, &zero(end)).0;
    assert_eq!(reason, Reason::Open(Phase::Expired), "the proof was of an earlier moment");
    record.prove(Moment(asked_at));
    assert_eq!(evaluate(&mut record.clone(), &policy, end, &zero(end)).0, {
        Reason::Open(Phase::Drained)
    });
    assert!(drain(&mut record, &policy, end), "a later hook has a deadline of its own");
}

#[wasm_bindgen_test(unsupported = test)]
fn the_begin_call_stays_recorded_after_the_drain() {
    let policy = DrainPolicy::default();
    let now = AFTER_DEADLINE.0;
    let mut record = Record { phase: Phase::Drained, begin: Step::Done, ..Record::default() };
    evaluate(&mut record, &policy, now, &zero(now));
    assert_eq!((record.phase, record.begin), (Phase::Serving, Step::Done));
    drain(&mut record, &policy, now);
    assert!(record.begin != Step::Due, "it stays known in the next drain");
    assert!(record.begin.send(policy.patience, Moment(now)), "which tells it again");
    record.undo_has_ended(&policy, CallEnd::Answered(200), Moment(now));
    assert!(record.begin.send(policy.patience, Moment(now)), "and again after it was undone");
    record.serve_again(&policy);
    record.undo_has_ended(&policy, CallEnd::Answered(200), Moment(now));
    assert_eq!(record.begin, Step::Due);
}

#[wasm_bindgen_test(unsupported = test)]
fn an_answer_without_bytes_does_not_restart_the_drain() {
    let mut policy = DrainPolicy::default();
    (policy.quiet, policy.linger, policy.begin) = (Millis(200), Millis(400), BeginCall::Nothing);
    let mut record = Record::default();
    drain(&mut record, &policy, 1_000_000);
    for now in [1_000_000, 1_000_200] {
        evaluate(&mut record, &policy, now, &zero(now));
    }
    assert_eq!(record.phase, Phase::Drained);
    let asking = Observation {
        count: CountState::Asking,
        envoy: EnvoyCount::Awaited,
        lingers: true,
        buffered: None,
        ..zero(1_000_200)
    };
    evaluate(&mut record, &policy, 1_000_210, &asking);
    assert_eq!(record.phase, Phase::Drained, "what is not known changes nothing");
}

/// A dead VM's count cannot be believed, and Envoy's answer is valid for a short time only. Between
/// two answers a request may be in flight.
#[wasm_bindgen_test(unsupported = test)]
fn the_quiet_period_begins_at_a_zero_that_is_known() {
    let mut policy = DrainPolicy::default();
    (policy.quiet, policy.begin) = (Millis(200), BeginCall::Nothing);
    let leaking = |now, envoy| Observation { count: CountState::Leaking, envoy, ..zero(now) };
    let mut record = Record::default();
    drain(&mut record, &policy, 1_000);
    for (now, envoy, expected) in [
        (1_000, EnvoyCount::Holds(1), Reason::Requests(CountState::Leaking, 1)),
        (1_100, EnvoyCount::Awaited, Reason::Asking),
        (1_300, EnvoyCount::Holds(0), Reason::Quiet { since: Moment(1_300) }),
        (1_400, EnvoyCount::Awaited, Reason::Quiet { since: Moment(1_300) }),
        (1_500, EnvoyCount::Awaited, Reason::Asking),
        (1_510, EnvoyCount::Holds(0), Reason::Open(Phase::Drained)),
    ] {
        assert_eq!(
            evaluate(&mut record, &policy, now, &leaking(now, envoy)).0,
            expected,
            "at {now}"
        );
    }
    let begun =
        Observation { begun: Begun { before: 1, after: 1 }, ..leaking(1_520, EnvoyCount::Awaited) };
    assert_eq!(evaluate(&mut record, &policy, 1_520, &begun).0, Reason::Asking);
    assert_eq!(record.phase, Phase::Draining, "the request that has begun may be in flight");
}

/// Envoy counts a stream no more before the filter has seen its end. A worker that stands still in
/// between owns the stream, although its counter does not reply.
#[wasm_bindgen_test(unsupported = test)]
fn a_stream_of_a_worker_that_stands_still_holds_and_is_not_healed() {
    let policy = DrainPolicy { begin: BeginCall::Nothing, ..DrainPolicy::default() };
    let silent =
        Observation { count: CountState::Leaking, may_revive: true, holding: 1, ..zero(1_000) };
    let mut record = Record::default();
    drain(&mut record, &policy, 1_000);
    for now in [1_000, 3_000, 10_000] {
        let observed = Observation { known_until: Moment(now), ..silent };
        assert_eq!(
            evaluate(&mut record, &policy, now, &observed),
            (Reason::Streams(1), None),
            "{now}"
        );
    }
    let dead = Observation { holding: 1, count: CountState::Leaking, ..zero(11_000) };
    let (reason, action) = evaluate(&mut record, &policy, 11_000, &dead);
    assert_eq!((reason, action), (Reason::Quiet { since: Moment(11_000) }, Some(Action::Heal)));
}

#[wasm_bindgen_test(unsupported = test)]
fn gauges_that_cannot_be_true_leave_the_decision_to_envoy_and_are_healed() {
    let policy = DrainPolicy { begin: BeginCall::Nothing, ..DrainPolicy::default() };
    let miscounted = |envoy| Observation { count: CountState::Miscounted, envoy, ..zero(1_000) };
    let mut record = Record::default();
    drain(&mut record, &policy, 1_000);
    for (envoy, reason, action) in [
        (EnvoyCount::Holds(1), Reason::Requests(CountState::Miscounted, 1), None),
        (EnvoyCount::Absent, Reason::Unsure(CountState::Miscounted), None),
        (EnvoyCount::Awaited, Reason::Asking, None),
        (EnvoyCount::Holds(0), Reason::Quiet { since: Moment(1_000) }, Some(Action::Heal)),
    ] {
        assert_eq!(evaluate(&mut record, &policy, 1_000, &miscounted(envoy)), (reason, action));
    }
}

/// The last call ends the process, also under the streams of another gate.
#[wasm_bindgen_test(unsupported = test)]
fn the_last_call_waits_for_the_streams_of_other_scopes() {
    for finish in [Finish::Quit, Finish::DrainAgent] {
        let policy = DrainPolicy { begin: BeginCall::Nothing, finish, ..DrainPolicy::default() };
        let mut record = Record::default();
        drain(&mut record, &policy, 1_000);
        evaluate(&mut record, &policy, 1_000, &zero(1_000));
        let others = Observation { others_in_flight: 1, ..zero(2_000) };
        let (_, action) = evaluate(&mut record, &policy, 2_000, &others);
        assert_eq!((record.phase, action), (Phase::Drained, None), "{finish:?}");
        let (_, action) = evaluate(&mut record, &policy, 2_000, &zero(2_000));
        assert_eq!(action, Some(Action::Finish), "{finish:?}: they have ended");
    }
}

/// A stream that begins while the counts are read may be in flight after that.
#[wasm_bindgen_test(unsupported = test)]
fn a_stream_that_begins_between_two_reads_restarts_the_quiet_period() {
    let policy = DrainPolicy { begin: BeginCall::Nothing, ..DrainPolicy::default() };
    let mut record = Record::default();
    drain(&mut record, &policy, 1_000);
    for (now, begun, since) in [
        (1_000, (0, 0), 1_000),
        (1_500, (0, 1), 1_500),
        (1_600, (1, 1), 1_600),
        (1_700, (1, 1), 1_600),
    ] {
        let (before, after) = begun;
        let observed = Observation { begun: Begun { before, after }, ..zero(now) };
        assert_eq!(
            evaluate(&mut record, &policy, now, &observed).0,
            Reason::Quiet { since: Moment(since) }
        );
    }
}
