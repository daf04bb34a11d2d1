//! Samples: valid ones, missing ones, and idle ones that show a leak.

use wasm_bindgen_test::wasm_bindgen_test;

use super::{AdminFault, BeforeQuery, EnvoyCount, EnvoySamples, Gauges, Ignorable, Moment, Stats};
use crate::counts::facts::Sides;

fn gauges(in_flight: u64) -> Vec<Gauges> {
    vec![Gauges { in_flight, long_lived: 0 }]
}

/// A query with totals at this time, when this number of streams had begun and was in flight.
fn query(samples: &mut EnvoySamples, at: u64, begun: u64, gauge: u64) -> u64 {
    let mut before = BeforeQuery {
        at: Moment(at),
        gauges: gauges(gauge),
        with_totals: true,
        ..BeforeQuery::default()
    };
    before.ignorable.begun.own = begun;
    samples.begin_query(before)
}

fn sees(samples: &mut EnvoySamples, (at, begun, gauge): (u64, u64, u64), stats: Stats) {
    let number = query(samples, at, begun, gauge);
    assert_eq!(samples.end_query(number, Moment(at + 1), 1, Ok(stats)), Some(Moment(at)));
}

fn counted(active: u64, total: u64) -> Stats {
    Stats { active: Some(active), total: Some(total), ..Stats::default() }
}

fn after(in_flight: u64, begun: u64) -> Ignorable {
    let own = |number| Sides { own: number, others: 0 };
    Ignorable { in_flight: own(in_flight), begun: own(begun), is_complete: true }
}

#[wasm_bindgen_test(unsupported = test)]
fn a_sample_counts_while_it_is_valid() {
    let mut samples = EnvoySamples::default();
    sees(&mut samples, (100, 7, 0), counted(3, 9));
    let at = |now, ignorable| samples.count(Moment(now), ignorable, true);
    assert_eq!(at(110, after(2, 7)), EnvoyCount::Holds(1));
    assert_eq!(at(110, after(3, 7)), EnvoyCount::Holds(0));
    let unknown = Ignorable { is_complete: false, ..after(2, 7) };
    assert_eq!(at(110, unknown), EnvoyCount::Awaited);
    assert_eq!(at(5_000, after(2, 7)), EnvoyCount::Awaited, "too old");
    assert_eq!(at(50, after(3, 7)), EnvoyCount::Awaited, "a sample of the future is not valid");
}

/// 480 excluded requests a second, of 5 ms each, beside an answer that takes 30 ms: nothing says
/// that one of them holds the drain, and the next sample may show none.
#[wasm_bindgen_test(unsupported = test)]
fn streams_that_come_and_go_leave_the_count_open() {
    let mut samples = EnvoySamples::default();
    let number = query(&mut samples, 100, 7, 0);
    samples.end_query(number, Moment(130), 1, Ok(counted(4, 9)));
    assert_eq!(samples.count(Moment(131), after(2, 21), true), EnvoyCount::Awaited);
    assert_eq!(samples.count(Moment(131), after(2, 7), true), EnvoyCount::Holds(2));
}

#[wasm_bindgen_test(unsupported = test)]
fn a_count_is_absent_if_envoy_never_had_it() {
    let mut samples = EnvoySamples::default();
    let none = after(0, 0);
    assert!(samples.is_new());
    assert_eq!(samples.count(Moment(100), none, false), EnvoyCount::Awaited);
    sees(&mut samples, (100, 0, 0), Stats::default());
    assert_eq!(samples.count(Moment(110), none, false), EnvoyCount::Absent);
    assert_eq!(samples.count(Moment(9_000), none, false), EnvoyCount::Absent);
    sees(&mut samples, (9_000, 0, 0), Stats { active: Some(0), ..Stats::default() });
    assert_eq!(samples.count(Moment(9_001), none, false), EnvoyCount::Holds(0));
    assert_eq!(samples.count(Moment(9_001), none, true), EnvoyCount::Absent, "there is no total");
    let number = query(&mut samples, 9_100, 0, 0);
    samples.end_query(number, Moment(9_101), 1, Err(AdminFault::TimedOut));
    let later = samples.count(Moment(19_000), none, false);
    assert_eq!(later, EnvoyCount::Awaited, "Envoy is known to export it");
}

