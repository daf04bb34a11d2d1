//! The remaining lifetime of streams that are in flight.
//!
//! A drain does not meet the average stream: a long one is in flight at more moments than a short
//! one. From a histogram of durations, the remaining lifetimes follow by integration. The ages of
//! streams in flight already have the wanted distribution, because in a steady state age and
//! remaining lifetime are distributed alike.

/// The share of streams in flight that last longer than a time, as a line through points.
#[derive(Debug, Clone, PartialEq)]
pub struct Lifetimes {
    /// Seconds and shares; the first is (0, 1), times rise, shares fall.
    points: Vec<(f64, f64)>,
    /// The number of streams in flight behind it; `None` for durations, of which there are many.
    sample: Option<f64>,
}

/// A histogram of durations.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    /// Upper bounds in seconds and the number of streams up to them, rising.
    pub buckets: Vec<(f64, f64)>,
    /// All streams, including those beyond the last bound.
    pub total: f64,
}

/// The number of parts of a bucket, because the integral over a bucket is not linear.
const PARTS: u32 = 8;

impl Histogram {
    /// Takes upper bounds and cumulative counts in any order, with `+Inf` for all. `None` without a
    /// stream.
    #[must_use]
    pub fn new(mut cumulative: Vec<(f64, f64)>) -> Option<Self> {
        cumulative.retain(|(bound, count)| !bound.is_nan() && count.is_finite() && *count >= 0.0);
        cumulative.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let mut highest = 0.0_f64;
        let mut buckets = Vec::new();
        for (bound, count) in cumulative {
            // Buckets of a rate may disagree by a rounding error.
            highest = highest.max(count);
            if bound.is_finite() && bound > 0.0 {
                buckets.push((bound, highest));
            }
        }
        (highest > 0.0 && !buckets.is_empty()).then_some(Self { buckets, total: highest })
    }

    /// The share of streams that last longer than the last bound, and that bound.
    #[must_use]
    pub fn beyond(&self) -> (f64, f64) {
        self.buckets.last().map_or((1.0, 0.0), |(bound, count)| (1.0 - count / self.total, *bound))
    }

    /// The mean duration. Streams beyond the last bound are assumed to last twice that bound.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.areas().last().map_or(0.0, |(_, area)| *area) + self.tail()
    }

    fn tail(&self) -> f64 {
        let (share, bound) = self.beyond();
        share * bound
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

impl Lifetimes {
    /// Computes them from durations of streams that have ended.
    #[must_use]
    pub fn of_durations(histogram: &Histogram) -> Self {
        let whole = histogram.mean();
        let areas = histogram.areas().into_iter();
        let points =
            areas.map(|(at, area)| (at, if whole > 0.0 { 1.0 - area / whole } else { 0.0 }));
        Self::new(points)
    }

    /// Computes them from ages of streams in flight, in seconds. `in_flight` is their number if
    /// only the oldest are listed.
    #[must_use]
    pub fn of_ages(mut ages: Vec<f64>, in_flight: f64) -> Option<Self> {
        ages.retain(|age| age.is_finite() && *age >= 0.0);
        ages.sort_by(f64::total_cmp);
        if ages.is_empty() {
            return None;
        }
        let all = in_flight.max(ages.len() as f64);
        let older = |index: usize| (ages.len() - 1 - index) as f64 / all;
        let points = ages.iter().enumerate().map(|(index, age)| (*age, older(index)));
        let youngest = ages.first().map(|age| (*age, ages.len() as f64 / all));
        let points = std::iter::once((0.0, 1.0)).chain(youngest).chain(points);
        Some(Self { sample: Some(all), ..Self::new(points) })
    }

    fn new(points: impl Iterator<Item = (f64, f64)>) -> Self {
        let mut kept: Vec<(f64, f64)> = vec![(0.0, 1.0)];
        for (at, share) in points {
            let Some((last, lowest)) = kept.last_mut() else { break };
            let share = share.clamp(0.0, *lowest);
            if at > *last {
                kept.push((at, share));
            } else if *last > 0.0 {
                *lowest = share;
            }
        }
        Self { points: kept, sample: None }
    }

    /// The share that lasts longer than this many seconds.
    #[must_use]
    pub fn longer_than(&self, seconds: f64) -> f64 {
        let next = self.points.partition_point(|(at, _)| *at <= seconds);
        let Some((from, high)) = next.checked_sub(1).and_then(|last| self.points.get(last)) else {
            return 1.0;
        };
        self.points
            .get(next)
            .map_or(*high, |(to, low)| high + (low - high) * (seconds - from) / (to - from))
    }

    /// The time that only this share outlasts. `None` if a larger share lasts longer than the
    /// longest measured time, or if the share is less than one of the measured streams.
    #[must_use]
    pub fn outlasted_by(&self, share: f64) -> Option<f64> {
        if self.sample.is_some_and(|streams| streams * share < 1.0) {
            return None;
        }
        let next = self.points.iter().position(|(_, left)| *left <= share)?;
        let (to, low) = self.points.get(next)?;
        let Some((from, high)) = next.checked_sub(1).and_then(|last| self.points.get(last)) else {
            return Some(*to);
        };
        Some(if high > low { from + (to - from) * (high - share) / (high - low) } else { *to })
    }

    /// The longest time that was measured.
    #[must_use]
    pub fn measured(&self) -> f64 {
        self.points.last().map_or(0.0, |(at, _)| *at)
    }

    /// The larger share of both at each time, because neither source has all streams: listings lack
    /// short streams, histograms lack those that have not ended.
    #[must_use]
    pub fn or_longer(&self, other: &Self) -> Self {
        let mut times: Vec<f64> =
            self.points.iter().chain(&other.points).map(|(at, _)| *at).collect();
        times.sort_by(f64::total_cmp);
        Self::new(times.into_iter().map(|at| (at, self.longer_than(at).max(other.longer_than(at)))))
    }
}
