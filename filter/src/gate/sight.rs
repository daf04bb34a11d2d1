//! What the gate sees: its counters, their keepers, and what Envoy itself counts.

use super::census::Result as Counted;
use super::machine::{App, Phase, Record, Sight, Trust};
use super::record::read_record;
use super::root::{Call, Gate};
use super::stats::{self, Stats};
use super::witness::Before;
use crate::host::{Control, Metric};

/// Envoy's own counts, and the app, are asked for so often at most: in each tick, also one that comes a little early.
const EVERY: u64 = 50;
/// The same of Envoy's own counts while they can only confirm: for each answer Envoy goes through all its statistics.
const SELDOM: u64 = 500;
/// Who has counted for so long has missed no stream that is still there; where Envoy can be asked, it is asked before.
const LONGEST_STREAM: u64 = 60_000;

impl Gate {
    pub(super) fn begun(&self, host: &impl Control) -> u64 {
        self.metrics.scopes.iter().map(|(_, [_, _, begun])| host.value(*begun).unwrap_or_default()).sum()
    }

    /// In flight is read first, begun last; see `stream::Stream::count`. More than there can be is an error of accounting, not zero.
    pub(super) fn holding(&self, host: &impl Control) -> u64 {
        let value = |metric: Metric| host.value(metric).unwrap_or(u64::MAX);
        let one = |[in_flight, long_lived, ..]: &[Metric; 3]| {
            let all = value(*in_flight);
            if self.policy.exempts { all.saturating_sub(value(*long_lived)) } else { all }
        };
        self.metrics.scopes.iter().map(|(_, metrics)| one(metrics)).fold(0, u64::saturating_add)
    }

    /// Streams ever begun, counted or not, waited for or not.
    pub(super) fn moved(&self, host: &impl Control) -> u64 {
        self.metrics.everywhere.iter().map(|counter| host.value(*counter).unwrap_or_default()).fold(0, u64::saturating_add)
    }

    /// Streams in flight that need not be waited for.
    pub(super) fn idle(&self, counted: &Counted) -> u64 {
        counted.elsewhere + counted.excluded + if self.policy.exempts { counted.long } else { 0 }
    }

    pub(super) fn sight(&self, host: &impl Control, now: u64, counted: &Counted) -> Sight {
        let holding = self.holding(host);
        let begun = self.begun(host);
        let stats = self.witness.stats(now);
        let active = self.witness.active(now, self.moved(host), self.idle(counted));
        let trust = self.trust(now, counted, holding, active);
        let app = self.app(host);
        let total = stats.and_then(|(_, stats)| stats.total).filter(|_| trust != Trust::Exact).unwrap_or_default();
        Sight {
            trust,
            seen: stats.map_or(counted.seen, |(at, _)| at.min(counted.seen)).min(app.map_or(u64::MAX, |(asked, _)| asked)),
            holding,
            living: counted.living,
            begun: begun.saturating_add(total),
            active,
            buffered: stats.and_then(|(_, stats)| stats.buffered),
            app: app.map_or(App::Asking, |(_, app)| app),
        }
    }

    /// Counters that all answer may have come too late for streams that were there before, or stand in listeners that were replaced by
    /// others without them. When there is that doubt, Envoy must show that it has no stream that they do not know.
    pub(super) fn trust(&self, now: u64, counted: &Counted, holding: u64, active: Option<u64>) -> Trust {
        if counted.trust != Trust::Exact || holding > 0 {
            return counted.trust;
        }
        match self.doubts(now, counted) {
            None => Trust::Asking,
            Some(true) if active != Some(0) => Trust::Partial,
            Some(_) => Trust::Exact,
        }
    }

    /// Whether there may be streams that those who count do not know; none until Envoy has answered.
    fn doubts(&self, now: u64, counted: &Counted) -> Option<bool> {
        let young = now.saturating_sub(counted.since) < LONGEST_STREAM && self.cleared != Some(counted.since);
        let Some((_, stats)) = self.witness.stats(now) else { return self.witness.is_missing().then_some(young) };
        // One for each worker and the main thread; a VM that never came to enter itself may be dead.
        let each = stats.workers.unwrap_or(0) + 1;
        let missing = counted.members < each.saturating_mul(self.policy.scopes.len() as u64);
        let replaced = stats.draining.map_or(stats.active.and(stats.total).is_some(), |draining| draining > 0);
        Some(young || missing || replaced)
    }

    /// Whether nothing but the end of the quiet period is waited for, so that what Envoy counts decides only then.
    fn is_calm(&self, record: &Record, now: u64, counted: &Counted) -> bool {
        let quiet = self.quiet_ends(record).is_some_and(|end| now < end);
        quiet && counted.trust == Trust::Exact && self.doubts(now, counted) == Some(false) && !self.waiting.presses()
    }

    /// Whether who was asked then is asked again: every so often, and once more when the quiet period ends.
    fn is_due(&self, record: &Record, now: u64, asked: u64, every: u64) -> bool {
        let decides = self.quiet_ends(record).is_some_and(|end| asked < end && end <= now);
        decides || now.saturating_sub(asked) >= every
    }

    /// Asks Envoy what it counts, when that matters.
    pub(super) fn seek_witness(&mut self, host: &impl Control, now: u64, counted: &Counted) {
        let record = read_record(host);
        let wanted = record.phase == Phase::Draining || self.waiting.presses();
        let matters = wanted && (counted.trust != Trust::Exact || self.holding(host) == 0);
        let every = if self.is_calm(&record, now, counted) { SELDOM } else { EVERY };
        if !matters || !self.is_due(&record, now, self.stats_asked, every) || self.asks_envoy() {
            return;
        }
        self.stats_asked = now;
        self.heals_before = read_record(host).heals;
        let gauges = self.metrics.gauges.iter().map(|gauge| host.value(*gauge).unwrap_or_default()).collect();
        self.witness.ask(Before { at: now, moved: self.moved(host), idle: self.idle(counted), gauges });
        match self.call(host, &self.policy.admin, "GET", stats::PATH) {
            Some(number) => self.calls.push((number, Call::Stats)),
            None => self.witness.answered(None),
        }
    }

    pub(super) fn asks_envoy(&self) -> bool {
        self.calls.iter().any(|(_, call)| *call == Call::Stats)
    }

    /// What Envoy counts is here.
    pub(super) fn testified(&mut self, host: &impl Control, stats: Option<Stats>) {
        self.witness.answered(stats);
        let now = host.now();
        let counted = self.census.result(host, &self.policy.scopes);
        let active = self.witness.active(now, self.moved(host), self.idle(&counted));
        if counted.trust == Trust::Exact && active == Some(0) && stats.is_some_and(|stats| stats.draining.unwrap_or(0) == 0) {
            self.cleared = Some(counted.since);
        }
        self.look_again(host);
    }

    /// What this drain's last answer of the app says; one to an earlier drain says nothing.
    fn app(&self, host: &impl Control) -> Option<(u64, App)> {
        self.app.filter(|(asked, _)| *asked >= read_record(host).began)
    }

    /// Asks the app whether it is there.
    pub(super) fn seek_app(&mut self, host: &impl Control, now: u64) {
        let record = read_record(host);
        if record.phase != Phase::Draining {
            return;
        }
        if let Some(app) = &self.policy.app
            && !self.calls.iter().any(|(_, other)| *other == Call::App)
            && self.is_due(&record, now, self.app_asked, EVERY)
        {
            self.app_asked = now;
            match self.call(host, &app.cluster, "GET", &app.path) {
                Some(number) => self.calls.push((number, Call::App)),
                None => self.app = Some((now, App::Unreachable)),
            }
        }
    }
}