#[wasm_bindgen_test(unsupported = test)]
fn leaked_streams_need_two_idle_samples() {
    let mut samples = EnvoySamples::default();
    sees(&mut samples, (100, 7, 5), counted(0, 9));
    assert_eq!(samples.leaked(Moment(110)), None, "one sample is not enough");
    sees(&mut samples, (200, 7, 4), counted(0, 9));
    let leaked = samples.leaked(Moment(210)).map(|before| (before.gauges.clone(), before.heals));
    assert_eq!(leaked, Some((gauges(4), 0)));
    sees(&mut samples, (300, 8, 4), counted(0, 10));
    assert_eq!(samples.leaked(Moment(310)), None, "a request existed in between");
    sees(&mut samples, (400, 8, 4), counted(1, 11));
    assert_eq!(samples.leaked(Moment(410)), None);
    sees(&mut samples, (500, 8, 4), counted(0, 11));
    sees(&mut samples, (600, 8, 4), Stats { ignored: Some(1), ..counted(0, 11) });
    let leaked = samples.leaked(Moment(610));
    assert_eq!(leaked, None, "a gauge may show a stream that Envoy's count lacks");
}

/// A failure does not mean that Envoy has no count.
#[wasm_bindgen_test(unsupported = test)]
fn failures_leave_the_count_unknown() {
    for fault in [
        AdminFault::NotSent,
        AdminFault::TimedOut,
        AdminFault::Reset,
        AdminFault::Status(503),
        AdminFault::Foreign,
    ] {
        let mut samples = EnvoySamples::default();
        for _ in 0..9 {
            let number = query(&mut samples, 100, 0, 0);
            samples.end_query(number, Moment(200), 1, Err(fault));
        }
        assert_eq!(samples.count(Moment(300), after(0, 0), false), EnvoyCount::Awaited);
        assert_eq!((samples.fault, samples.answered_query()), (Some(fault), 0));
        sees(&mut samples, (300, 0, 0), counted(0, 0));
        assert_eq!((samples.fault, samples.answered_query()), (None, 10));
    }
}

/// The answer to a query that was given up counts, unless a newer one has come.
#[wasm_bindgen_test(unsupported = test)]
fn late_answers_count_in_their_order() {
    let mut samples = EnvoySamples::default();
    let [first, second] = [100, 300].map(|at| query(&mut samples, at, 0, 0));
    samples.end_query(first, Moment(350), 1, Ok(counted(1, 1)));
    assert_eq!(samples.answered_query(), first);
    let third = query(&mut samples, 400, 0, 0);
    samples.end_query(third, Moment(402), 1, Ok(counted(0, 1)));
    samples.end_query(second, Moment(403), 1, Ok(counted(1, 1)));
    assert_eq!(samples.answered_query(), third);
    assert_eq!(samples.count(Moment(404), after(0, 0), false), EnvoyCount::Holds(0));
    assert_eq!(samples.end_query(second, Moment(405), 1, Err(AdminFault::Reset)), None);
}

/// A worker that stands still in the end of a stream has not written its last bytes, and no sum of
/// Envoy shows them.
#[wasm_bindgen_test(unsupported = test)]
fn a_sample_proves_zero_only_up_to_the_last_reply_before_it() {
    let mut samples = EnvoySamples::default();
    for (alive_until, expected) in [(None, 500), (Some(Moment(300)), 300), (Some(Moment(600)), 500)]
    {
        let before = BeforeQuery { at: Moment(500), alive_until, ..BeforeQuery::default() };
        let number = samples.begin_query(before);
        samples.end_query(number, Moment(501), 1, Ok(counted(0, 0)));
        assert_eq!(samples.known_until(), Moment(expected));
    }
}
