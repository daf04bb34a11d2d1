//! Whether one of Envoy's workers stands still, from outside: Envoy's watchdog counts each worker
//! that has not come back to its event loop for a while. Pure.
//!
//! The gate asks in rounds. In Envoy each worker replies; here the reply is given for all of them,
//! once the statistics prove that none of them stands still:
//!
//! - No miss was counted for [`Watchdog::notices_within`], at the latest when the reply is given.
//!   The quiet period is at least as long, so a worker that stood still when the last stream ended
//!   is known before the period is over. Behind the latch the same time must have passed since the
//!   latch was closed.
//! - After a miss, no mega miss followed in time, so the worker has come back.
//! - After a mega miss, and where the watchdog's statistics are missing: Envoy has flushed its
//!   statistics twice, which it does only once every worker has taken part.
//!
//! What is not proven is not replied to, and the drain's protocol takes it as a worker that is
//! late.

mod sample;
#[cfg(test)]
mod tests;

use crate::state::{Millis, Moment};
use sample::{Flushes, Misses};

pub use sample::Sample;

/// The usual time-outs of Envoy's watchdog for workers.
const MISS: Millis = Millis(200);
const MEGA_MISS: Millis = Millis(1_000);
/// The watchdog looks at each worker once per time-out, and may need three looks to count it. One
/// more is for a watchdog that is itself late, because the machine is busy.
const LOOKS: u64 = 4;
/// How old an answer may be for a reply.
const FRESH: Millis = Millis(100);
/// An answer that takes so many times as long as usual may come from an Envoy that was stopped.
const SLOW: u64 = 3;

/// The watchdog of Envoy's workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watchdog {
    /// How long a worker is away from its event loop before it is counted.
    timeout: Millis,
    /// The same until it is counted as one that stands still for long.
    long_timeout: Millis,
}

impl Watchdog {
    /// With the time-outs of Envoy's configuration for its workers, or the usual ones.
    #[must_use]
    pub fn new(miss: Option<Millis>, mega_miss: Option<Millis>) -> Self {
        let (miss, mega_miss) = (miss.unwrap_or(MISS), mega_miss.unwrap_or(MEGA_MISS));
        Self { timeout: miss.min(mega_miss), long_timeout: miss.max(mega_miss) }
    }

    /// How long it may take until a worker that stands still is noticed.
    #[must_use]
    pub fn notices_within(self) -> Millis {
        self.timeout * LOOKS + FRESH
    }
}

/// A request to all workers that has no reply.
#[derive(Debug, Clone, Copy)]
struct Asked {
    at: Moment,
    flushes: Flushes,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Workers {
    /// None: Envoy has not told its configuration.
    pub watchdog: Option<Watchdog>,
    last: Option<Sample>,
    /// How long an answer usually takes.
    usual: Millis,
    /// The time since which no worker was seen to stand still; none after a miss.
    calm_since: Option<Moment>,
    /// When the last miss was seen, unless one was long.
    missed_at: Option<Moment>,
    /// Flushes since the last miss.
    since_miss: Flushes,
    /// When the latch was last closed.
    latched_at: Option<Moment>,
    asked: Vec<Asked>,
}

impl Workers {
    /// Notes a request to all workers. Returns the number of requests that have a reply now.
    pub fn ask(&mut self, at: Moment) -> usize {
        self.asked.push(Asked { at, flushes: Flushes::default() });
        self.last.map_or(0, |last| self.reply(last.began))
    }

    /// Whether a request has no reply.
    #[must_use]
    pub fn awaits_reply(&self) -> bool {
        !self.asked.is_empty()
    }

    /// The time from which on an answer gives replies, unless a miss is seen before.
    #[must_use]
    pub fn reply_is_due(&self) -> Option<Moment> {
        let (watchdog, calm, asked) = (self.watchdog?, self.calm_since?, self.asked.last()?);
        let latched_at = self.latched_at.filter(|at| asked.at >= *at);
        Some(latched_at.map_or(calm, |at| at.max(calm)) + watchdog.timeout * LOOKS)
    }

    /// How long an answer usually takes.
    #[must_use]
    pub fn usual(&self) -> Millis {
        self.usual
    }

    /// Envoy has closed the latch.
    pub fn latch_has_closed(&mut self, now: Moment) {
        self.latched_at = Some(now);
    }

