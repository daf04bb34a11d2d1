use wasm_bindgen_test::wasm_bindgen_test;

use super::{ConfigDrain, Draining, Transition};
use crate::fake::Fake;
use crate::shared_text::SharedText as _;

const DRAIN: u64 = 45_000;

/// The state after answers of Envoy: the beginning of each query, the number that drained, and the
/// expected transition.
fn after(answers: &[(u64, u64, Transition)]) -> ConfigDrain {
    let mut known = ConfigDrain::default();
    for (at, draining, expected) in answers {
        assert_eq!(known.observe(*at, Some(*draining), DRAIN), *expected, "at {at}");
        assert_eq!(ConfigDrain::parse(&known.to_text()).as_ref(), Some(&known), "its text");
    }
    known
}

#[wasm_bindgen_test(unsupported = test)]
fn the_text_keeps_the_format_of_earlier_versions() {
    use Transition::{Changed, None};
    let known = after(&[(1_000, 0, None), (2_000, 1, Changed), (3_000, 3, Changed)]);
    assert_eq!(known.to_text(), "1 3000 3000 1 3 1000 2000");
}

#[wasm_bindgen_test(unsupported = test)]
fn a_change_is_dated_to_the_last_query_before_it() {
    use Transition::{Changed, Ended, None};
    let known = after(&[(1_000, 0, None), (2_000, 0, None), (3_000, 1, Changed)]);
    assert_eq!(known.at(3_010, DRAIN), Draining::Since { moment: 2_000, left: 43_990 });
    assert_eq!(known.at(47_500, DRAIN), Draining::Since { moment: 2_000, left: 0 });
    let answers = [(1_000, 0, None), (3_000, 1, Changed), (4_000, 1, None), (48_000, 0, Ended)];
    assert_eq!(after(&answers).at(48_010, DRAIN), Draining::Nothing);
}

#[wasm_bindgen_test(unsupported = test)]
fn the_change_that_ends_next_is_shown() {
    use Transition::{Changed, None};
    let known = after(&[
        (1_000, 0, None),
        (2_000, 1, Changed),
        (20_000, 1, None),
        (21_000, 3, Changed),
        (30_000, 3, None),
    ]);
    assert_eq!(known.at(30_000, DRAIN), Draining::Since { moment: 1_000, left: 16_000 });
    assert_eq!(known.at(46_000, DRAIN), Draining::Since { moment: 20_000, left: 19_000 });
    assert_eq!((known.unclosed(45_999, DRAIN), known.newest()), (&[1_000, 20_000][..], 20_000));
    assert_eq!(known.unclosed(46_000, DRAIN), [20_000]);
    let later =
        after(&[(1_000, 0, None), (2_000, 1, Changed), (21_000, 2, Changed), (47_000, 1, None)]);
    assert_eq!(later.at(50_000, DRAIN), Draining::Since { moment: 2_000, left: 0 });
}

#[wasm_bindgen_test(unsupported = test)]
fn a_drain_whose_beginning_was_not_seen_has_no_moment() {
    use Transition::{Changed, FoundDraining, None};
    let known = after(&[(1_000, 2, FoundDraining), (2_000, 2, None)]);
    assert_eq!(known.at(2_000, DRAIN), Draining::SinceUnknown);
    assert_eq!(Draining::SinceUnknown.moment(), 0);
    // The moment of a further change is known.
    let known = after(&[(1_000, 2, FoundDraining), (2_000, 2, None), (3_000, 3, Changed)]);
    assert_eq!(known.at(3_000, DRAIN), Draining::Since { moment: 2_000, left: 44_000 });
    // A change that begins in the same second in which the one before ends is not seen.
    let known = after(&[(1_000, 0, None), (2_000, 1, Changed), (51_001, 1, None)]);
    assert_eq!(known.at(51_001, DRAIN), Draining::SinceUnknown);
}

#[wasm_bindgen_test(unsupported = test)]
fn late_answers_and_missing_statistics_are_not_changes() {
    let mut known = after(&[(1_000, 0, Transition::None), (3_000, 1, Transition::Changed)]);
    assert_eq!(known.observe(2_000, Some(0), DRAIN), Transition::None, "an older answer");
    assert_eq!(known.at(3_000, DRAIN).moment(), 1_000);
    assert_eq!(known.observe(4_000, None, DRAIN), Transition::NotExported);
    assert_eq!(known.observe(5_000, None, DRAIN), Transition::None, "said once");
    assert_eq!(known.at(5_000, DRAIN), Draining::NotExported);
    assert_eq!(known.observe(6_000, Some(1), DRAIN), Transition::FoundDraining);
    for text in ["", "1", "1 2 3 1 x", "2 1 1 1 1", "1 1 1 1 1 y", "\u{e9}"] {
        assert_eq!(ConfigDrain::parse(text), None, "{text}");
    }
}

#[wasm_bindgen_test(unsupported = test)]
fn one_worker_queries_once_a_second() {
    let host = Fake::default();
    host.clock.set(10_000);
    assert!(ConfigDrain::claim_query(&host));
    host.clock.set(10_900);
    assert!(!ConfigDrain::claim_query(&host), "another worker has just asked");
    host.clock.set(11_000);
    assert!(ConfigDrain::claim_query(&host));
    assert_eq!(ConfigDrain::record(&host, 11_000, Some(0), DRAIN), Transition::None);
    assert_eq!(ConfigDrain::record(&host, 12_000, Some(1), DRAIN), Transition::Changed);
    assert_eq!(ConfigDrain::read(&host).at(12_000, DRAIN).moment(), 11_000);
}
