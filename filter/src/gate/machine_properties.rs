//! What holds for every sequence of events: the machine is driven by chance, and watched by one
//! that knows only the rules.

use proptest::prelude::*;

use super::{Act, App, EnvoyCount, Phase, Reason, Record, Sight, Step, TRIES, Trust, believe};
use crate::config::wire::{BeginCall, Finish, Gate};
use crate::gate::policy::Policy;
use crate::gate::record;

/// What happens to a machine.
#[derive(Debug, Clone)]
enum Event {
    Look(Sight),
    Drain,
    Cancel,
    Force,
    /// The oldest call that is under way ends; whether the answer is good.
    Answer(bool),
    /// The configuration has another deadline from here on.
    Deadline(u64),
}

fn trust() -> impl Strategy<Value = Trust> {
    prop_oneof![6 => Just(Trust::Exact), 1 => Just(Trust::Asking), 2 => Just(Trust::Unknown), 2 => Just(Trust::Partial), 1 => Just(Trust::Rejected), 2 => Just(Trust::Leaking)]
}

fn few() -> impl Strategy<Value = u64> {
    prop_oneof![8 => Just(0_u64), 1 => 1..4_u64, 1 => Just(u64::MAX)]
}

fn envoy() -> impl Strategy<Value = EnvoyCount> {
    prop_oneof![1 => Just(EnvoyCount::Asking), 1 => Just(EnvoyCount::Absent), 6 => few().prop_map(EnvoyCount::Holds)]
}

/// `begun` is how many more began, `seen` how long ago that was sure.
fn sight() -> impl Strategy<Value = Sight> {
    let buffered = prop_oneof![1 => Just(None), 4 => few().prop_map(Some)];
    let begun = prop_oneof![12 => Just(0_u64), 1 => 1..3_u64];
    (trust(), 0..400_u64, few(), 0..3_u64, begun, envoy(), buffered, any::<[bool; 2]>()).prop_map(
        |(counters, seen, holding, living, begun, envoy, buffered, [app_is_there, may_miss])| {
            Sight {
                trust: believe(counters, holding, envoy, may_miss),
                seen,
                holding,
                living,
                begun,
                envoy,
                lingers: buffered.is_none(),
                buffered,
                app: if app_is_there { App::There } else { App::Gone },
            }
        },
    )
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        30 => sight().prop_map(Event::Look),
        2 => Just(Event::Drain),
        1 => Just(Event::Cancel),
        1 => Just(Event::Force),
        4 => any::<bool>().prop_map(Event::Answer),
        1 => (1_000..6_000_u64).prop_map(Event::Deadline),
    ];
    let step = prop_oneof![8 => 0..150_u64, 1 => 150..3_000_u64];
    proptest::collection::vec((step, event), 1..150)
}

fn policy() -> impl Strategy<Value = Policy> {
    let begin = prop_oneof![Just(BeginCall::DrainListeners), Just(BeginCall::Nothing)];
    let finish = prop_oneof![Just(Finish::Nothing), Just(Finish::DrainAgent)];
    (200..900_u64, 0..600_u64, 1_000..6_000_u64, 0..500_u64, begin, finish).prop_map(
        |(quiet, linger, deadline, delay, begin, finish)| {
            let mut policy = Policy::new(Gate::default());
            (policy.quiet, policy.linger, policy.deadline, policy.delay) =
                (quiet, linger, deadline, delay);
            (policy.begin, policy.finish, policy.patience, policy.open_for) =
                (begin, finish, 100, 2_000);
            policy
        },
    )
}

/// Knows the rules, and what has happened.
#[derive(Default)]
struct Watch {
    /// When the last look was that saw something hold, or something begin.
    busy_at: u64,
    /// The tightest deadline of this drain so far.
    deadline: u64,
    /// Calls handed out in this drain, and when the last one was: begin, finish.
    tries: [u64; 2],
    under_way: [Option<u64>; 2],
}

impl Watch {
    fn began(&mut self, now: u64, policy: &Policy) {
        *self = Self { busy_at: now, deadline: now + policy.deadline, ..Self::default() };
    }

    /// An act was handed out: not while another of its kind may still come back, and not too often.
    fn acted(&mut self, act: Act, now: u64, patience: u64) {
        let kind = match act {
            Act::Begin => 0,
            Act::Finish => 1,
            Act::Heal => return,
        };
        self.tries[kind] += 1;
        assert!(self.tries[kind] <= TRIES, "{act:?} for the {}th time", self.tries[kind]);
        if let Some(since) = self.under_way[kind] {
            assert!(now >= since + 2 * patience, "{act:?} while another is under way");
        }
        self.under_way[kind] = Some(now);
    }

