//! Computes, from the lifetimes of streams, the times of a drain, how many streams they cut, how
//! many pods a rollout holds, and how long it takes.
//!
//! Streams come at random (a Poisson process), and pods drain independently. Then a pod has a
//! random number of streams with the mean `in_flight`, and all of them are over after `x` seconds
//! with the probability `exp(-in_flight · longer_than(x))`.

use super::lifetimes::Lifetimes;
use crate::base::time_span::TimeSpan;
use crate::policy::{LATE, Sizing, drain_sizing};

/// The load of one pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// Streams in flight, on average.
    pub in_flight: f64,
    /// Streams that begin in a second; `None` if that is not known.
    pub per_second: Option<f64>,
    /// Their remaining lifetimes.
    pub lifetimes: Lifetimes,
}

/// The way in which a workload replaces its pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// A Deployment: `surge` pods more, and `unavailable` pods not ready. Draining pods do not
    /// count.
    Deployment {
        /// `maxSurge`, in pods.
        surge: u32,
        /// `maxUnavailable`, in pods.
        unavailable: u32,
    },
    /// A StatefulSet or a DaemonSet: `pods` at a time, each gone before its successor starts.
    InPlace {
        /// The number of pods at a time.
        pods: u32,
    },
}

/// The pods of a rollout.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fleet {
    /// The number of pods.
    pub pods: u32,
    /// The time from a pod's creation until it is ready, in seconds.
    pub startup: f64,
    /// The way in which they are replaced.
    pub strategy: Strategy,
}

/// Proposed times of a drain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// The times.
    pub sizing: Sizing,
    /// Whether too little was measured for the wanted share, so that the longest measured time is
    /// used.
    pub is_cut_off: bool,
}

/// The predicted effect of these times on a rollout.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// The share of the streams in flight at a stop that the deadline cuts.
    pub cut_share: f64,
    /// The number of streams that the whole rollout cuts.
    pub cut: f64,
    /// All streams in flight in the fleet, of which `cut` is a part.
    pub of: f64,
    /// The mean time from a pod's deletion until it is gone, in seconds.
    pub mean_stop: f64,
    /// Seconds until all new pods are ready, which is what `kubectl rollout status` waits for.
    pub ready: f64,
    /// Seconds until the last old pod has gone.
    pub gone: f64,
    /// Pods that drain at the same time, on average while new ones become ready.
    pub draining: f64,
    /// Pods beside the wanted ones: those of the surge, and those that drain.
    pub extra: f64,
}

/// Seconds from the end of a drain until the pod is gone: the agent ends Envoy, kubelet the pod.
const TEARDOWN: f64 = 0.7;
/// The chance that the quiet period ends although streams still come.
const GAP: f64 = 0.001;
const LONGEST_QUIET: f64 = 10.0;
/// The number of steps of an integration over time.
const STEPS: u32 = 2_000;

/// Rounds up to a number that operators would write.
fn rounded(seconds: f64) -> f64 {
    let step = match seconds {
        ..30.0 => 1.0,
        ..300.0 => 5.0,
        ..3_600.0 => 30.0,
        _ => 300.0,
    };
    (seconds / step).ceil() * step
}

fn span(seconds: f64) -> TimeSpan {
    TimeSpan::seconds(seconds.clamp(0.0, 60_000.0).ceil() as u64)
}

fn seconds(span: TimeSpan) -> f64 {
    span.duration().as_secs_f64()
}

impl Load {
    /// The times with which at most this share of the streams in flight at a stop is cut.
    #[must_use]
    pub fn plan(&self, share: f64, delay: TimeSpan, agent: TimeSpan) -> Plan {
        let longest = self.lifetimes.outlasted_by(share);
        let wanted = rounded(longest.unwrap_or(self.lifetimes.measured()).max(1.0));
        let quiet = self.per_second.filter(|rate| *rate > 0.0).map_or(1.0, |rate| {
            // The chance that no stream begins for so long is `GAP`.
            (-GAP.ln() / rate).clamp(1.0, LONGEST_QUIET)
        });
        let sizing = drain_sizing(span(wanted), span(quiet), delay, agent);
        Plan { sizing, is_cut_off: longest.is_none() }
    }

    /// The chance that a pod has drained `after` seconds after its deletion.
    fn has_drained(&self, sizing: &Sizing, after: f64) -> f64 {
        let came = seconds(sizing.delay) + seconds(LATE) / 2.0;
        let quiet = after - seconds(sizing.quiet) - came;
        if quiet < 0.0 { 0.0 } else { (-self.in_flight * self.lifetimes.longer_than(quiet)).exp() }
    }

