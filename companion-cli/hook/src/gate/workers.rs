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

use laststream_drain::state::{Millis, Moment};
use serde_json::Value;

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
pub(super) struct Watchdog {
    /// How long a worker is away from its event loop before it is counted.
    timeout: Millis,
    /// The same until it is counted as one that stands still for long.
    long_timeout: Millis,
}

impl Watchdog {
    /// From the answer to [`super::native::CONFIGURATION`]; none if that is not Envoy's.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let dump: Value = serde_json::from_slice(body).ok()?;
        let first = dump.pointer("/configs/0")?;
        first
            .get("@type")?
            .as_str()?
            .ends_with("envoy.admin.v3.BootstrapConfigDump")
            .then_some(())?;
        let time = |name: &str| {
            ["watchdogs/worker_watchdog", "watchdog"].iter().find_map(|place| {
                let text = first.pointer(&format!("/bootstrap/{place}/{name}"))?.as_str()?;
                let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
                Some(Millis((seconds * 1_000.0).ceil() as u64))
            })
        };
        let [miss, mega_miss] = [("miss_timeout", MISS), ("megamiss_timeout", MEGA_MISS)]
            .map(|(name, usual)| time(name).unwrap_or(usual));
        Some(Self { timeout: miss.min(mega_miss), long_timeout: miss.max(mega_miss) })
    }

    /// How long it may take until a worker that stands still is noticed.
    pub(super) fn notices_within(self) -> Millis {
        self.timeout * LOOKS + FRESH
    }
}

/// How often workers were away from their event loops, and for long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Misses {
    all: u64,
    long: u64,
}

/// What one answer of Envoy shows of its workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// When Envoy was asked, and when it had answered.
    pub(super) began: Moment,
    pub(super) ended: Moment,
    /// How long the oldest question in flight had waited then; that may be an earlier one.
    pub(super) waited: Millis,
    /// Misses of all workers; none if the statistics are not all there.
    misses: Option<Misses>,
    /// Whether Envoy has left out what was never written.
    used_only: bool,
    /// Seconds, from the last flush of statistics.
    uptime: Option<u64>,
    /// Requests to the admin interface, of which this is the last.
    asked: Option<u64>,
}

impl Sample {
    /// None: this is not Envoy's answer.
    pub(super) fn parse(began: Moment, ended: Moment, body: &str, used_only: bool) -> Option<Self> {
        let (mut workers, mut names, mut uptime, mut asked) = (None, 0, None, None);
        let mut misses = Misses::default();
        for (name, value) in body.lines().filter_map(|line| line.rsplit_once(": ")) {
            let Ok(value) = value.trim_ascii().parse::<u64>() else { continue };
            match name {
                "server.concurrency" => workers = Some(value),
                "server.uptime" => uptime = Some(value),
                "http.admin.downstream_rq_total" => asked = Some(value),
                _ if name.starts_with("server.worker_") => {
                    names += 1;
                    misses.all += value;
                    misses.long += if name.ends_with("mega_miss") { value } else { 0 };
                }
                _ => {}
            }
        }
        let is_whole = names == 2 * workers.filter(|workers| *workers > 0)?;
        let misses = (is_whole || used_only).then_some(misses);
        Some(Self { began, ended, waited: ended - began, misses, used_only, uptime, asked })
    }

    /// Whether the process that gave this answer is not the one that gave the earlier one. Its
    /// counters never decrease, and each question is one more. The uptime follows the wall clock,
    /// which may be set back: it counts only where a new process can be as young.
    fn is_of_another_process(&self, earlier: &Self) -> bool {
        let both = |now: Option<u64>, then: Option<u64>| now.zip(then);
        let misses = both(self.misses.map(|own| own.all), earlier.misses.map(|own| own.all));
        let is_younger = both(self.uptime, earlier.uptime).is_some_and(|(now, then)| {
            now < then && now <= (self.ended - earlier.began).0.div_ceil(1_000)
        });
        misses.is_some_and(|(now, then)| now < then)
            || both(self.asked, earlier.asked).map_or(is_younger, |(now, then)| now <= then)
    }
}

