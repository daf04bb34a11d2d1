//! Properties of every sequence of events: random events drive the machine, and a [`Watch`] that
//! knows only the rules checks it.

use proptest::prelude::*;

use super::{
    AFTER_DEADLINE, Action, App, CallEnd, CountState, DrainPolicy, EnvoyCount, Finish, Millis,
    Moment, Observation, Phase, Reason, Record, Step,
};
use crate::state::timing::TRIES;
use crate::state::{BeginCall, Begun, combine_counts};

fn call_end() -> impl Strategy<Value = CallEnd> {
    prop_oneof![
        3 => Just(CallEnd::Answered(200)),
        1 => Just(CallEnd::Answered(503)),
        1 => Just(CallEnd::NotSent),
        1 => Just(CallEnd::TimedOut),
        1 => Just(CallEnd::Reset),
    ]
}

/// An event for the state machine.
#[derive(Debug, Clone)]
enum Event {
    Evaluate(Observation),
    Drain,
    /// A hook begins a drain, or joins it.
    Hook,
    /// The last hook has a proof of zero.
    Proof,
    Cancel,
    Force,
    /// A call that is under way ends: the begin call, or else the last call.
    Answer(CallEnd),
    /// A new configuration has another deadline.
    Deadline(u64),
    /// A new configuration has this begin call.
    Begin(BeginCall),
}

fn count_state() -> impl Strategy<Value = CountState> {
    prop_oneof![
        6 => Just(CountState::Exact),
        1 => Just(CountState::Asking),
        2 => Just(CountState::Unknown),
        2 => Just(CountState::Partial),
        1 => Just(CountState::Rejected),
        2 => Just(CountState::Leaking),
        1 => Just(CountState::Miscounted),
    ]
}

fn few() -> impl Strategy<Value = u64> {
    prop_oneof![8 => Just(0_u64), 1 => 1..4_u64, 1 => Just(u64::MAX)]
}

fn envoy() -> impl Strategy<Value = EnvoyCount> {
    prop_oneof![
        1 => Just(EnvoyCount::Awaited),
        1 => Just(EnvoyCount::Absent),
        6 => few().prop_map(EnvoyCount::Holds),
    ]
}

fn app() -> impl Strategy<Value = App> {
    prop_oneof![1 => Just(App::Awaited), 1 => Just(App::There), 4 => Just(App::Gone)]
}

/// An observation with relative numbers: `begun` is the number of streams that began since the last
/// one, and `known_until` the age of the counts.
fn observation() -> impl Strategy<Value = Observation> {
    let buffered = prop_oneof![1 => Just(None), 4 => few().prop_map(Some)];
    let begun = prop_oneof![12 => Just(0_u64), 1 => 1..3_u64];
    let by_envoy = (envoy(), prop_oneof![2 => Just(EnvoyCount::Absent), 1 => envoy()], buffered);
    (count_state(), 0..400_u64, few(), 0..3_u64, begun, by_envoy, app(), any::<bool>()).prop_map(
        |(counters, known_until, holding, in_flight, begun, by_envoy, app, may_miss)| {
            let (envoy, connections, buffered) = by_envoy;
            Observation {
                count: combine_counts(counters, holding, envoy, may_miss),
                may_revive: counters == CountState::Leaking && may_miss,
                known_until: Moment(known_until),
                holding,
                in_flight,
                begun: Begun { before: 0, after: begun },
                others_in_flight: 0,
                read_at: Moment(0),
                envoy,
                connections,
                lingers: buffered.is_none(),
                buffered,
                app,
            }
        },
    )
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        30 => observation().prop_map(Event::Evaluate),
        1 => Just(Event::Drain),
        2 => Just(Event::Hook),
        2 => Just(Event::Proof),
        1 => Just(Event::Cancel),
        1 => Just(Event::Force),
        4 => call_end().prop_map(Event::Answer),
        1 => (1_000..6_000_u64).prop_map(Event::Deadline),
        1 => begin_call().prop_map(Event::Begin),
    ];
    let step = prop_oneof![8 => 0..150_u64, 1 => 150..3_000_u64];
    proptest::collection::vec((step, event), 1..150)
}

