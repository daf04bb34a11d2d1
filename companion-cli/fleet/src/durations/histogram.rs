//! A histogram of durations, and how long the streams that a drain meets still last.
//!
//! A drain does not meet the average stream: a long one is in flight at more moments than a short
//! one. The remaining lifetimes of streams in flight follow from durations by integration.

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    /// Upper bounds in seconds and the number of streams up to them, rising.
    buckets: Vec<(f64, f64)>,
    /// All streams, including those beyond the last bound.
    total: f64,
}

/// The number of parts of a bucket, because the integral over a bucket is not linear.
const PARTS: u32 = 8;

impl Histogram {
    /// Takes upper bounds and cumulative counts in any order, with `+Inf` for all, and sums counts
    /// of one bound. `None` without a stream.
    pub fn new(mut cumulative: Vec<(f64, f64)>) -> Option<Self> {
        cumulative.retain(|(bound, count)| !bound.is_nan() && count.is_finite() && *count >= 0.0);
        cumulative.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let mut highest = 0.0_f64;
        let mut buckets = Vec::new();
        for same in cumulative.chunk_by(|(one, _), (other, _)| one == other) {
            // Buckets of a rate may disagree by a rounding error.
            highest = highest.max(same.iter().map(|(_, count)| count).sum());
            let bound = same.first().map(|(bound, _)| *bound);
            buckets.extend(
                bound
                    .filter(|bound| bound.is_finite() && *bound > 0.0)
                    .map(|bound| (bound, highest)),
            );
        }
        (highest > 0.0 && !buckets.is_empty()).then_some(Self { buckets, total: highest })
    }

    /// The number of all streams.
    pub fn requests(&self) -> u64 {
        self.total.round() as u64
    }

    /// The last bound, and the share of streams in flight that last longer. Streams beyond the
    /// last bound are assumed to last twice that bound.
    pub fn beyond(&self) -> (f64, f64) {
        let (bound, count) = self.buckets.last().copied().unwrap_or_default();
        let tail = (1.0 - count / self.total) * bound;
        let below = self.areas().last().map_or(0.0, |(_, area)| *area);
        (bound, if below + tail > 0.0 { tail / (below + tail) } else { 0.0 })
    }

    /// The time in seconds that only this share of the streams in flight still lasts. `None` if a
    /// larger share lasts longer than the last bound.
    pub fn outlasted_by(&self, share: f64) -> Option<f64> {
        let (_, beyond) = self.beyond();
        let areas = self.areas();
        let whole = areas.last().map_or(0.0, |(_, area)| *area) / (1.0 - beyond);
        let share_above = |area: f64| if whole > 0.0 { 1.0 - area / whole } else { 0.0 };
        let next = areas.iter().position(|(_, area)| share_above(*area) <= share)?;
        let (to, low) = areas.get(next).map(|(at, area)| (*at, share_above(*area)))?;
        let Some((from, area)) = next.checked_sub(1).and_then(|last| areas.get(last)) else {
            return Some(to);
        };
        let high = share_above(*area);
        Some(if high > low { from + (to - from) * (high - share) / (high - low) } else { to })
    }

    /// The integral of the share of longer streams, up to each point.
    fn areas(&self) -> Vec<(f64, f64)> {
        let (mut at, mut share, mut area) = (0.0, 1.0, 0.0);
        let mut areas = vec![(0.0, 0.0)];
        for (bound, count) in &self.buckets {
            let (from, share_from, next) = (at, share, 1.0 - count / self.total);
            for part in 1..=PARTS {
                let way = f64::from(part) / f64::from(PARTS);
                let (to, share_to) =
                    (from + (bound - from) * way, share_from + (next - share_from) * way);
                area += (to - at) * (share + share_to) / 2.0;
                areas.push((to, area));
                (at, share) = (to, share_to);
            }
        }
        areas
    }
}

#[cfg(test)]
mod tests {
    use super::Histogram;

    /// Of requests that all last 10 s, a drain meets one in ten in its last second.
    #[test]
    fn long_streams_are_met_more_often() {
        let alike = Histogram::new(vec![(9.999, 0.0), (10.0, 100.0)]).expect("streams");
        let nine = alike.outlasted_by(0.1).expect("measured");
        assert!((nine - 9.0).abs() < 0.01, "{nine}");
        let mixed = Histogram::new(vec![(0.1, 99.0), (60.0, 100.0)]).expect("streams");
        assert!(mixed.outlasted_by(0.01).expect("measured") > 30.0, "{mixed:?}");
    }

    #[test]
    fn a_share_beyond_the_last_bound_is_not_measured() {
        let cut_off = Histogram::new(vec![(10.0, 90.0), (f64::INFINITY, 100.0)]).expect("streams");
        let (bound, share) = cut_off.beyond();
        assert!(bound == 10.0 && (share - 1.0 / 6.5).abs() < 1e-9, "{share}");
        assert_eq!(cut_off.outlasted_by(0.05), None);
        assert!(cut_off.outlasted_by(0.2).is_some_and(|time| time < 10.0));
        for nothing in [vec![], vec![(1.0, 0.0)], vec![(f64::NAN, 5.0)], vec![(f64::INFINITY, 5.0)]]
        {
            assert_eq!(Histogram::new(nothing), None);
        }
    }
}
