//! Properties that hold for all streams, and a comparison with simulated drains.

use proptest::prelude::*;

use super::{Batches, Fleet, Load, MOST_BATCHES, Prediction, STEPS, Strategy as Rolling};
use crate::base::time_span::TimeSpan;
use crate::policy::drain_sizing;
use crate::size::lifetimes::{Histogram, Lifetimes};

fn histograms() -> impl Strategy<Value = Histogram> {
    proptest::collection::vec((0.01_f64..2_000.0, 0.0_f64..1_000.0), 1..12).prop_filter_map(
        "streams",
        |buckets| {
            let mut sum = 0.0;
            let mut bounds: Vec<f64> = buckets.iter().map(|(bound, _)| *bound).collect();
            bounds.sort_by(f64::total_cmp);
            let counts = buckets.iter().map(|(_, count)| {
                sum += count;
                sum
            });
            let cumulative = bounds.into_iter().zip(counts.collect::<Vec<_>>()).collect();
            Histogram::new(cumulative)
        },
    )
}

fn load(in_flight: f64, histogram: &Histogram) -> Load {
    let lifetimes = Lifetimes::of_durations(histogram);
    Load { in_flight, per_second: Some(in_flight / histogram.mean()), lifetimes }
}

fn rolled(load: &Load, longest: u64, pods: u32, startup: f64) -> Prediction {
    let second = TimeSpan::seconds(1);
    let sizing = drain_sizing(TimeSpan::seconds(longest), second, TimeSpan::default(), second);
    let strategy = Rolling::Deployment { surge: pods.div_ceil(4), unavailable: pods / 4 };
    load.predict(&sizing, &Fleet { pods, startup, strategy })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn shares_fall_and_quantiles_are_their_inverse(
        histogram in histograms(), at in 0.0_f64..3_000.0, more in 0.0_f64..500.0,
        share in 0.0001_f64..0.9,
    ) {
        let lifetimes = Lifetimes::of_durations(&histogram);
        let (now, later) = (lifetimes.longer_than(at), lifetimes.longer_than(at + more));
        prop_assert!((0.0..=1.0).contains(&now) && later <= now + 1e-12);
        if let Some(seconds) = lifetimes.outlasted_by(share) {
            prop_assert!(lifetimes.longer_than(seconds) <= share + 1e-6);
        } else {
            prop_assert!(lifetimes.longer_than(lifetimes.measured()) > share);
        }
    }

    #[test]
    fn a_longer_deadline_cuts_no_more_and_drains_no_shorter(
        histogram in histograms(), in_flight in 0.0_f64..500.0, longest in 1_u64..600,
        more in 0_u64..600, pods in 1_u32..2_000,
    ) {
        let load = load(in_flight, &histogram);
        let (short, long) =
            (rolled(&load, longest, pods, 10.0), rolled(&load, longest + more, pods, 10.0));
        prop_assert!(long.cut_share <= short.cut_share + 1e-12);
        // Beyond the last bound no stream is known to end, so a longer wait does not help. A jump
        // of the chance is integrated with the precision of one step.
        let step = (longest + more + 60) as f64 / f64::from(STEPS);
        prop_assert!(long.mean_stop >= short.mean_stop - step);
        prop_assert!(short.gone >= short.ready);
        prop_assert!(short.draining <= f64::from(pods) + 1e-9 && short.cut <= short.of + 1e-9);
    }

    #[test]
    fn more_pods_take_no_less_time(
        histogram in histograms(), in_flight in 0.0_f64..100.0, pods in 1_u32..500,
        more in 0_u32..500,
    ) {
        let load = load(in_flight, &histogram);
        let second = TimeSpan::seconds(1);
        let sizing = drain_sizing(TimeSpan::seconds(60), second, TimeSpan::default(), second);
        let gone = |pods| {
            let strategy = Rolling::InPlace { pods: 1 };
            load.predict(&sizing, &Fleet { pods, startup: 3.0, strategy }).gone
        };
        prop_assert!(gone(pods + more) >= gone(pods) - 1e-9);
    }

    #[test]
    fn the_proposal_keeps_the_wanted_share(
        histogram in histograms(), in_flight in 0.0_f64..500.0, share in 0.0005_f64..0.2,
    ) {
        let load = load(in_flight, &histogram);
        let plan = load.plan(share, TimeSpan::default(), TimeSpan::seconds(5));
        let left = load.lifetimes.longer_than(plan.sizing.longest_request.duration().as_secs_f64());
        prop_assert!(plan.is_cut_off || left <= share + 1e-6, "{left} of {share}");
        prop_assert!(plan.sizing.grace_period >= plan.sizing.deadline);
        prop_assert!(plan.sizing.drain_time() >= plan.sizing.deadline);
    }
}