fn begin_call() -> impl Strategy<Value = BeginCall> {
    prop_oneof![Just(BeginCall::DrainListeners), Just(BeginCall::Nothing)]
}

fn policy() -> impl Strategy<Value = DrainPolicy> {
    let begin = begin_call();
    let finish = prop_oneof![Just(Finish::Nothing), Just(Finish::DrainAgent)];
    let times = (200..900_u64, 0..600_u64, 1_000..6_000_u64, 0..500_u64);
    (times, begin, finish, any::<bool>()).prop_map(
        |((quiet, linger, deadline, delay), begin, finish, waits_for_app)| {
            let mut policy = DrainPolicy { waits_for_app, ..DrainPolicy::default() };
            (policy.quiet, policy.linger) = (Millis(quiet), Millis(linger));
            (policy.deadline, policy.delay) = (Millis(deadline), Millis(delay));
            (policy.begin, policy.finish) = (begin, finish);
            (policy.patience, policy.open_for) = (Millis(100), Millis(2_000));
            policy
        },
    )
}

/// The rules, and the history that they need.
#[derive(Default)]
struct Watch {
    /// The last evaluation at which a stream held the drain, or began, or may have been in flight
    /// since.
    busy_at: Moment,
    /// Whether zero was known since a stream held the drain or began.
    is_zero_known: bool,
    /// The earliest deadline of this drain so far.
    deadline: Moment,
    /// The tries of the begin call and of the last call in this drain, and when the current try of
    /// each began.
    tries: [u64; 2],
    under_way: [Option<Moment>; 2],
}

impl Watch {
    fn began(&mut self, now: Moment, policy: &DrainPolicy) {
        *self = Self { busy_at: now, deadline: now + policy.deadline, ..Self::default() };
    }

    /// Checks an action that was returned: no other of its kind may be under way, and there may not
    /// be too many.
    fn acted(&mut self, action: Action, now: Moment, patience: Millis) {
        let kind = match action {
            Action::Begin => 0,
            Action::Finish => 1,
            Action::Heal => return,
        };
        self.tries[kind] += 1;
        assert!(self.tries[kind] <= TRIES, "{action:?} for the {}th time", self.tries[kind]);
        if let Some(since) = self.under_way[kind] {
            assert!(now >= since + patience * 2, "{action:?} while another is under way");
        }
        self.under_way[kind] = Some(now);
    }

    fn evaluated(
        &mut self,
        now: Moment,
        policy: &DrainPolicy,
        observed: &Observation,
        moved: bool,
        (before, after): (&Record, &Record),
    ) {
        self.deadline = self.deadline.min(earliest_deadline(before, policy, now));
        let is_unproven = before.phase == Phase::Drained && before.unproven_since.is_some();
        let (before, before_finish) = (before.phase, before.finish);
        let counts =
            matches!(observed.count, CountState::Exact | CountState::Assumed | CountState::Asking)
                || observed.may_revive && observed.holding > 0;
        let busy = match observed.envoy {
            EnvoyCount::Holds(active) => active > 0 || counts && observed.holding > 0,
            EnvoyCount::Absent | EnvoyCount::Awaited if counts => observed.holding > 0,
            EnvoyCount::Absent => true,
            EnvoyCount::Awaited => false,
        };
        let known = observed.count != CountState::Asking
            && observed.envoy != EnvoyCount::Awaited
            && observed.connections != EnvoyCount::Awaited;
        let busy = busy || observed.open_connections().is_some();
        let clear = observed.buffered.unwrap_or(0) == 0
            && (!policy.waits_for_app || observed.app != App::There);
        let known = known && (!policy.waits_for_app || observed.app != App::Awaited);
        if (before == Phase::Draining || is_unproven) && now >= self.deadline {
            let is_stale = now >= self.deadline + policy.open_for;
            let expected = if is_stale { Phase::Serving } else { Phase::Expired };
            assert_eq!(after.phase, expected, "at its deadline");
        }
        if before == Phase::Draining && after.phase == Phase::Drained {
            assert!(known && !busy && clear, "drained at {observed:?}");
            assert!(!moved, "drained although a stream began");
            self.check_drained(policy, observed, after);
        }
        if before == Phase::Drained && now < self.deadline && (busy || moved || !clear) {
            assert_eq!(after.phase, Phase::Draining, "drained with {observed:?}");
        }
        if before == Phase::Drained && now < self.deadline && !busy && !moved && clear && !known {
            assert_eq!(after.phase, Phase::Drained, "what is not known changes nothing");
        }
        if before == Phase::Drained && !is_unproven && now >= self.deadline {
            let is_finished = !policy.finishes() || before_finish.has_ended();
            let more = if is_finished { Millis(0) } else { policy.open_for };
            let ended = after.ended.unwrap_or(self.deadline);
            let end = self.deadline.max(ended + AFTER_DEADLINE) + more;
            let stays = after.phase == Phase::Drained && now < end;
            assert!(stays && !busy && clear || after.phase == Phase::Serving, "{after:?}");
        }
        let is_unknown = !counts && observed.envoy == EnvoyCount::Awaited;
        self.is_zero_known &= !busy && !moved && clear;
        if !self.is_zero_known {
            self.busy_at = now;
            self.is_zero_known = !busy && clear && !is_unknown;
        }
    }

