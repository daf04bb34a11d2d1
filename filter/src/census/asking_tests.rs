//! Counters that do not reply: lost, written off, revived, removed from the index.

use wasm_bindgen_test::wasm_bindgen_test;

use super::super::CountState;
use super::super::index::{self, IndexEntry, add_to_index, entries, register_queue};
use super::super::messages::{CountReply, LatchCheck};
use super::super::survey::{Survey, SurveyOptions};
use super::{Census, GONE_AFTER, MOST_WRITTEN_OFF, RequestOptions, WRITE_OFF_AFTER};
use crate::config::wire::Scope;
use crate::fake::Fake;
use crate::host::Control as _;

/// A counter whose VM began to count at this time.
fn counter(host: &Fake, since: u64) -> u32 {
    let queue = register_queue(host).expect("a queue");
    add_to_index(host, IndexEntry::new(queue, Scope::Gateway, since, 7));
    queue
}

/// A round at this time, to which these counters reply.
fn round(census: &mut Census, host: &Fake, now: u64, alive: &[u32]) {
    host.clock.set(now);
    let options = RequestOptions {
        latch_check: LatchCheck::Off,
        long_lived_before: 0,
        list_limit: 0,
        plain_only: false,
        older_than: 0,
        busy: 0,
    };
    census.ask(host, options);
    let gate = census.queue().expect("a queue");
    for queue in alive {
        let round = census.round();
        let reply = CountReply { queue: *queue, round, requested_at: now, ..CountReply::default() };
        host.enqueue(gate, reply.to_text().as_bytes());
    }
    census.receive_replies(host);
}

fn survey(census: &Census, host: &Fake) -> Survey {
    let options = SurveyOptions {
        scopes: &[Scope::Gateway],
        exempts_long_lived: false,
        ignorable_since: 0,
        busy: 0,
    };
    census.survey(host, options)
}

fn messages(host: &Fake, queue: u32) -> usize {
    core::iter::from_fn(|| host.dequeue(queue)).count()
}

/// The reload of one worker's VM, or a second listener, must not excuse another worker that is
/// merely not scheduled.
#[wasm_bindgen_test(unsupported = test)]
fn newer_counters_do_not_show_that_another_one_is_dead() {
    let (host, mut census) = (Fake::default(), Census::default());
    let [main, stalled] = [0, 0].map(|since| counter(&host, since));
    round(&mut census, &host, 10_000, &[main, stalled]);
    let mut alive = vec![main];
    alive.extend([20_000; 6].map(|since| counter(&host, since)));
    for (now, expected) in [
        (30_000, CountState::Asking),
        (31_000, CountState::Leaking),
        (30_000 + WRITE_OFF_AFTER - 1, CountState::Leaking),
        (30_000 + WRITE_OFF_AFTER, CountState::Exact),
    ] {
        round(&mut census, &host, now, &alive);
        census.write_off(&host, &survey(&census, &host).lost);
        assert_eq!(survey(&census, &host).count_state, expected, "{now}");
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn a_counter_that_was_written_off_is_asked_and_comes_back_for_all_gates() {
    let (host, mut census, mut other) = (Fake::default(), Census::default(), Census::default());
    let [main, slow] = [0, 0].map(|since| counter(&host, since));
    round(&mut census, &host, 10_000, &[main]);
    round(&mut other, &host, 10_000, &[main]);
    let end = 10_000 + WRITE_OFF_AFTER;
    for (now, count) in [(end - 1, CountState::Leaking), (end, CountState::Exact)] {
        round(&mut census, &host, now, &[main]);
        census.write_off(&host, &[slow]);
        assert_eq!(survey(&census, &host).count_state, count, "{now}");
    }
    assert!(survey(&other, &host).lost.is_empty(), "the mark holds for every gate");
    messages(&host, slow);
    other = Census::default();
    round(&mut other, &host, end + 100, &[main, slow]);
    assert_eq!(messages(&host, slow), 1, "it is still asked");
    assert_eq!(survey(&other, &host).counters, 2);
    assert_eq!(survey(&census, &host).lost, [slow], "this gate has not heard it yet");
    for (now, expected) in [(end, 2), (end + GONE_AFTER - 1, 2), (end + GONE_AFTER, 1)] {
        round(&mut census, &host, now, &[main]);
        census.write_off(&host, &[slow]);
        assert_eq!(entries(&host).len(), expected, "{now}");
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn vms_that_die_again_and_again_leave_a_short_index() {
    let (host, mut census) = (Fake::default(), Census::default());
    let dead: Vec<u32> = (0..100).map(|since| counter(&host, since)).collect();
    index::write_off(&host, &dead, 1_000);
    for now in [2_000, 2_000 + WRITE_OFF_AFTER - 1] {
        round(&mut census, &host, now, &[]);
        assert_eq!(entries(&host).len(), 100, "at {now} each may still reply");
    }
    round(&mut census, &host, 2_000 + WRITE_OFF_AFTER, &[]);
    let remaining: Vec<u32> = entries(&host).iter().map(|entry| entry.queue).collect();
    assert_eq!(remaining, dead[100 - MOST_WRITTEN_OFF..], "the newest");
}
