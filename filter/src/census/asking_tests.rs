use wasm_bindgen_test::wasm_bindgen_test;

use super::super::CountState;
use super::super::index::{IndexEntry, add_to_index, entries, register_queue};
use super::super::messages::{CountReply, LatchCheck};
use super::super::survey::{Survey, SurveyOptions};
use super::{Census, GONE_AFTER, MOST_WRITTEN_OFF, RequestOptions, WRITE_OFF_AFTER};
use crate::config::wire::Scope;
use crate::fake::Fake;
use crate::host::Control as _;

const WORKERS: u64 = 2;

/// A counter whose VM began to count at this time.
fn counter(host: &Fake, since: u64, configuration: u32) -> u32 {
    let queue = register_queue(host).expect("a queue");
    add_to_index(host, IndexEntry::new(queue, Scope::Gateway, since, configuration));
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

fn survey(census: &Census, host: &Fake, workers: Option<u64>) -> Survey {
    let options = SurveyOptions {
        scopes: &[Scope::Gateway],
        exempts_long_lived: false,
        ignorable_since: 0,
        busy: 0,
        workers,
    };
    census.survey(host, options)
}

fn messages(host: &Fake, queue: u32) -> usize {
    core::iter::from_fn(|| host.dequeue(queue)).count()
}

/// The reload of one worker's VM must not excuse another worker that is merely not scheduled.
#[wasm_bindgen_test(unsupported = test)]
fn a_counter_is_replaced_only_where_every_worker_has_one_that_replies() {
    let (host, mut census) = (Fake::default(), Census::default());
    let [main, stalled] = [0, 0].map(|since| counter(&host, since, 7));
    round(&mut census, &host, 10_000, &[main, stalled]);
    let reloaded = counter(&host, 20_000, 7);
    for now in [30_000, 31_000] {
        round(&mut census, &host, now, &[main, reloaded]);
    }
    let seen = survey(&census, &host, Some(WORKERS));
    assert_eq!((seen.lost, seen.replaced), (vec![stalled], vec![]), "two workers, one replies");
    let again = counter(&host, 30_500, 7);
    round(&mut census, &host, 31_500, &[main, reloaded, again]);
    assert_eq!(survey(&census, &host, Some(WORKERS)).replaced, [stalled]);
    assert!(survey(&census, &host, None).replaced.is_empty(), "the number of workers is not known");
}

#[wasm_bindgen_test(unsupported = test)]
fn counters_of_an_earlier_configuration_are_replaced_everywhere_or_not_at_all() {
    let (host, mut census) = (Fake::default(), Census::default());
    let old = counter(&host, 0, 7);
    round(&mut census, &host, 10_000, &[old]);
    let new: Vec<u32> = (0..=WORKERS).map(|_| counter(&host, 20_000, 8)).collect();
    for (alive, expected) in [(&new[1..], &[][..]), (&new[..], &[old][..])] {
        for now in [30_000, 31_000] {
            round(&mut census, &host, host.clock.get() + now, alive);
        }
        assert_eq!(survey(&census, &host, Some(WORKERS)).replaced, expected, "{alive:?}");
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn a_counter_that_was_written_off_is_asked_and_comes_back_for_all_gates() {
    let (host, mut census, mut other) = (Fake::default(), Census::default(), Census::default());
    let [main, slow] = [0, 0].map(|since| counter(&host, since, 7));
    round(&mut census, &host, 10_000, &[main]);
    round(&mut other, &host, 10_000, &[main]);
    let end = 10_000 + WRITE_OFF_AFTER;
    for (now, count) in [(end - 1, CountState::Leaking), (end, CountState::Exact)] {
        round(&mut census, &host, now, &[main]);
        census.write_off(&host, &[slow], &[]);
        assert_eq!(survey(&census, &host, None).count_state, count, "{now}");
    }
    assert!(survey(&other, &host, None).lost.is_empty(), "the mark holds for every gate");
    messages(&host, slow);
    other = Census::default();
    round(&mut other, &host, end + 100, &[main, slow]);
    assert_eq!(messages(&host, slow), 1, "it is still asked");
    assert_eq!(survey(&other, &host, None).counters, 2);
    assert_eq!(survey(&census, &host, None).lost, [slow], "this gate has not heard it yet");
    let late = end + GONE_AFTER;
    round(&mut census, &host, late, &[main]);
    census.write_off(&host, &[slow], &[]);
    round(&mut census, &host, late + GONE_AFTER, &[main]);
    census.write_off(&host, &[], &[]);
    assert_eq!(entries(&host).len(), 1, "in the end it leaves the index");
}

#[wasm_bindgen_test(unsupported = test)]
fn vms_that_die_again_and_again_leave_a_short_index() {
    let (host, mut census) = (Fake::default(), Census::default());
    let dead: Vec<u32> = (0..100).map(|since| counter(&host, since, 7)).collect();
    for (queue, now) in dead.iter().zip(1_000..) {
        host.clock.set(now);
        census.write_off(&host, &[], &[*queue]);
    }
    let remaining: Vec<u32> = entries(&host).iter().map(|entry| entry.queue).collect();
    assert_eq!(remaining, dead[100 - MOST_WRITTEN_OFF..], "the newest");
}
