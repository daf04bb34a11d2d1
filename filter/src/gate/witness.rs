//! Envoy's own count as the second witness: what it was at a moment, beside what the gate knew just
//! before.

use super::machine::EnvoyCount;
use super::stats::Stats;

/// How long a sample is good, beside what it took to get; milliseconds.
const GOOD: u64 = 100;
/// And so many times what it took: no sooner is there another.
const GOOD_FOR: u64 = 6;
/// After so many failures in a row there is no admin interface.
const MISSING_AFTER: u32 = 3;

/// Streams of the gate's scopes, and those of other scopes.
pub(crate) type Sides = [u64; 2];

/// What the gate knew when it asked Envoy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Before {
    pub(crate) at: u64,
    /// Streams ever begun, counted or excluded.
    pub(crate) moved: Sides,
    /// The gauges, all of all scopes.
    pub(crate) gauges: Vec<u64>,
    /// How often a leaked count had been put right.
    pub(crate) heals: u64,
    /// Whether Envoy is asked how many requests there have ever been, too.
    pub(crate) with_totals: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Sample {
    number: u64,
    before: Before,
    took: u64,
    /// The round of the census that was asked after it.
    round: u64,
    stats: Stats,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Witness {
    /// How often Envoy was asked.
    asks: u64,
    asked: Option<Before>,
    last: Option<Sample>,
    /// Of the sample before the last: how many requests there had ever been, if none was in flight.
    still: Option<u64>,
    /// Whether Envoy has ever told its count. Then it exports it, and an answer that is missing is
    /// no reason to do without.
    has_counted: bool,
    /// How many requests there had ever been when that was told last.
    total: u64,
    failures: u32,
}

/// What the counters know of streams that need not be waited for, at a moment after the sample.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Idle {
    /// Streams in flight then that do not hold.
    pub(crate) idle: Sides,
    /// Streams ever begun.
    pub(crate) moved: Sides,
    /// Whether all who can be expected to answer have.
    pub(crate) is_complete: bool,
}

impl Witness {
    pub(crate) fn ask(&mut self, before: Before) {
        self.asks += 1;
        self.asked = Some(before);
    }

    /// The number of the next question: its answer is of a moment after now.
    pub(crate) fn next(&self) -> u64 {
        self.asks + 1
    }

    /// Whether that question was asked.
    pub(crate) fn has_asked(&self, number: u64) -> bool {
        self.asks >= number
    }

    /// Whether it, or a later one, was answered; or no answer is to be expected.
    pub(crate) fn has_heard(&self, number: u64) -> bool {
        self.is_missing() || self.last.as_ref().is_some_and(|last| last.number >= number)
    }

    /// When Envoy was asked last.
    pub(crate) fn asked_at(&self) -> u64 {
        let last = || self.last.as_ref().map(|last| &last.before);
        self.asked.as_ref().or_else(last).map_or(0, |before| before.at)
    }

    /// Envoy's answer; none when there was none. `round`: the census that is asked next.
    pub(crate) fn answered(&mut self, now: u64, round: u64, stats: Option<Stats>) {
        match (stats, self.asked.take()) {
            (Some(stats), Some(before)) => {
                self.still = self
                    .last
                    .take()
                    .and_then(|last| last.stats.total.filter(|_| last.stats.active == Some(0)));
                self.has_counted |= stats.active.is_some();
                self.total = stats.total.unwrap_or(self.total);
                self.last = Some(Sample {
                    number: self.asks,
                    took: now.saturating_sub(before.at),
                    before,
                    round,
                    stats,
                });
                self.failures = 0;
            }
            _ => self.failures = self.failures.saturating_add(1),
        }
    }

    /// How many requests there had ever been; it only grows, so an old answer is no other than a
    /// new one where none began.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// There is no admin interface, as far as that can be told.
    pub(crate) fn is_missing(&self) -> bool {
        self.failures >= MISSING_AFTER && !self.has_counted
    }

    /// Whether nothing is known yet of what Envoy exports.
    pub(crate) fn is_new(&self) -> bool {
        self.last.is_none() && !self.is_missing()
    }

