//! When one worker's gate queries Envoy and the app, asks the counters, and ticks. Pure.

use crate::messages::LatchCheck;
use crate::phase::Phase;
use crate::policy::Policy;
use crate::record::Record;
use crate::samples::EnvoySamples;
use crate::timing::{QUERY_INTERVAL, SHORT_TICK, TICK, TICK_WHEN_OPEN};
use crate::waiting::{Needs, Waiting, WaitsFor};

/// The state of one worker's gate that decides what is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule<'g> {
    pub(crate) policy: &'g Policy,
    pub(crate) record: &'g Record,
    pub(crate) samples: &'g EnvoySamples,
    pub(crate) waiting: &'g Waiting,
    /// The answers that a signal behind the latch waits for.
    pub(crate) latched: Option<Needs>,
    pub(crate) is_latch_held: bool,
    pub(crate) is_healing: bool,
}

/// Whether Envoy's own count is queried now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatsQuery {
    Due,
    /// Due if no stream holds the drain by the filter's own count; otherwise Envoy's count cannot
    /// open the gate.
    DueIfNothingHolds,
    NotDue,
}

impl Schedule<'_> {
    /// Whether Envoy's own count is queried now. With `needs_totals`, the filter's count cannot be
    /// believed: Envoy's count, which then also shows whether a request began, is needed all the
    /// time.
    pub(crate) fn stats_query(&self, now: u64, needs_totals: bool) -> StatsQuery {
        let is_fresh = self.samples.stats(now).is_some();
        let is_early = now.saturating_sub(self.samples.queried_at) < QUERY_INTERVAL;
        // An answer that became too old before the counters' replies came is queried again.
        let is_due = |query: u64| !self.samples.has_begun(query) || !is_fresh && !is_early;
        if self.latched.is_some_and(|needs| is_due(needs.query)) {
            return StatsQuery::Due;
        }
        // A signal needs the next query for itself, once the latch is closed. A count that is still
        // valid is enough to try.
        let is_reserved =
            self.record.awaits_finish_call(self.policy) || self.waiting.has_untried_signal();
        if is_reserved && is_fresh {
            return StatsQuery::NotDue;
        }
        if self.waiting.wanted_query().is_some_and(|query| query > 0 && is_due(query)) {
            return StatsQuery::Due;
        }
        let needs_fresh_counts = self.waiting.needs_fresh_counts() || self.is_healing;
        if is_early || !needs_fresh_counts && !self.may_open_next(now, needs_totals) {
            StatsQuery::NotDue
        } else if needs_totals || needs_fresh_counts && self.samples.is_new() {
            StatsQuery::Due
        } else {
            StatsQuery::DueIfNothingHolds
        }
    }

    /// Whether Envoy's count can open the gate now. It cannot before the quiet period ends.
    fn may_open_next(&self, now: u64, needs_totals: bool) -> bool {
        match self.record.phase {
            Phase::Draining => {
                needs_totals || self.quiet_period_end().is_some_and(|end| end <= now)
            }
            Phase::Drained => {
                self.waiting.any(WaitsFor::Opening) || self.record.awaits_finish_call(self.policy)
            }
            Phase::Serving | Phase::Expired | Phase::Forced => false,
        }
    }

    /// Whether the app is asked now: at intervals, and once more when the quiet period ends.
    pub(crate) fn is_app_query_due(&self, now: u64, asked_at: u64) -> bool {
        let decides = || self.quiet_period_end().is_some_and(|end| asked_at < end && end <= now);
        self.record.phase.is_draining()
            && (now.saturating_sub(asked_at) >= QUERY_INTERVAL || decides())
    }

    /// The check of the latch that the counters are asked for. Streams check it only when it may be
    /// closed, because each check costs a read.
    pub(crate) fn latch_check(&self, is_sealed: bool) -> LatchCheck {
        if is_sealed {
            LatchCheck::Always
        } else if self.waiting.any(WaitsFor::Signal)
            || self.latched.is_some()
            || self.is_latch_held
            || self.record.phase != Phase::Serving
        {
            LatchCheck::ForAWhile
        } else {
            LatchCheck::Off
        }
    }

    /// Streams that are older than this are long-lived, by `long_lived_after_ms`.
    pub(crate) fn long_lived_before(&self) -> u64 {
        let age = self.policy.long_lived_after.filter(|_| self.record.phase.is_draining());
        age.map_or(0, |age| self.record.began.saturating_sub(age))
    }

    /// The tick period, or 0 if there is nothing to do. The last tick of the quiet period is
    /// shorter, so that the gate does not miss its end by a tick.
    pub(crate) fn tick_period(&self, now: u64) -> u64 {
        if self.waiting.needs_fresh_counts()
            || self.latched.is_some()
            || self.record.awaits_finish_call(self.policy)
        {
            SHORT_TICK
        } else if let Some(end) = self.quiet_period_end() {
            end.saturating_sub(now).clamp(SHORT_TICK, TICK)
        } else if self.record.phase == Phase::Draining
            || !self.waiting.is_empty()
            || self.is_latch_held
            || self.is_healing
        {
            TICK
        } else if self.record.phase != Phase::Serving {
            TICK_WHEN_OPEN
        } else {
            0
        }
    }

    /// The end of the quiet period, if no stream begins.
    fn quiet_period_end(&self) -> Option<u64> {
        (self.record.phase == Phase::Draining && self.record.quiet_since > 0)
            .then_some(self.record.quiet_since + self.policy.quiet)
    }
}
