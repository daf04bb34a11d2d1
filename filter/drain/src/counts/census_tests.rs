//! Counters that do not reply: late, dead, written off, back, forgotten; and orders to end streams.

use wasm_bindgen_test::wasm_bindgen_test;

use super::Census;
use crate::counts::{Counts, Endable, Facts, IndexEntry, Order, Reply, Request, Survey};
use crate::state::timing::{
    DEAD_AFTER, FORGOTTEN_AFTER, MOST_DEAD, MOST_ORDERED, MOST_UNREAD, REPLY_TIMEOUT,
};
use crate::state::{CountState, DrainPolicy, Millis, Moment, Queue, Scope};

fn entry(queue: u32) -> IndexEntry {
    crate::sim::entry(Queue(queue), Scope::Gateway)
}

fn facts(now: Moment, index: &[IndexEntry]) -> Facts {
    let counts = Counts { scopes: vec![Default::default()], ..Counts::default() };
    Facts { now, counts, index: index.to_vec(), queue: Some(Queue(99)), ..Facts::default() }
}

/// A round at this time, to which these counters reply at once. Returns the counters that are back.
fn round(census: &mut Census, now: Moment, index: &[IndexEntry], alive: &[u32]) -> Vec<u32> {
    census.ask(&facts(now, index), Request::default());
    let reply = |queue: &u32| {
        let (queue, round) = (Queue(*queue), census.round);
        (Reply { queue, round, requested_at: now, ..Reply::default() }, None)
    };
    census.receive(now, alive.iter().map(reply).collect());
    census.to_revive(&facts(now, index)).into_iter().map(|queue| queue.0).collect()
}

fn survey(census: &Census, now: Moment, index: &[IndexEntry]) -> Survey {
    Survey::new(census, &DrainPolicy::default(), &facts(now, index), 0)
}