    /// The chance that a pod is gone `after` seconds after its deletion.
    fn is_gone(&self, sizing: &Sizing, after: f64) -> f64 {
        let drained = after - TEARDOWN;
        if drained >= seconds(sizing.deadline) + seconds(sizing.agent) {
            1.0
        } else {
            self.has_drained(sizing, drained.min(seconds(sizing.deadline)))
        }
    }

    /// Predicts the effect of a rollout.
    #[must_use]
    pub fn predict(&self, sizing: &Sizing, fleet: &Fleet) -> Prediction {
        let of = self.in_flight * f64::from(fleet.pods);
        let cut_share = self.lifetimes.longer_than(seconds(sizing.deadline));
        let longest = seconds(sizing.deadline) + seconds(sizing.agent) + TEARDOWN;
        let mean_stop = mean(longest, |after| self.is_gone(sizing, after));
        let startup = fleet.startup.max(0.1);
        let (ready, gone, draining, surge) = match fleet.strategy {
            Strategy::Deployment { surge, unavailable } => {
                let at_once = surge.saturating_add(unavailable).max(1).min(fleet.pods);
                let rounds = fleet.pods.div_ceil(at_once);
                let ready = f64::from(rounds) * startup;
                // Older batches are gone before the last new pod is ready.
                let young = (longest / startup).ceil() as u32;
                let all = Batches { pods: fleet.pods, unavailable, at_once };
                let batches = all.youngest(young);
                let late = mean(longest, |after| {
                    let all_gone = |(deleted, pods): &(u32, u32)| {
                        let since = ready - f64::from(*deleted) * startup + after;
                        self.is_gone(sizing, since).powi(i32::try_from(*pods).unwrap_or(i32::MAX))
                    };
                    batches.iter().map(all_gone).product()
                });
                let draining = f64::from(at_once) / startup * mean_stop;
                (ready, ready + late, draining.min(f64::from(fleet.pods)), surge)
            }
            Strategy::InPlace { pods } => {
                let at_once = pods.max(1).min(fleet.pods);
                let rounds = f64::from(fleet.pods.div_ceil(at_once));
                let stop = mean(longest, |after| {
                    let power = i32::try_from(at_once).unwrap_or(i32::MAX);
                    self.is_gone(sizing, after).powi(power)
                });
                let round = stop + startup;
                let draining = f64::from(at_once) * mean_stop / round;
                (rounds * round, rounds * round - startup, draining, 0)
            }
        };
        let extra = f64::from(surge.min(fleet.pods)) + draining;
        let cut = of * cut_share;
        Prediction { cut_share, cut, of, mean_stop, ready, gone, draining, extra }
    }
}

/// The batches in which a Deployment deletes pods: some at the beginning, and more after each
/// start-up.
#[derive(Debug, Clone, Copy)]
struct Batches {
    pods: u32,
    unavailable: u32,
    at_once: u32,
}

/// The most batches. If there are more, some are merged, because each costs [`STEPS`] evaluations.
const MOST_BATCHES: u32 = 1_000;

impl Batches {
    /// The number of pods that have been deleted `round` start-ups after the beginning.
    fn deleted(&self, round: u32) -> u32 {
        let later = round.saturating_mul(self.at_once);
        self.unavailable.saturating_add(later).min(self.pods)
    }

    /// The round and the size of each of the last `young + 2` batches. Merged batches count as
    /// deleted with the youngest of them.
    fn youngest(&self, young: u32) -> Vec<(u32, u32)> {
        let rounds = self.pods.saturating_sub(self.unavailable).div_ceil(self.at_once);
        let first = rounds.saturating_sub(young.saturating_add(1));
        let together = (rounds - first).saturating_add(1).div_ceil(MOST_BATCHES);
        let mut before = first.checked_sub(1).map_or(0, |round| self.deleted(round));
        let ends = (first..=rounds).rev().step_by(together as usize);
        let mut batches = Vec::new();
        for round in ends.collect::<Vec<_>>().into_iter().rev() {
            let deleted = self.deleted(round);
            batches.push((round, deleted - before));
            before = deleted;
        }
        batches
    }
}

/// The mean of a time of at most `longest`, from the chance that it is over.
fn mean(longest: f64, is_over: impl Fn(f64) -> f64) -> f64 {
    let step = longest / f64::from(STEPS);
    (0..STEPS).map(|at| (1.0 - is_over((f64::from(at) + 0.5) * step)) * step).sum()
}

#[cfg(test)]
mod tests;
