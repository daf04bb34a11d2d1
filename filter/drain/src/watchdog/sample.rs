//! What one answer of Envoy shows of its workers.

use crate::state::{Millis, Moment};

/// How often workers were away from their event loops, and for long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Misses {
    pub(super) all: u64,
    pub(super) long: u64,
}

/// What one answer of Envoy shows of its workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// When Envoy was asked.
    pub began: Moment,
    /// When it had answered.
    pub ended: Moment,
    /// How long the oldest question in flight had waited then; that may be an earlier one.
    pub waited: Millis,
    /// Misses of all workers; none if the statistics are not all there.
    pub(super) misses: Option<Misses>,
    /// Whether Envoy has left out what was never written.
    pub(super) used_only: bool,
    /// Seconds, from the last flush of statistics.
    pub(super) uptime: Option<u64>,
    /// Requests to the admin interface, of which this is the last.
    pub(super) asked: Option<u64>,
}

impl Sample {
    /// The statistics `server.*` and `http.admin.downstream_rq_total`, as text. None: this is not
    /// Envoy's answer.
    #[must_use]
    pub fn parse(began: Moment, ended: Moment, body: &str, used_only: bool) -> Option<Self> {
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
    pub(super) fn is_of_another_process(&self, earlier: &Self) -> bool {
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
pub(super) struct Flushes {
    uptime: Option<u64>,
    count: u32,
}

impl Flushes {
    pub(super) fn add(&mut self, sample: &Sample) {
        let Some(uptime) = sample.uptime else { return };
        self.count += u32::from(self.uptime.replace(uptime).is_some_and(|before| before != uptime));
    }

    pub(super) fn prove(&self) -> bool {
        self.count >= 2
    }
}