    fn looked(
        &mut self,
        now: u64,
        policy: &Policy,
        sight: &Sight,
        moved: bool,
        (before, after): (Phase, &Record),
    ) {
        self.deadline = self.deadline.min(after.began + policy.deadline);
        let counts = matches!(sight.trust, Trust::Exact | Trust::Assumed | Trust::Asking);
        let busy = match sight.envoy {
            EnvoyCount::Holds(active) => active > 0 || counts && sight.holding > 0,
            EnvoyCount::Absent | EnvoyCount::Asking if counts => sight.holding > 0,
            EnvoyCount::Absent => true,
            EnvoyCount::Asking => false,
        };
        let known = sight.trust != Trust::Asking && sight.envoy != EnvoyCount::Asking;
        let clear =
            sight.buffered.unwrap_or(0) == 0 && (policy.app.is_none() || sight.app == App::Gone);
        if before == Phase::Draining && now >= self.deadline {
            assert!(after.phase == Phase::Expired, "closed at its deadline");
        }
        if before == Phase::Draining && after.phase == Phase::Drained {
            assert!(known && !busy && clear, "drained at {sight:?}");
            assert!(!moved, "drained although a stream began");
            assert!(
                sight.seen >= self.busy_at + policy.quiet,
                "quiet since {} only, sure up to {}",
                self.busy_at,
                sight.seen
            );
            assert!(
                matches!(after.begin, Step::Done | Step::Failed),
                "drained before traffic was told to leave"
            );
        }
        if before == Phase::Drained && now < self.deadline && (busy || moved || !clear) {
            assert_eq!(after.phase, Phase::Draining, "drained with {sight:?}");
        }
        if busy || moved || !clear {
            self.busy_at = now;
        }
    }
}

fn start() -> (Record, Watch) {
    (Record::default(), Watch { deadline: u64::MAX, ..Watch::default() })
}

fn look(
    record: &mut Record,
    watch: &mut Watch,
    policy: &Policy,
    now: u64,
    begun: u64,
    sight: Sight,
) {
    let moved = sight.begun > 0;
    let sight = Sight { begun, seen: now.saturating_sub(sight.seen), ..sight };
    let before = record.phase;
    let (reason, act) = record.look(policy, now, &sight);
    assert_eq!(reason == Reason::NotDraining, record.phase == Phase::Serving, "{reason:?}");
    let is_open = matches!(reason, Reason::Open(_));
    assert!(!is_open || record.phase.is_open(), "{reason:?} at {:?}", record.phase);
    assert!(
        is_open || matches!(reason, Reason::Asking | Reason::Finishing) || !record.phase.is_open(),
        "{reason:?} at {:?}",
        record.phase
    );
    let zero = sight.envoy != EnvoyCount::Asking && sight.in_flight().is_none();
    assert!(!is_open || record.phase.lets_go() || zero, "open at {sight:?}");
    if let Some(act) = act {
        watch.acted(act, now, policy.patience);
        assert!(
            act != Act::Finish || record.phase == Phase::Drained,
            "the last call at {:?}",
            record.phase
        );
        assert!(
            act != Act::Heal || sight.envoy == EnvoyCount::Holds(0),
            "healed without a witness"
        );
    }
    watch.looked(now, policy, &sight, moved, (before, record));
    again(record, policy, now, &sight, reason);
}

/// The same look at the same moment changes nothing more, and hands nothing out a second time.
fn again(record: &Record, policy: &Policy, now: u64, sight: &Sight, reason: Reason) {
    let mut twin = record.clone();
    let (second, act) = twin.look(policy, now, sight);
    assert_eq!(second, reason);
    assert!(!matches!(act, Some(Act::Begin | Act::Finish)), "{act:?} twice");
    assert_eq!(&twin, record, "a second look is not the same");
}

fn answer(record: &mut Record, watch: &mut Watch, well: bool) {
    for (kind, step) in [&mut record.begin, &mut record.finish].into_iter().enumerate() {
        if watch.under_way[kind].take().is_some() {
            step.answered(well);
            return;
        }
    }
}

fn drain(record: &mut Record, watch: &mut Watch, policy: &Policy, now: u64, begun: u64) {
    let before = record.clone();
    let over = now >= before.ended + policy.open_for
        || before.phase == Phase::Drained && now >= watch.deadline.min(before.deadline);
    if record.drain(policy, now, begun) {
        assert!(
            before.phase == Phase::Serving || before.phase.is_open() && over,
            "{before:?} at {now}"
        );
        watch.began(now, policy);
    } else {
        let deadline = before.deadline.min(record.deadline);
        assert_eq!(Record { deadline, ..before }, *record, "a second drain changed something");
    }
    let once = record.clone();
    assert!(!record.drain(policy, now, begun + 1));
    assert_eq!(&once, record, "draining is idempotent");
}

fn force(record: &mut Record, now: u64) {
    record.force(now, 0, "by hand  twice");
    assert_ne!(record.began, 0, "it is known how long it took");
    let once = record.clone();
    record.force(now + 1, 0, "again");
    assert_eq!(&once, record, "forcing is idempotent");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn never_a_false_zero(mut policy in policy(), events in events()) {
        let (mut record, mut watch) = start();
        let (mut now, mut begun) = (1_000_000, 0);
        for (step, event) in events {
            now += step;
            let before = record.phase;
            match event {
                Event::Look(sight) => {
                    begun += sight.begun;
                    look(&mut record, &mut watch, &policy, now, begun, sight);
                }
                Event::Drain => drain(&mut record, &mut watch, &policy, now, begun),
                Event::Cancel => (record, watch) = start(),
                Event::Force => force(&mut record, now),
                Event::Answer(well) => answer(&mut record, &mut watch, well),
                Event::Deadline(deadline) => policy.deadline = deadline,
            }
            if before == Phase::Expired {
                let to = record.phase;
                prop_assert!(matches!(to, Phase::Expired | Phase::Serving | Phase::Forced) || to == Phase::Draining && record.began == now);
            }
            prop_assert_eq!(record::read(record::write(&record).as_bytes()), Some(record.clone()), "as text");
        }
    }
}
