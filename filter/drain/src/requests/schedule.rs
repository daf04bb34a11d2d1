//! When one worker's gate queries Envoy and the app, asks the counters, and ticks. Pure.

use super::waiting::{Needs, Waiting};
use crate::counts::{EnvoySamples, LatchCheck, Survey};
use crate::state::timing::{QUERY_INTERVAL, REPLY_TIMEOUT, SHORT_TICK, TICK, TICK_WHEN_OPEN};
use crate::state::{DrainPolicy, Millis, Moment, Phase, Record};

/// The state of one worker's gate that decides what is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule<'g> {
    pub(crate) policy: &'g DrainPolicy,
    pub(crate) record: &'g Record,
    pub(crate) samples: &'g EnvoySamples,
    pub(crate) waiting: &'g Waiting,
    /// The answers that a signal behind the latch waits for.
    pub(crate) latched: Option<Needs>,
    pub(crate) is_latch_held: bool,
    pub(crate) is_healing: bool,
    /// Whether this gate asks for all.
    pub(crate) leads: bool,
    /// Whether Istio's agent does not forbid the last call.
    pub(crate) may_finish: bool,
    /// Whether refusals of Istio's agent are being counted.
    pub(crate) doubts_agent: bool,
    /// Whether routes may refuse requests that nobody wants refused.
    pub(crate) opens_routes: bool,
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
    /// Whether this gate asks for the end of the drain: it leads, or a hook needs answers that are
    /// newer than its request.
    fn drives_drain(&self) -> bool {
        self.leads || self.waiting.any_hook()
    }

    /// Whether this gate is about to make the last call.
    fn makes_last_call(&self) -> bool {
        self.leads && self.may_finish && self.record.awaits_finish_call(self.policy)
    }

    /// Whether Envoy's own count is queried now. With `needs_totals`, the filter's count cannot be
    /// believed: Envoy's count, which then also shows whether a request began, is needed all the
    /// time.
    pub(crate) fn stats_query(
        &self,
        now: Moment,
        survey: &Survey,
        needs_totals: bool,
    ) -> StatsQuery {
        let is_fresh = self.samples.stats(now).is_some();
        let is_early = now - self.samples.queried_at < QUERY_INTERVAL;
        // An answer that became too old before the counters' replies came is queried again.
        let is_due = |query: u64| !self.samples.has_begun(query) || !is_fresh && !is_early;
        if let Some(needs) = self.latched {
            // Every worker must have replied before the query begins: see `known_until`.
            let is_next = survey.completed_round >= needs.round && needs.query.is_some_and(is_due);
            return if is_next { StatsQuery::Due } else { StatsQuery::NotDue };
        }
        // A signal needs the next query for itself, once the latch is closed. A count that is still
        // valid is enough to try.
        if is_fresh && (self.makes_last_call() || self.waiting.has_untried_signal()) {
            return StatsQuery::NotDue;
        }
        if self.waiting.wanted_query().is_some_and(is_due) {
            return StatsQuery::Due;
        }
        let needs_fresh_counts = self.waiting.needs_fresh_counts() || self.is_healing;
        if is_early || !needs_fresh_counts && !self.may_open_next(now, survey, needs_totals) {
            StatsQuery::NotDue
        } else if needs_totals || needs_fresh_counts && self.samples.is_new() {
            StatsQuery::Due
        } else {
            StatsQuery::DueIfNothingHolds
        }
    }

    /// Whether Envoy's count can open the gate now. It cannot before the quiet period ends, nor
    /// before every worker has replied since.
    fn may_open_next(&self, now: Moment, survey: &Survey, needs_totals: bool) -> bool {
        let is_alive_at = |end: Moment| survey.alive_until.is_none_or(|until| until >= end);
        self.drives_drain()
            && match self.record.phase {
                Phase::Draining => {
                    // The first answer shows how long the next one takes.
                    let is_over = |end| end <= now && is_alive_at(end);
                    needs_totals
                        || self.samples.is_new()
                        || self.quiet_period_end().is_some_and(is_over)
                }
                Phase::Drained => {
                    self.waiting.any_hook() || self.record.awaits_finish_call(self.policy)
                }
                Phase::Serving | Phase::Expired | Phase::Forced => false,
            }
    }

    /// Whether the app is asked now: at intervals, and once more when the quiet period ends.
    pub(crate) fn is_app_query_due(&self, now: Moment, asked_at: Moment) -> bool {
        let decides = || self.quiet_period_end().is_some_and(|end| asked_at < end && end <= now);
        self.drives_drain()
            && self.record.phase.is_draining()
            && (now - asked_at >= QUERY_INTERVAL || decides())
    }

    /// The check of the latch that the counters are asked for. Streams check it only when it may be
    /// closed, because each check costs a read.
    pub(crate) fn latch_check(&self, is_sealed: bool) -> LatchCheck {
        if is_sealed {
            LatchCheck::Always
        } else if !self.waiting.signals.is_empty()
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
    pub(crate) fn long_lived_before(&self) -> Option<Moment> {
        let age = self.policy.long_lived_after.filter(|_| self.record.phase.is_draining());
        age.map(|age| self.record.began - age)
    }

    /// Whether a tick asks the counters.
    pub(crate) fn asks_on_ticks(&self) -> bool {
        self.record.phase != Phase::Serving && self.leads
            || self.waiting.any()
            || self.latched.is_some()
            || self.is_latch_held
            || self.is_healing
    }

    /// The tick period; none if there is nothing to do. The last tick of the quiet period is
    /// shorter, so that the gate does not miss its end by a tick.
    pub(crate) fn tick_period(&self, now: Moment) -> Option<Millis> {
        let drives = self.drives_drain();
        let quiet_end = self.quiet_period_end().filter(|end| drives && now < *end + REPLY_TIMEOUT);
        if self.waiting.needs_fresh_counts() || self.latched.is_some() || self.makes_last_call() {
            Some(SHORT_TICK)
        } else if let Some(end) = quiet_end {
            Some((end - now).clamp(SHORT_TICK, TICK))
        } else if self.record.phase == Phase::Draining && drives
            || self.waiting.any()
            || self.is_latch_held
            || self.is_healing
            || self.doubts_agent
            || self.opens_routes
        {
            Some(TICK)
        } else {
            (self.record.phase != Phase::Serving).then_some(TICK_WHEN_OPEN)
        }
    }

    /// The end of the quiet period, if no stream begins.
    fn quiet_period_end(&self) -> Option<Moment> {
        let since = self.record.quiet_since.filter(|_| self.record.phase == Phase::Draining)?;
        Some(since + self.policy.quiet)
    }
}