    /// A question got no answer, so Envoy may have been stopped meanwhile.
    pub fn answer_is_missing(&mut self, now: Moment) {
        self.calm_since = self.calm_since.and(Some(now));
    }

    /// Whether the statistics show a worker that stands still.
    #[must_use]
    pub fn has_watchdog(&self) -> bool {
        self.watchdog.is_some() && self.last.is_some_and(|last| last.misses.is_some())
    }

    /// Takes Envoy's next answer. Returns the number of requests, the oldest first, that have a
    /// reply now; none if Envoy has begun anew.
    pub fn add(&mut self, mut sample: Sample) -> Option<usize> {
        if sample.used_only {
            // Names that an earlier answer had are zero.
            sample.misses = self.last.and_then(|last| last.misses).and(sample.misses);
        }
        if let Some(last) = self.last.as_ref() {
            if sample.began < last.began {
                return Some(0); // a newer one was answered first
            }
            if sample.is_of_another_process(last) {
                // Of two questions that were under way together either may be answered first.
                return (sample.began < last.ended).then_some(0);
            }
        }
        self.look_for_misses(&sample);
        self.last = Some(sample);
        for asked in self.asked.iter_mut().filter(|asked| asked.at <= sample.began) {
            asked.flushes.add(&sample);
        }
        Some(self.reply(sample.began))
    }

    /// Counts the requests that have a reply by an answer to a query of then, and forgets them.
    fn reply(&mut self, began: Moment) -> usize {
        let is_calm = self.is_calm(began);
        let latched_at = self.latched_at.zip(self.watchdog);
        let has_reply = |asked: &&Asked| {
            let is_latched = latched_at.is_some_and(|(at, watchdog)| {
                asked.at >= at && began < at + watchdog.timeout * LOOKS
            });
            asked.flushes.prove() || is_calm && asked.at <= began + FRESH && !is_latched
        };
        let count = self.asked.iter().take_while(has_reply).count();
        self.asked.drain(..count);
        count
    }

    fn look_for_misses(&mut self, sample: &Sample) {
        // A miss from before the first answer may be of a worker that still stands still.
        let before = self.last.map_or(Some(Misses::default()), |last| last.misses);
        let changes =
            sample.misses.zip(before).map(|(now, then)| (now != then, now.long > then.long));
        let is_first = self.last.is_none();
        let is_slow = self.is_slow(sample);
        match changes {
            Some((false, _)) if is_first => self.calm_since = Some(sample.began),
            Some((false, _)) if is_slow && self.calm_since.is_some() => {
                self.calm_since = Some(sample.ended)
            }
            Some((false, _)) => {}
            Some((true, false)) if !is_first => {
                let was_short = self.calm_since.take().or(self.missed_at).is_some();
                self.missed_at = was_short.then_some(sample.ended);
                self.since_miss = Flushes::default();
            }
            _ => (self.calm_since, self.missed_at, self.since_miss) = Default::default(),
        }
        self.since_miss.add(sample);
        let is_back = self.missed_at.zip(self.watchdog).is_some_and(|(at, watchdog)| {
            sample.began >= at + watchdog.long_timeout + watchdog.timeout * (LOOKS - 1)
        });
        if self.calm_since.is_none() && sample.misses.is_some() {
            let proven = is_back || self.since_miss.prove();
            self.calm_since = proven.then(|| self.missed_at.take().unwrap_or(sample.began));
        }
    }

    fn is_slow(&mut self, sample: &Sample) -> bool {
        let took = sample.ended - sample.began;
        if self.last.is_none() || took < self.usual {
            self.usual = took;
        }
        let timeout = self.watchdog.map_or(MISS, |own| own.timeout);
        let is_slow = sample.waited > (self.usual * SLOW).max(Millis(timeout.0 / 2));
        self.usual = Millis((self.usual.0 * 7 + took.0) / 8);
        is_slow
    }

    /// Whether no worker was seen to stand still of late.
    #[must_use]
    pub fn are_calm(&self) -> bool {
        self.calm_since.is_some()
    }

    fn is_calm(&self, at: Moment) -> bool {
        let calm = self.calm_since.zip(self.watchdog);
        calm.is_some_and(|(since, watchdog)| at >= since + watchdog.timeout * LOOKS)
    }
}