/// The reload of one worker's VM, or a second listener, must not excuse another worker that is
/// merely not scheduled.
#[wasm_bindgen_test(unsupported = test)]
fn silence_is_not_death_before_ten_seconds_whatever_other_counters_say() {
    let (mut census, mut index) = (Census::default(), vec![entry(1), entry(2)]);
    round(&mut census, Moment(10_000), &index, &[1, 2]);
    index.extend((3..9).map(entry));
    let alive: Vec<u32> =
        index.iter().map(|entry| entry.queue.0).filter(|queue| *queue != 2).collect();
    for (now, count, may_revive) in [
        (Moment(30_000), CountState::Asking, false),
        (Moment(31_000), CountState::Leaking, true),
        (Moment(30_000) + DEAD_AFTER - Millis(1), CountState::Leaking, true),
        (Moment(30_000) + DEAD_AFTER, CountState::Leaking, false),
    ] {
        round(&mut census, now, &index, &alive);
        let seen = survey(&census, now, &index);
        assert_eq!((seen.count_state, seen.may_revive), (count, may_revive), "{now:?}");
        assert_eq!(seen.lost.is_empty(), count == CountState::Asking, "{now:?}");
        // Zero is known only up to the last reply of a worker that may stand still.
        let is_stuck = seen.alive_until == Some(Moment(10_000));
        assert_eq!(is_stuck, count == CountState::Asking || may_revive, "{now:?}");
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn a_counter_that_was_written_off_is_asked_comes_back_and_is_forgotten() {
    let dead = IndexEntry { written_off: Some(Moment(20_000)), ..entry(2) };
    let (mut census, index) = (Census::default(), [entry(1), dead]);
    round(&mut census, Moment(10_000), &index, &[1]);
    let lost = survey(&census, Moment(12_000), &index).lost;
    assert!(lost.is_empty(), "its streams were subtracted");
    let asked = census.ask(&facts(Moment(21_000), &index), Request::default());
    assert!(asked.iter().any(|(queue, _)| *queue == Queue(2)), "it may only be slow");
    assert_eq!(round(&mut census, Moment(21_000), &index, &[1, 2]), [2]);
    round(&mut census, Moment(22_000), &index, &[1]);
    let forgotten = Moment(20_000) + FORGOTTEN_AFTER;
    for (now, expected) in [(forgotten - Millis(1), &[][..]), (forgotten, &[Queue(2)])] {
        assert_eq!(census.to_remove(&facts(now, &index)), expected, "{now:?}");
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn vms_that_die_again_and_again_leave_a_short_index() {
    let (mut census, index) = (Census::default(), (1..=100).map(entry).collect::<Vec<_>>());
    round(&mut census, Moment(10_000), &index, &[]);
    let dead = Moment(10_000) + DEAD_AFTER;
    assert!(census.to_remove(&facts(dead - Millis(1), &index)).is_empty());
    let removed = census.to_remove(&facts(dead, &index));
    assert_eq!(removed, (1..=100 - MOST_DEAD as u32).map(Queue).collect::<Vec<_>>(), "the oldest");
}

#[wasm_bindgen_test(unsupported = test)]
fn a_dead_counter_gets_only_a_few_messages() {
    let (mut census, index) = (Census::default(), [entry(1)]);
    let sent: usize =
        (0..100).map(|now| census.ask(&facts(Moment(now), &index), Request::default()).len()).sum();
    assert_eq!(sent as u64, MOST_UNREAD);
}

#[wasm_bindgen_test(unsupported = test)]
fn an_order_is_split_by_the_streams_of_each_counter() {
    for (count, endable, expected) in [
        (4, [2, 6, 0], vec![1, 3, 0]),
        (1, [1, 1, 1], vec![0, 0, 1]),
        (99, [2, 6, 0], vec![2, 6, 0]),
        (u64::MAX, [9_999, 0, 1], vec![MOST_ORDERED, 0, 1]),
        (5, [0, 0, 0], vec![0, 0, 0]),
    ] {
        let (mut census, index) = (Census::default(), [1, 2, 3].map(entry));
        census.ask(&facts(Moment(10_000), &index), Request::default());
        let replies: Vec<_> = (1..)
            .zip(endable)
            .map(|(queue, streams)| {
                let endable = Some(Endable { streams, unseen: 0 });
                (Reply { queue: Queue(queue), endable, ..Reply::default() }, None)
            })
            .collect();
        census.receive(Moment(10_000), replies);
        let facts = facts(Moment(10_100), &index);
        let mut requests = census.ask(&facts, Request::default());
        let order = Order { count, ..Order::default() };
        let sent = census.put_order(&facts, &[Scope::Gateway], order, &mut requests);
        let counts = |(_, request): &(Queue, Request)| request.order.map_or(0, |order| order.count);
        let counts: Vec<u64> = requests.iter().map(counts).collect();
        assert_eq!((sent, counts), (expected.iter().sum(), expected), "{count} of {endable:?}");
    }
}

/// If no gate waits for a scope, nothing heals its gauge, so its counters must tell.
#[wasm_bindgen_test(unsupported = test)]
fn a_silent_counter_of_another_scope_has_streams_until_it_is_dead() {
    let other = |queue| IndexEntry { scope: Scope::Outbound, ..entry(queue) };
    let index = [entry(1), other(2), other(3)];
    let mut census = Census::default();
    let others = |census: &Census, now| {
        let survey = survey(census, now, &index);
        (survey.others_in_flight, survey.others_died)
    };
    let began = Moment(50_000);
    assert_eq!(others(&census, began), (2, false), "no counter has replied");
    round(&mut census, began, &index, &[1, 2, 3]);
    assert_eq!(others(&census, began), (0, false));
    let asked = began + Millis(100);
    for time in (0..=DEAD_AFTER.0).step_by(100) {
        let now = asked + Millis(time);
        round(&mut census, now, &index, &[1, 2]);
        let is_dead = now >= asked + DEAD_AFTER;
        let may_be_alive = now >= began + REPLY_TIMEOUT && !is_dead;
        assert_eq!(others(&census, now), (may_be_alive.into(), is_dead), "at {now:?}");
    }
}