    /// Checks that zero lasted for the quiet period, and that the begin call was made before.
    fn check_drained(&self, policy: &DrainPolicy, observed: &Observation, after: &Record) {
        assert!(
            self.is_zero_known && observed.known_until >= self.busy_at + policy.quiet,
            "quiet since {:?} only, sure up to {:?}",
            self.busy_at,
            observed.known_until
        );
        assert!(
            !policy.begins() || matches!(after.begin, Step::Done | Step::Failed),
            "drained before clients were told to leave"
        );
    }
}

/// The deadline of this drain, which a configuration can make earlier, but not earlier than now.
fn earliest_deadline(record: &Record, policy: &DrainPolicy, now: Moment) -> Moment {
    record.deadline.min((record.began + policy.deadline).max(now))
}

fn start() -> (Record, Watch) {
    (Record::default(), Watch { deadline: Moment(u64::MAX), ..Watch::default() })
}

fn evaluate(
    record: &mut Record,
    watch: &mut Watch,
    policy: &DrainPolicy,
    now: Moment,
    begun: u64,
    observed: Observation,
) {
    let moved = observed.begun.after > 0;
    let observed = Observation {
        begun: Begun { before: begun, after: begun },
        known_until: now - Millis(observed.known_until.0),
        read_at: now,
        ..observed
    };
    let before = record.clone();
    let (reason, action) = record.evaluate(policy, now, &observed);
    assert_eq!(reason == Reason::NotDraining, record.phase == Phase::Serving, "{reason:?}");
    let is_open = matches!(reason, Reason::Open(_));
    assert!(!is_open || record.phase.is_open(), "{reason:?} at {:?}", record.phase);
    assert!(
        is_open || matches!(reason, Reason::Asking | Reason::Finishing) || !record.phase.is_open(),
        "{reason:?} at {:?}",
        record.phase
    );
    let zero = observed.envoy != EnvoyCount::Awaited && observed.in_flight_reason().is_none();
    assert!(!is_open || record.phase.is_unconditionally_open() || zero, "open at {observed:?}");
    if reason == Reason::Finishing {
        assert!(now < record.deadline, "the deadline does not wait for the agent");
    }
    if let Some(action) = action {
        assert!(action != Action::Begin || policy.begins(), "a call that is not configured");
        watch.acted(action, now, policy.patience);
        // The gate behind the latch sends the last call.
        assert!(action != Action::Finish || record.finish.send(policy.patience, now));
        assert!(action != Action::Finish || !observed.may_revive, "a worker may be alive");
        assert!(
            action != Action::Finish || record.phase == Phase::Drained,
            "the last call at {:?}",
            record.phase
        );
        assert!(
            action != Action::Heal
                || observed.envoy == EnvoyCount::Holds(0) && !observed.may_revive,
            "healed without Envoy's count, or without a death"
        );
    }
    watch.evaluated(now, policy, &observed, moved, (&before, record));
    // A last call that fails for good ends the drain at the evaluation after it.
    if record.finish.has_ended() == before.finish.has_ended() {
        evaluate_again(record, policy, now, &observed, reason);
    }
}

