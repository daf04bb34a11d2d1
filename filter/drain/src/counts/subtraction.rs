//! The streams that are subtracted from Envoy's own count, because they do not hold the drain:
//! excluded and exempt ones, and those of other scopes.
//!
//! The assumption: each of them is in Envoy's sum of requests in flight. It is wrong if a stats
//! matcher exports some connection managers only, or if the filter counts in one that is taken for
//! the proxy's own. One sample can prove that; from then on nothing is subtracted.

use super::facts::Sides;
use super::stats::Stats;

/// The counters' numbers, before or after a sample, of streams that do not hold the drain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ignorable {
    /// Streams in flight that do not hold the drain, as far as is known.
    pub(crate) in_flight: Sides,
    /// Streams ever begun.
    pub(crate) begun: Sides,
    /// Whether every counter that may reply has replied since the sample.
    pub(crate) is_complete: bool,
}

impl Sides {
    fn map2(self, other: Self, work: impl Fn(u64, u64) -> u64) -> Self {
        Self { own: work(self.own, other.own), others: work(self.others, other.others) }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        self.map2(other, u64::saturating_sub)
    }

    fn plus(self, other: Self) -> Self {
        self.map2(other, u64::saturating_add)
    }

    pub(crate) fn sum(self) -> u64 {
        self.own.saturating_add(self.others)
    }
}

/// Streams that were in flight during the whole query. One that is in flight after it and did not
/// begin since was also in flight when Envoy took the sample.
fn stayed(before: Ignorable, after: Ignorable) -> Sides {
    after.in_flight.minus(after.begun.minus(before.begun))
}

/// Requests of a sample that do not hold the drain. If connection managers of the other direction
/// are left out, streams of other scopes are not in the sum. Each request in a connection manager
/// that the operator ignores may be one of these streams.
pub(crate) fn subtracted(stats: &Stats, before: Ignorable, after: Ignorable) -> u64 {
    let stayed = stayed(before, after);
    let other_side = if stats.splits_directions { 0 } else { stayed.others };
    stayed.own.saturating_add(other_side).saturating_sub(stats.ignored.unwrap_or_default())
}

/// The most requests of a sample that can be streams which do not hold the drain and which began or
/// ended during the query. Short ones come and go, and the next sample may show none.
pub(crate) fn passing(before: Ignorable, after: Ignorable) -> u64 {
    let beginnings = after.begun.minus(before.begun);
    let ends = before.in_flight.plus(beginnings).minus(after.in_flight);
    beginnings.plus(ends).sum()
}

/// Whether a sample proves the assumption wrong: more such streams were in flight during the whole
/// query than Envoy has requests in all of its sums.
pub(crate) fn is_disproved(stats: &Stats, before: Ignorable, after: Ignorable) -> bool {
    let sums = [stats.active, stats.ignored, stats.others, stats.tunnels];
    let requests = sums.into_iter().flatten().fold(0, u64::saturating_add);
    stats.active.is_some() && after.is_complete && stayed(before, after).sum() > requests
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Ignorable, Sides, Stats, is_disproved, passing, subtracted};

    fn own(number: u64) -> Sides {
        Sides { own: number, others: 0 }
    }

    fn after(in_flight: u64, begun: u64) -> Ignorable {
        Ignorable { in_flight: own(in_flight), begun: own(begun), is_complete: true }
    }

    fn before(in_flight: u64, begun: u64) -> Ignorable {
        Ignorable { in_flight: own(in_flight), begun: own(begun), is_complete: false }
    }

    fn active(active: u64) -> Stats {
        Stats { active: Some(active), ..Stats::default() }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn only_streams_that_were_in_the_sample_are_subtracted() {
        for (after, expected) in [
            (after(2, 7), 2),
            (after(1, 7), 1),
            (after(2, 8), 1), // one of them may be another
            (after(2, 99), 0),
        ] {
            assert_eq!(subtracted(&active(3), before(2, 7), after), expected, "{after:?}");
        }
        let ignored = Stats { ignored: Some(1), ..active(3) };
        assert_eq!(subtracted(&ignored, before(2, 7), after(2, 7)), 1, "it may be that one");
        let outbound =
            Ignorable { in_flight: Sides { own: 0, others: 1 }, begun: own(7), is_complete: true };
        assert_eq!(subtracted(&active(3), before(0, 7), outbound), 1);
        let split = Stats { splits_directions: true, ..active(3) };
        assert_eq!(subtracted(&split, before(0, 7), outbound), 0, "it is in another sum");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn streams_that_come_and_go_are_told_from_those_that_stay() {
        for (before, after, expected) in [
            (before(2, 7), after(2, 7), 0),
            (before(2, 7), after(0, 7), 2),
            (before(2, 7), after(3, 20), 13 + 12),
            (before(0, 7), after(0, 7), 0),
        ] {
            assert_eq!(passing(before, after), expected, "{before:?} {after:?}");
        }
    }

    /// A stats matcher exports one connection manager only, which is idle; an excluded stream is in
    /// another.
    #[wasm_bindgen_test(unsupported = test)]
    fn a_stream_that_is_in_no_sum_disproves_the_assumption() {
        let idle = active(0);
        assert!(is_disproved(&idle, before(1, 7), after(1, 7)));
        assert!(!is_disproved(&idle, before(1, 7), after(1, 8)), "it may be another");
        let unknown = Ignorable { is_complete: false, ..after(1, 7) };
        assert!(!is_disproved(&idle, before(1, 7), unknown));
        for stats in [
            active(1),
            Stats { ignored: Some(1), ..idle },
            Stats { others: Some(1), ..idle },
            Stats { tunnels: Some(1), ..idle },
            Stats { active: None, ..idle },
        ] {
            assert!(!is_disproved(&stats, before(1, 7), after(1, 7)), "{stats:?}");
        }
    }
}
