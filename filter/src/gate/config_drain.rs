//! Drains of Envoy's configuration: when a listener or a filter chain is replaced, Envoy closes the
//! streams on it after its drain time. A filter cannot tell which of its streams those are; it
//! only knows when each began.
//!
//! The gates of all workers share one text. One of them queries Envoy at a time.

use crate::host::Control;
use crate::parse;
use crate::shared_text::{self, SharedText, after_version, numbers_to_text};

/// The path of the query for the gauges of draining filter chains and listeners.
pub(super) const DRAINING: &str = concat!(
    "/stats?type=Gauges&filter=",
    "%5Elistener_manager%5C.total_%28filter_chains%7Clisteners%29_draining$"
);

/// The shared data key.
const KEY: &str = "laststream.config_drain";
/// The version of the text, which all later versions of the module keep. A new value gets a key of
/// its own, because the gates of two versions run side by side while the module is replaced.
const VERSION: &str = "1";
/// The interval between two queries; milliseconds. It is shorter than a tick, because a tick can
/// come a little early.
const INTERVAL: u64 = 950;
/// If something still drains this long after a change's drain time, a later change is the cause;
/// milliseconds.
const SLACK: u64 = 5_000;
/// The most changes that are recorded at a time.
const MOST_CHANGES: usize = 16;

/// The changes that the gates of all workers know of. Times are milliseconds of Envoy's clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ConfigDrain {
    /// The beginning of the last query.
    asked_at: u64,
    /// The beginning of the last query that was answered.
    known_at: u64,
    /// Listeners and filter chains that drained at `known_at`; none if Envoy does not export their
    /// number.
    draining: Option<u64>,
    /// For each change, the beginning of the last query before it, the oldest first. A stream that
    /// began earlier is older than the change.
    changes: Vec<u64>,
}

/// The drain of Envoy's configuration at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Draining {
    /// Nothing drains.
    Nothing,
    /// Envoy does not export what drains.
    NotExported,
    /// The gate has not seen the drain begin, so no stream is known to be older.
    SinceUnknown,
    /// Streams that began before `moment` may be closed in `left` milliseconds.
    Since { moment: u64, left: u64 },
}

impl Draining {
    /// Streams that began before this moment are older than the change; 0 if the moment is not
    /// known.
    pub(super) fn moment(self) -> u64 {
        if let Self::Since { moment, .. } = self { moment } else { 0 }
    }
}

/// The change that an answer of Envoy has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transition {
    None,
    /// A listener or filter chain was replaced.
    Changed,
    /// Something drains, and the gate has not seen the beginning.
    FoundDraining,
    /// Nothing drains any more.
    Ended,
    /// Envoy does not export the statistics.
    NotExported,
}

impl SharedText for ConfigDrain {
    fn parse(text: &str) -> Option<Self> {
        let mut words = after_version(text, VERSION)?.split(' ');
        let [asked_at, known_at, is_exported, draining] = parse::numbers(&mut words)?;
        let draining = (is_exported == 1).then_some(draining);
        let changes = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        Some(Self { asked_at, known_at, draining, changes })
    }

    fn to_text(&self) -> String {
        let Self { asked_at, known_at, draining, changes } = self;
        let (is_exported, draining) = draining.map_or((0, 0), |draining| (1, draining));
        let mut numbers = vec![*asked_at, *known_at, is_exported, draining];
        numbers.extend_from_slice(changes);
        numbers_to_text(VERSION, &numbers)
    }
}

impl ConfigDrain {
    fn claim(&mut self, now: u64) -> bool {
        let is_due = now >= self.asked_at.saturating_add(INTERVAL);
        if is_due {
            self.asked_at = now;
        }
        is_due
    }

    /// Records Envoy's answer to the query that began at `at`. The answers to several workers may
    /// arrive in another order than the queries began.
    pub(super) fn observe(
        &mut self,
        at: u64,
        draining: Option<u64>,
        drain_time: u64,
    ) -> Transition {
        if at < self.known_at || at == 0 {
            return Transition::None;
        }
        let is_first = self.known_at == 0;
        let earlier = core::mem::replace(&mut self.draining, draining);
        let known_at = core::mem::replace(&mut self.known_at, at);
        self.asked_at = self.asked_at.max(at);
        let Some(draining) = draining else {
            self.changes.clear();
            let is_news = is_first || earlier.is_some();
            return if is_news { Transition::NotExported } else { Transition::None };
        };
        let over = drain_time.saturating_add(SLACK);
        self.changes.retain(|moment| at < moment.saturating_add(over));
        match earlier {
            _ if draining == 0 => {
                self.changes.clear();
                let has_ended = earlier.is_some_and(|earlier| earlier > 0);
                if has_ended { Transition::Ended } else { Transition::None }
            }
            None => Transition::FoundDraining,
            Some(earlier) if draining > earlier => {
                if self.changes.len() < MOST_CHANGES {
                    self.changes.push(known_at);
                }
                Transition::Changed
            }
            Some(_) => Transition::None,
        }
    }

    /// The change whose streams are closed next.
    pub(super) fn at(&self, now: u64, drain_time: u64) -> Draining {
        let left = |moment: u64| moment.saturating_add(drain_time).saturating_sub(now);
        match self.draining {
            None if self.known_at > 0 => Draining::NotExported,
            None | Some(0) => Draining::Nothing,
            // Envoy's statistics show late that a change is over. Meanwhile the next change is
            // returned.
            Some(_) => match self.unclosed(now, drain_time).first().or(self.changes.last()) {
                Some(moment) => Draining::Since { moment: *moment, left: left(*moment) },
                None => Draining::SinceUnknown,
            },
        }
    }

    /// The changes whose streams Envoy has not closed yet, by their moments, the oldest first.
    pub(super) fn unclosed(&self, now: u64, drain_time: u64) -> &[u64] {
        let is_over = |moment: &u64| moment.saturating_add(drain_time) <= now;
        &self.changes[self.changes.partition_point(is_over)..]
    }

    /// The moment of the newest change; 0 if none is known.
    pub(super) fn newest(&self) -> u64 {
        self.changes.last().copied().unwrap_or_default()
    }

    pub(super) fn read(host: &impl Control) -> Self {
        shared_text::read(host, KEY)
    }

    /// Claims the next query to Envoy for this worker, if it is due.
    pub(super) fn claim_query(host: &impl Control) -> bool {
        let now = host.monotonic_time();
        shared_text::claim(host, KEY, &mut |known: &mut Self| known.claim(now))
    }

    /// Records Envoy's answer to the query that began at `at`, for all workers.
    pub(super) fn record(
        host: &impl Control,
        at: u64,
        draining: Option<u64>,
        drain_time: u64,
    ) -> Transition {
        let mut transition = Transition::None;
        let is_changed = shared_text::update(host, KEY, &mut |known: &mut Self| {
            transition = known.observe(at, draining, drain_time);
        });
        if is_changed { transition } else { Transition::None }
    }
}

#[cfg(test)]
#[path = "config_drain_tests.rs"]
mod tests;