    /// The round of the census that tells which requests of the last sample need not be waited for.
    pub(crate) fn round(&self) -> u64 {
        self.last.as_ref().map_or(0, |last| last.round)
    }

    /// Whether Envoy tells, as far as is known, how many bytes wait to be written.
    pub(crate) fn tells_bytes(&self) -> bool {
        !self.is_missing() && self.last.as_ref().is_none_or(|last| last.stats.buffered.is_some())
    }

    fn fresh(&self, now: u64) -> Option<&Sample> {
        let good = |last: &&Sample| {
            let age = now.checked_sub(last.before.at);
            age.is_some_and(|age| age <= last.took.saturating_mul(GOOD_FOR).saturating_add(GOOD))
        };
        self.last.as_ref().filter(good)
    }

    /// The last answer, while it is good.
    pub(crate) fn stats(&self, now: u64) -> Option<Stats> {
        self.fresh(now).map(|sample| sample.stats)
    }

    /// Up to when Envoy is known to have counted; a missing one is not waited for.
    pub(crate) fn seen(&self) -> u64 {
        match &self.last {
            Some(last) => last.before.at,
            None if self.is_missing() => u64::MAX,
            None => 0,
        }
    }

    /// Requests that hold. `needs_totals`: the filter does not tell what began in between, so Envoy
    /// must.
    pub(crate) fn count(&self, now: u64, idle: Idle, needs_totals: bool) -> EnvoyCount {
        let Some(sample) = self.fresh(now) else {
            let is_absent = self.is_missing() || self.last.is_some() && !self.has_counted;
            return if is_absent { EnvoyCount::Absent } else { EnvoyCount::Asking };
        };
        let stats = &sample.stats;
        match stats.active {
            // What exports its count and has none has no connection manager left.
            None if self.has_counted => EnvoyCount::Holds(0),
            None => EnvoyCount::Absent,
            Some(_) if needs_totals && !sample.before.with_totals => EnvoyCount::Asking,
            Some(_) if needs_totals && stats.total.is_none() => EnvoyCount::Absent,
            Some(active) => match active.saturating_sub(sample.allowance(idle)) {
                0 => EnvoyCount::Holds(0),
                _ if !idle.is_complete => EnvoyCount::Asking,
                holds => EnvoyCount::Holds(holds),
            },
        }
    }

    /// The gauges at a moment when no request was in flight in Envoy, nor had been for a while: all
    /// that they showed then had leaked. With how often a count had been put right before.
    pub(crate) fn leaked(&self, now: u64) -> Option<(&[u64], u64)> {
        let sample = self.fresh(now)?;
        let stats = &sample.stats;
        let still = stats.active == Some(0) && stats.total.is_some() && stats.total == self.still;
        still.then_some((&*sample.before.gauges, sample.before.heals))
    }
}

impl Sample {
    /// Requests of this sample that need not be waited for. Streams that are there after it and did
    /// not begin since it was asked for were in it. Where connection managers of the other
    /// direction are left out, so are the streams of other scopes; and each request in one that the
    /// operator ignores may be one of them.
    fn allowance(&self, after: Idle) -> u64 {
        let stayed = |side: usize| {
            let began = after.moved[side].saturating_sub(self.before.moved[side]);
            after.idle[side].saturating_sub(began)
        };
        let others = if self.stats.splits_directions { 0 } else { stayed(1) };
        stayed(0).saturating_add(others).saturating_sub(self.stats.ignored)
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Before, EnvoyCount, Idle, Stats, Witness};

    fn ask(witness: &mut Witness, at: u64, moved: u64, gauge: u64) {
        witness.ask(Before {
            at,
            moved: [moved, 0],
            gauges: vec![gauge],
            heals: 0,
            with_totals: true,
        });
    }

    fn sees(witness: &mut Witness, (at, moved, gauge): (u64, u64, u64), stats: Stats) {
        ask(witness, at, moved, gauge);
        witness.answered(at + 1, 1, Some(stats));
    }

    fn counted(active: u64, total: u64) -> Stats {
        Stats { active: Some(active), total: Some(total), ..Stats::default() }
    }