/// Counts flushes from one moment on. The second began after that moment, because flushes do not
/// overlap.
#[derive(Debug, Clone, Copy, Default)]
struct Flushes {
    uptime: Option<u64>,
    count: u32,
}

impl Flushes {
    fn add(&mut self, sample: &Sample) {
        let Some(uptime) = sample.uptime else { return };
        self.count += u32::from(self.uptime.replace(uptime).is_some_and(|before| before != uptime));
    }

    fn prove(&self) -> bool {
        self.count >= 2
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
pub(super) struct Workers {
    pub(super) watchdog: Option<Watchdog>,
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
    pub(super) fn ask(&mut self, at: Moment) -> usize {
        self.asked.push(Asked { at, flushes: Flushes::default() });
        self.last.map_or(0, |last| self.reply(last.began))
    }

    pub(super) fn awaits_reply(&self) -> bool {
        !self.asked.is_empty()
    }

    /// The time from which on an answer gives replies, unless a miss is seen before.
    pub(super) fn reply_is_due(&self) -> Option<Moment> {
        let (watchdog, calm, asked) = (self.watchdog?, self.calm_since?, self.asked.last()?);
        let latched_at = self.latched_at.filter(|at| asked.at >= *at);
        Some(latched_at.map_or(calm, |at| at.max(calm)) + watchdog.timeout * LOOKS)
    }

    /// How long an answer usually takes.
    pub(super) fn usual(&self) -> Millis {
        self.usual
    }

    pub(super) fn latch_has_closed(&mut self, now: Moment) {
        self.latched_at = Some(now);
    }

    /// A question got no answer, so Envoy may have been stopped meanwhile.
    pub(super) fn answer_is_missing(&mut self, now: Moment) {
        self.calm_since = self.calm_since.and(Some(now));
    }

    /// Whether the statistics show a worker that stands still.
    pub(super) fn has_watchdog(&self) -> bool {
        self.watchdog.is_some() && self.last.is_some_and(|last| last.misses.is_some())
    }

    /// Takes Envoy's next answer. Returns the number of requests, the oldest first, that have a
    /// reply now; none if Envoy has begun anew.
    pub(super) fn add(&mut self, mut sample: Sample) -> Option<usize> {
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

    pub(super) fn are_calm(&self) -> bool {
        self.calm_since.is_some()
    }

    fn is_calm(&self, at: Moment) -> bool {
        let calm = self.calm_since.zip(self.watchdog);
        calm.is_some_and(|(since, watchdog)| at >= since + watchdog.timeout * LOOKS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCHDOG: Watchdog = Watchdog { timeout: MISS, long_timeout: MEGA_MISS };

    fn workers() -> Workers {
        Workers { watchdog: Some(WATCHDOG), ..Workers::default() }
    }

    fn sample(at: u64, misses: u64, uptime: u64) -> Sample {
        let body = format!(
            "server.concurrency: 1\nserver.uptime: {uptime}\n\
             server.worker_0.watchdog_miss: {}\nserver.worker_0.watchdog_mega_miss: {}\n",
            misses % 10,
            misses / 10,
        );
        Sample::parse(Moment(at), Moment(at + 2), &body, false).expect("Envoy's answer")
    }

    #[test]
    fn a_reply_needs_the_time_in_which_a_miss_is_noticed() {
        let mut workers = workers();
        workers.ask(Moment(1_000));
        for (at, replies) in [(1_000, 0), (1_799, 0), (1_800, 1), (1_900, 0)] {
            assert_eq!(workers.add(sample(at, 0, 0)), Some(replies), "at {at}");
        }
        assert_eq!(workers.ask(Moment(2_000)), 1, "the last answer is fresh");
        assert_eq!(workers.ask(Moment(2_001)), 0);
        assert_eq!(workers.add(sample(1_902, 0, 0)), Some(1));
    }

    #[test]
    fn after_a_mega_miss_two_flushes_are_needed() {
        let mut workers = workers();
        for at in [900, 1_700] {
            assert_eq!(workers.add(sample(at, 0, 0)), Some(0));
        }
        workers.ask(Moment(1_801));
        let after = [(1_850, 1, 0), (2_600, 11, 0), (6_000, 11, 5), (9_000, 11, 5)];
        for (at, misses, uptime) in after {
            assert_eq!(workers.add(sample(at, misses, uptime)), Some(0), "at {at}");
        }
        assert_eq!(workers.add(sample(11_000, 11, 10)), Some(1));
        workers.ask(Moment(11_101));
        assert_eq!(workers.add(sample(11_200, 11, 10)), Some(0), "it may stand still again");
        assert_eq!(workers.add(sample(11_800, 11, 10)), Some(1));
        workers.ask(Moment(11_901));
        assert_eq!(workers.add(sample(11_950, 12, 10)), Some(0), "the next miss");
    }

    #[test]
    fn a_miss_without_a_mega_miss_is_over_in_time() {
        let mut workers = workers();
        for at in [900, 1_700] {
            assert_eq!(workers.add(sample(at, 0, 0)), Some(0));
        }
        workers.ask(Moment(1_801));
        assert_eq!(workers.reply_is_due(), Some(Moment(1_700)), "any newer answer");
        for (at, replies) in [(1_850, 0), (3_451, 0), (3_452, 1)] {
            assert_eq!(workers.add(sample(at, 1, 0)), Some(replies), "at {at}");
        }
    }

    #[test]
    fn an_answer_that_is_not_envoys_shows_no_worker() {
        for body in ["", "<p>Welcome</p>\n", "server.uptime: 9\n", "server.concurrency: 0\n"] {
            for used_only in [false, true] {
                assert!(Sample::parse(Moment(1), Moment(2), body, used_only).is_none(), "{body}");
            }
        }
    }

    /// A flush of statistics follows each step of the clock.
    #[test]
    fn a_clock_that_is_set_back_is_no_new_envoy() {
        for (at, uptime, asked, is_another) in [
            (2_000, 40, Some(8), false),
            (2_000, 0, Some(8), false),
            (2_000, 100, Some(7), true),
            (2_000, 2, Some(1), true),
            (2_000, 40, None, false),
            (2_000, 1, None, true),
            (62_000, 40, None, true),
        ] {
            let mut workers = workers();
            for (at, uptime, asked) in [(1_000, 100, Some(7)), (at, uptime, asked)] {
                let mut sample = sample(at, 3, uptime);
                sample.asked = asked;
                let is_first = at == 1_000;
                let has_begun_anew = workers.add(sample).is_none();
                assert_eq!(has_begun_anew, !is_first && is_another, "{at} {uptime} {asked:?}");
            }
        }
    }

    #[test]
    fn a_miss_from_before_the_first_answer_is_one() {
        let mut workers = workers();
        workers.ask(Moment(1_000));
        for (at, uptime, replies) in
            [(1_000, 40, 0), (3_000, 40, 0), (6_000, 45, 0), (9_900, 50, 1)]
        {
            assert_eq!(workers.add(sample(at, 3, uptime)), Some(replies), "at {at}");
        }
    }

    #[test]
    fn without_a_watchdog_flushes_prove_it() {
        for body in
            ["", "server.worker_0.watchdog_miss: 0\nserver.worker_0.watchdog_mega_miss: 0\n"]
        {
            let mut workers = workers();
            workers.ask(Moment(1_000));
            for (at, uptime, replies) in
                [(1_000, 1, 0), (5_000, 6, 0), (9_000, 6, 0), (9_900, 11, 1)]
            {
                let body = format!("server.concurrency: 2\nserver.uptime: {uptime}\n{body}");
                let sample = Sample::parse(Moment(at), Moment(at), &body, false).expect(&body);
                assert_eq!(workers.add(sample), Some(replies), "at {at}");
            }
            assert!(!workers.has_watchdog());
        }
    }

    /// Only time in which Envoy ran counts. The answer that shows a stop may be late, overtaken by
    /// that to a newer question, or missing.
    #[test]
    fn an_envoy_that_was_stopped_is_watched_anew() {
        let late = |began: u64| Sample { ended: Moment(5_000), ..sample(began, 0, 0) };
        let shows_a_stop: [&dyn Fn(&mut Workers); 3] = [
            &|workers| {
                let answer = Sample { waited: Millis(3_190), ..late(1_810) };
                assert_eq!(workers.add(answer), Some(0));
            },
            &|workers| {
                let answer = Sample { waited: Millis(3_190), ..late(4_999) };
                assert_eq!(workers.add(answer), Some(0));
            },
            &|workers| workers.answer_is_missing(Moment(5_000)),
        ];
        for (number, show) in shows_a_stop.into_iter().enumerate() {
            let mut workers = workers();
            for at in [900, 1_700] {
                assert_eq!(workers.add(sample(at, 0, 0)), Some(0));
            }
            workers.ask(Moment(1_801));
            show(&mut workers);
            for (at, replies) in [(5_050, 0), (5_799, 0), (5_800, 1)] {
                assert_eq!(workers.add(sample(at, 0, 0)), Some(replies), "{number} at {at}");
            }
        }
    }

    #[test]
    fn behind_the_latch_every_worker_has_come_back_since() {
        let mut workers = workers();
        for at in [900, 1_700] {
            assert_eq!(workers.add(sample(at, 0, 0)), Some(0));
        }
        workers.latch_has_closed(Moment(2_000));
        workers.ask(Moment(2_010));
        assert_eq!(workers.reply_is_due(), Some(Moment(2_800)));
        for (at, replies) in [(2_020, 0), (2_799, 0), (2_800, 1)] {
            assert_eq!(workers.add(sample(at, 0, 0)), Some(replies), "at {at}");
        }
    }

    #[test]
    fn what_was_never_written_is_zero_if_envoy_exports_it() {
        let used_only = |at: u64| {
            Sample::parse(Moment(at), Moment(at), "server.concurrency: 1\n", true).unwrap()
        };
        for (first, replies) in [(sample(1_000, 0, 0), 1), (used_only(1_000), 0)] {
            let mut workers = workers();
            assert_eq!(workers.add(first), Some(0));
            workers.ask(Moment(1_800));
            assert_eq!(workers.add(used_only(1_800)), Some(replies));
        }
    }

    #[test]
    fn another_envoy_is_seen() {
        let mut workers = workers();
        assert_eq!(workers.add(sample(1_000, 1, 50)), Some(0));
        assert_eq!(workers.add(sample(2_000, 1, 0)), None);
        let asked = |at: u64, asked: u64| Sample { asked: Some(asked), ..sample(at, 1, 50) };
        assert_eq!(workers.add(asked(3_000, 90)), Some(0));
        assert_eq!(workers.add(asked(3_001, 89)), Some(0), "overtaken");
        assert_eq!(workers.add(asked(3_002, 89)), None);
    }

    #[test]
    fn the_time_outs_are_those_of_the_workers() {
        let dump = |bootstrap: &str| {
            format!(
                r#"{{"configs": [{{"@type": "x/envoy.admin.v3.BootstrapConfigDump",
                    "bootstrap": {bootstrap}}}]}}"#
            )
        };
        for (bootstrap, timeout) in [
            ("{}", 200),
            (r#"{"watchdogs": {"main_thread_watchdog": {"miss_timeout": "9s"}}}"#, 200),
            (r#"{"watchdogs": {"worker_watchdog": {"miss_timeout": "0.050s"}}}"#, 50),
            (r#"{"watchdog": {"miss_timeout": "2s"}}"#, 1_000),
        ] {
            let watchdog = Watchdog::parse(dump(bootstrap).as_bytes());
            assert_eq!(watchdog.map(|own| own.timeout), Some(Millis(timeout)), "{bootstrap}");
        }
        for foreign in ["", "{}", "<html>", r#"{"configs": [{"@type": "x", "bootstrap": {}}]}"#] {
            assert_eq!(Watchdog::parse(foreign.as_bytes()), None, "{foreign}");
        }
    }
}
