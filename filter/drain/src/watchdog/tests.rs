use super::*;

const WATCHDOG: Watchdog = Watchdog { timeout: MISS, long_timeout: MEGA_MISS };

fn workers() -> Workers {
    Workers { watchdog: Some(WATCHDOG), ..Workers::default() }
}

fn sample(at: u64, misses: u64, uptime: u64) -> Sample {
    let body = format!(
        "server.concurrency: 1\nserver.uptime: {uptime}\n\
         server.worker_0.watchdog_miss: {}\nserver.worker_0.watchdog_mega_miss: {}\n",
        misses % 10,
        misses / 10,
    );
    Sample::parse(Moment(at), Moment(at + 2), &body, false).expect("Envoy's answer")
}

#[test]
fn a_reply_needs_the_time_in_which_a_miss_is_noticed() {
    let mut workers = workers();
    workers.ask(Moment(1_000));
    for (at, replies) in [(1_000, 0), (1_799, 0), (1_800, 1), (1_900, 0)] {
        assert_eq!(workers.add(sample(at, 0, 0)), Some(replies), "at {at}");
    }
    assert_eq!(workers.ask(Moment(2_000)), 1, "the last answer is fresh");
    assert_eq!(workers.ask(Moment(2_001)), 0);
    assert_eq!(workers.add(sample(1_902, 0, 0)), Some(1));
}

#[test]
fn after_a_mega_miss_two_flushes_are_needed() {
    let mut workers = workers();
    for at in [900, 1_700] {
        assert_eq!(workers.add(sample(at, 0, 0)), Some(0));
    }
    workers.ask(Moment(1_801));
    let after = [(1_850, 1, 0), (2_600, 11, 0), (6_000, 11, 5), (9_000, 11, 5)];
    for (at, misses, uptime) in after {
        assert_eq!(workers.add(sample(at, misses, uptime)), Some(0), "at {at}");
    }
    assert_eq!(workers.add(sample(11_000, 11, 10)), Some(1));
    workers.ask(Moment(11_101));
    assert_eq!(workers.add(sample(11_200, 11, 10)), Some(0), "it may stand still again");
    assert_eq!(workers.add(sample(11_800, 11, 10)), Some(1));
    workers.ask(Moment(11_901));
    assert_eq!(workers.add(sample(11_950, 12, 10)), Some(0), "the next miss");
}

#[test]
fn a_miss_without_a_mega_miss_is_over_in_time() {
    let mut workers = workers();
    for at in [900, 1_700] {
        assert_eq!(workers.add(sample(at, 0, 0)), Some(0));
    }
    workers.ask(Moment(1_801));
    assert_eq!(workers.reply_is_due(), Some(Moment(1_700)), "any newer answer");
    for (at, replies) in [(1_850, 0), (3_451, 0), (3_452, 1)] {
        assert_eq!(workers.add(sample(at, 1, 0)), Some(replies), "at {at}");
    }
}

#[test]
fn an_answer_that_is_not_envoys_shows_no_worker() {
    for body in ["", "<p>Welcome</p>\n", "server.uptime: 9\n", "server.concurrency: 0\n"] {
        for used_only in [false, true] {
            assert!(Sample::parse(Moment(1), Moment(2), body, used_only).is_none(), "{body}");
        }
    }
}

/// A flush of statistics follows each step of the clock.
#[test]
fn a_clock_that_is_set_back_is_no_new_envoy() {
    for (at, uptime, asked, is_another) in [
        (2_000, 40, Some(8), false),
        (2_000, 0, Some(8), false),
        (2_000, 100, Some(7), true),
        (2_000, 2, Some(1), true),
        (2_000, 40, None, false),
        (2_000, 1, None, true),
        (62_000, 40, None, true),
    ] {
        let mut workers = workers();
        for (at, uptime, asked) in [(1_000, 100, Some(7)), (at, uptime, asked)] {
            let mut sample = sample(at, 3, uptime);
            sample.asked = asked;
            let is_first = at == 1_000;
            let has_begun_anew = workers.add(sample).is_none();
            assert_eq!(has_begun_anew, !is_first && is_another, "{at} {uptime} {asked:?}");
        }
    }
}