    fn idle(idle: u64, moved: u64) -> Idle {
        Idle { idle: [idle, 0], moved: [moved, 0], is_complete: true }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn takes_off_only_what_was_there_all_the_time() {
        let mut witness = Witness::default();
        sees(&mut witness, (100, 7, 0), counted(3, 9));
        assert_eq!(witness.count(110, idle(2, 7), true), EnvoyCount::Holds(1));
        assert_eq!(
            witness.count(110, idle(1, 7), true),
            EnvoyCount::Holds(2),
            "one of them has ended"
        );
        assert_eq!(
            witness.count(110, idle(2, 8), true),
            EnvoyCount::Holds(2),
            "one of them may be another"
        );
        assert_eq!(
            witness.count(110, Idle { is_complete: false, ..idle(2, 8) }, true),
            EnvoyCount::Asking
        );
        assert_eq!(witness.count(110, idle(3, 7), true), EnvoyCount::Holds(0));
        assert_eq!(witness.count(5_000, idle(2, 7), true), EnvoyCount::Asking, "too old");
        assert_eq!(
            witness.count(50, idle(3, 7), true),
            EnvoyCount::Asking,
            "a time to come is no fresh one"
        );
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn an_idle_stream_elsewhere_is_not_taken_off_here() {
        let mut witness = Witness::default();
        sees(&mut witness, (100, 7, 0), Stats { ignored: 1, ..counted(1, 9) });
        assert_eq!(
            witness.count(110, idle(1, 7), true),
            EnvoyCount::Holds(1),
            "it may be in the one that is ignored"
        );
        let outbound = Idle { idle: [0, 1], moved: [7, 0], is_complete: true };
        sees(&mut witness, (120, 7, 0), counted(1, 9));
        assert_eq!(witness.count(130, outbound, true), EnvoyCount::Holds(0));
        sees(&mut witness, (140, 7, 0), Stats { splits_directions: true, ..counted(1, 9) });
        assert_eq!(
            witness.count(150, outbound, true),
            EnvoyCount::Holds(1),
            "it is in the other direction's"
        );
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn absent_is_what_envoy_never_told() {
        let mut witness = Witness::default();
        assert!(witness.is_new());
        assert_eq!(witness.count(100, idle(0, 0), false), EnvoyCount::Asking);
        sees(&mut witness, (100, 0, 0), Stats::default());
        assert_eq!(witness.count(110, idle(0, 0), false), EnvoyCount::Absent);
        assert_eq!(witness.count(9_000, idle(0, 0), false), EnvoyCount::Absent);
        sees(&mut witness, (9_000, 0, 0), Stats { active: Some(0), ..Stats::default() });
        assert_eq!(witness.count(9_001, idle(0, 0), false), EnvoyCount::Holds(0));
        assert_eq!(
            witness.count(9_001, idle(0, 0), true),
            EnvoyCount::Absent,
            "it does not tell what began in between"
        );
        for _ in 0..9 {
            ask(&mut witness, 9_100, 0, 0);
            witness.answered(9_101, 1, None);
        }
        assert_eq!(
            witness.count(19_000, idle(0, 0), false),
            EnvoyCount::Asking,
            "it is known to export it"
        );
        assert!(!witness.is_missing());
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn leaked_is_what_stands_still_where_nothing_is() {
        let mut witness = Witness::default();
        sees(&mut witness, (100, 7, 5), counted(0, 9));
        assert_eq!(witness.leaked(110), None, "one sample is none");
        sees(&mut witness, (200, 7, 4), counted(0, 9));
        assert_eq!(witness.leaked(210), Some((&[4][..], 0)));
        sees(&mut witness, (300, 8, 4), counted(0, 10));
        assert_eq!(witness.leaked(310), None, "a request has been there");
        sees(&mut witness, (400, 8, 4), counted(1, 11));
        assert_eq!(witness.leaked(410), None);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn without_an_admin_interface_there_is_no_second_witness() {
        let mut witness = Witness::default();
        for _ in 0..3 {
            ask(&mut witness, 100, 0, 0);
            witness.answered(200, 1, None);
        }
        assert!(witness.is_missing() && witness.has_heard(99));
        assert_eq!(witness.count(300, idle(0, 0), false), EnvoyCount::Absent);
    }
}