/// Checks that a second evaluation at the same moment changes nothing, and returns no second call.
fn evaluate_again(
    record: &Record,
    policy: &DrainPolicy,
    now: Moment,
    observed: &Observation,
    reason: Reason,
) {
    let mut twin = record.clone();
    let (second, action) = twin.evaluate(policy, now, observed);
    assert_eq!(second, reason);
    assert!(matches!(action, None | Some(Action::Heal)), "{action:?} twice");
    assert_eq!(&twin, record, "a second evaluation changed the record");
}

fn answer(record: &mut Record, watch: &mut Watch, end: CallEnd, now: Moment) {
    let steps = [&mut record.begin, &mut record.finish];
    for (kind, step) in steps.into_iter().enumerate() {
        if watch.under_way[kind].take().is_some() {
            return step.record(end, now, Millis(0));
        }
    }
}

fn drain(record: &mut Record, watch: &mut Watch, policy: &DrainPolicy, now: Moment, begun: u64) {
    let before = record.clone();
    let deadline = watch.deadline.min(earliest_deadline(&before, policy, now));
    let over = match before.phase {
        Phase::Serving => true,
        Phase::Draining => now >= deadline + policy.open_for,
        Phase::Drained if before.unproven_since.is_some() => now >= deadline + policy.open_for,
        Phase::Drained if policy.finishes() && !before.finish.has_ended() => {
            now >= deadline + policy.open_for
        }
        Phase::Drained => now >= deadline,
        Phase::Expired | Phase::Forced => {
            before.ended.is_some_and(|ended| now >= ended + policy.open_for)
        }
    };
    if record.drain(policy, now, begun, policy.deadline) {
        assert!(over, "{before:?} at {now:?}");
        watch.began(now, policy);
    } else {
        let deadline = before.deadline.min(record.deadline);
        assert_eq!(Record { deadline, ..before }, *record, "a second drain changed something");
    }
    let once = record.clone();
    assert!(!record.drain(policy, now, begun + 1, policy.deadline));
    assert_eq!(&once, record, "draining is idempotent");
}

fn force(record: &mut Record, now: Moment) {
    record.force(&DrainPolicy::default(), now, 0, "by hand  twice");
    assert_ne!(record.began, Moment(0), "the duration is known");
    let once = record.clone();
    record.force(&DrainPolicy::default(), now + Millis(1), 0, "again");
    assert_eq!(&once, record, "forcing is idempotent");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_drain_never_ends_at_a_false_zero(mut policy in policy(), events in events()) {
        let (mut record, mut watch) = start();
        let (mut now, mut begun) = (Moment(1_000_000), 0);
        for (step, event) in events {
            now = now + Millis(step);
            let before = record.phase;
            match event {
                Event::Evaluate(observed) => {
                    begun += observed.begun.after;
                    evaluate(&mut record, &mut watch, &policy, now, begun, observed);
                }
                Event::Drain => drain(&mut record, &mut watch, &policy, now, begun),
                Event::Hook => {
                    drain(&mut record, &mut watch, &policy, now, begun);
                    record.unproven_since = Some(now);
                }
                Event::Proof => record.prove(now),
                Event::Cancel => (record, watch) = start(),
                Event::Force => force(&mut record, now),
                Event::Answer(end) => answer(&mut record, &mut watch, end, now),
                Event::Deadline(deadline) => policy.deadline = Millis(deadline),
                Event::Begin(begin) => policy.begin = begin,
            }
            if before == Phase::Expired {
                let to = record.phase;
                let is_new_drain = to == Phase::Draining && record.began == now;
                let is_over = matches!(to, Phase::Expired | Phase::Serving | Phase::Forced);
                prop_assert!(is_over || is_new_drain);
            }
        }
    }
}