#[test]
fn a_miss_from_before_the_first_answer_is_one() {
    let mut workers = workers();
    workers.ask(Moment(1_000));
    for (at, uptime, replies) in [(1_000, 40, 0), (3_000, 40, 0), (6_000, 45, 0), (9_900, 50, 1)] {
        assert_eq!(workers.add(sample(at, 3, uptime)), Some(replies), "at {at}");
    }
}

#[test]
fn without_a_watchdog_flushes_prove_it() {
    for body in ["", "server.worker_0.watchdog_miss: 0\nserver.worker_0.watchdog_mega_miss: 0\n"] {
        let mut workers = workers();
        workers.ask(Moment(1_000));
        for (at, uptime, replies) in [(1_000, 1, 0), (5_000, 6, 0), (9_000, 6, 0), (9_900, 11, 1)] {
            let body = format!("server.concurrency: 2\nserver.uptime: {uptime}\n{body}");
            let sample = Sample::parse(Moment(at), Moment(at), &body, false).expect(&body);
            assert_eq!(workers.add(sample), Some(replies), "at {at}");
        }
        assert!(!workers.has_watchdog());
    }
}

/// Only time in which Envoy ran counts. The answer that shows a stop may be late, overtaken by
/// that to a newer question, or missing.
#[test]
fn an_envoy_that_was_stopped_is_watched_anew() {
    let late = |began: u64| Sample { ended: Moment(5_000), ..sample(began, 0, 0) };
    let shows_a_stop: [&dyn Fn(&mut Workers); 3] = [
        &|workers| {
            let answer = Sample { waited: Millis(3_190), ..late(1_810) };
            assert_eq!(workers.add(answer), Some(0));
        },
        &|workers| {
            let answer = Sample { waited: Millis(3_190), ..late(4_999) };
            assert_eq!(workers.add(answer), Some(0));
        },
        &|workers| workers.answer_is_missing(Moment(5_000)),
    ];
    for (number, show) in shows_a_stop.into_iter().enumerate() {
        let mut workers = workers();
        for at in [900, 1_700] {
            assert_eq!(workers.add(sample(at, 0, 0)), Some(0));
        }
        workers.ask(Moment(1_801));
        show(&mut workers);
        for (at, replies) in [(5_050, 0), (5_799, 0), (5_800, 1)] {
            assert_eq!(workers.add(sample(at, 0, 0)), Some(replies), "{number} at {at}");
        }
    }
}

#[test]
fn behind_the_latch_every_worker_has_come_back_since() {
    let mut workers = workers();
    for at in [900, 1_700] {
        assert_eq!(workers.add(sample(at, 0, 0)), Some(0));
    }
    workers.latch_has_closed(Moment(2_000));
    workers.ask(Moment(2_010));
    assert_eq!(workers.reply_is_due(), Some(Moment(2_800)));
    for (at, replies) in [(2_020, 0), (2_799, 0), (2_800, 1)] {
        assert_eq!(workers.add(sample(at, 0, 0)), Some(replies), "at {at}");
    }
}

#[test]
fn what_was_never_written_is_zero_if_envoy_exports_it() {
    let used_only =
        |at: u64| Sample::parse(Moment(at), Moment(at), "server.concurrency: 1\n", true).unwrap();
    for (first, replies) in [(sample(1_000, 0, 0), 1), (used_only(1_000), 0)] {
        let mut workers = workers();
        assert_eq!(workers.add(first), Some(0));
        workers.ask(Moment(1_800));
        assert_eq!(workers.add(used_only(1_800)), Some(replies));
    }
}

#[test]
fn another_envoy_is_seen() {
    let mut workers = workers();
    assert_eq!(workers.add(sample(1_000, 1, 50)), Some(0));
    assert_eq!(workers.add(sample(2_000, 1, 0)), None);
    let asked = |at: u64, asked: u64| Sample { asked: Some(asked), ..sample(at, 1, 50) };
    assert_eq!(workers.add(asked(3_000, 90)), Some(0));
    assert_eq!(workers.add(asked(3_001, 89)), Some(0), "overtaken");
    assert_eq!(workers.add(asked(3_002, 89)), None);
}