proptest! {
    /// Compares with a simulation, one round after another.
    #[test]
    fn batches_match_a_simulated_rollout(
        pods in 1_u32..500, unavailable in 0_u32..600, at_once in 1_u32..600, young in 0_u32..600,
    ) {
        let mut left = pods;
        let mut expected = Vec::new();
        for round in 0.. {
            let most = if round == 0 { unavailable } else { at_once };
            expected.push((round, left.min(most)));
            left -= left.min(most);
            if left == 0 {
                break;
            }
        }
        let kept = expected.len().min(young as usize + 2);
        let expected = expected.split_off(expected.len() - kept);
        prop_assert_eq!(Batches { pods, unavailable, at_once }.youngest(young), expected);
    }
}

/// Without merging, a pod at a time would be two thousand million evaluations.
#[test]
fn a_rollout_of_very_many_steps_has_a_bounded_number_of_batches() {
    for pods in [2_000, 999_999, 1_000_000, u32::MAX] {
        let batches = Batches { pods, unavailable: 0, at_once: 1 }.youngest(u32::MAX);
        assert!(batches.len() <= MOST_BATCHES as usize, "{}", batches.len());
        let all: u64 = batches.iter().map(|(_, pods)| u64::from(*pods)).sum();
        assert_eq!(all, u64::from(pods));
        assert_eq!(batches.last().map(|(round, _)| *round), Some(pods));
    }
}

/// Streams of one length: those in flight have any age, so their rest is evenly distributed.
#[test]
fn streams_of_one_length_are_half_over() {
    let histogram = Histogram::new(vec![(9.999, 0.0), (10.0, 50.0), (f64::INFINITY, 50.0)]);
    let lifetimes = Lifetimes::of_durations(&histogram.expect("streams"));
    for (at, share) in [(0.0, 1.0), (2.5, 0.75), (5.0, 0.5), (9.9, 0.01), (11.0, 0.0)] {
        let seen = lifetimes.longer_than(at);
        assert!((seen - share).abs() < 0.01, "{seen} last longer than {at} s");
    }
}

/// Ages give the same result as durations.
#[test]
fn ages_and_durations_give_the_same_lifetimes() {
    let ages: Vec<f64> = (0..1_000).map(|index| f64::from(index) / 100.0).collect();
    let lifetimes = Lifetimes::of_ages(ages, 1_000.0).expect("streams");
    assert!((lifetimes.longer_than(5.0) - 0.5).abs() < 0.01);
    assert_eq!(lifetimes.outlasted_by(0.1).map(f64::round), Some(9.0));
}

/// The older of two streams says nothing about one stream in a thousand.
#[test]
fn few_ages_give_no_time_for_a_small_share() {
    let lifetimes = Lifetimes::of_ages(vec![5.0, 300.0], 2.0).expect("streams");
    assert_eq!(lifetimes.outlasted_by(0.001), None);
    assert!(lifetimes.outlasted_by(0.5).is_some());
    let load = Load { in_flight: 2.0, per_second: None, lifetimes };
    assert!(load.plan(0.001, TimeSpan::default(), TimeSpan::seconds(5)).is_cut_off);
}

/// Compares with the mean of ten thousand random drains of a pod.
#[test]
fn the_mean_matches_many_random_drains() {
    let histogram = Histogram::new(vec![(9.999, 0.0), (10.0, 50.0)]).expect("streams");
    let load = load(5.0, &histogram);
    let predicted = rolled(&load, 30, 4, 10.0).mean_stop;
    let mut random = fastrand::Rng::with_seed(17);
    let drawn: f64 = (0..10_000)
        .map(|_| {
            // A Poisson number, from the gaps of a process of rate 5 in a time of 1.
            let mut at = 0.0;
            let mut streams = 0_u32;
            loop {
                at -= (1.0 - random.f64()).ln() / 5.0;
                if at > 1.0 {
                    break;
                }
                streams += 1;
            }
            let longest = (0..streams).map(|_| random.f64() * 10.0).fold(0.0, f64::max);
            // One second in which streams still come, one of quiet, and the end of the pod.
            1.0 + longest + 1.0 + super::TEARDOWN
        })
        .sum::<f64>()
        / 10_000.0;
    assert!((predicted - drawn).abs() < 0.05 * drawn, "{predicted} s, and {drawn} s drawn");
}
