//! The subtraction of leaked streams from the count, once both Envoy's count and that of the live
//! counters are zero.

use super::metrics::Metrics;
use super::observation::{EnvoyCount, Observation};
use crate::census::{CountState, WRITE_OFF_AFTER};
use crate::host::{Control, Level, compare_and_set_shared};
use crate::parse::digits;

/// The shared data key of the number of healed leaks. Only the gate that increments it heals the
/// leak.
const HEALS: &str = "laststream.heals";
/// How long the gate keeps ticking to heal a leak; milliseconds. Lost counters are written off in
/// this time.
const LONGEST: u64 = WRITE_OFF_AFTER + 5_000;

/// The time since which a leaked count could be healed.
#[derive(Debug, Clone, Default)]
pub(super) struct Healing {
    since: Option<u64>,
    is_going_on: bool,
}

impl Healing {
    pub(super) fn is_going_on(&self) -> bool {
        self.is_going_on
    }

    pub(super) fn record(&mut self, observed: &Observation, now: u64) {
        let is_healable =
            observed.count == CountState::Leaking && observed.envoy == EnvoyCount::Holds(0);
        self.since = is_healable.then(|| self.since.unwrap_or(now));
        self.is_going_on = self.since.is_some_and(|since| now.saturating_sub(since) < LONGEST);
    }
}

/// The number of times that a leaked count was healed.
pub(super) fn heals(host: &impl Control) -> u64 {
    host.get_shared_data(HEALS).and_then(|(text, _)| digits(&text)).unwrap_or_default()
}

/// Subtracts leaked streams from the gauges. No live counter had a stream, and Envoy no request, so
/// `leaked`, the gauges at that moment, showed streams of dead VMs. Exactly these values are
/// subtracted, not the current ones, because a stream that has begun since is not leaked. Only one
/// gate subtracts them. Returns whether the counters that leaked them are to be written off.
pub(super) fn subtract(host: &impl Control, metrics: &Metrics, leaked: &[u64], heals: u64) -> bool {
    let gauges = || metrics.gauges.iter().zip(leaked);
    let is_covered =
        gauges().all(|(gauge, leaked)| host.get_metric(*gauge).is_some_and(|now| now >= *leaked));
    let streams: u64 = leaked.iter().step_by(2).sum();
    if streams == 0 {
        return true;
    }
    if !is_covered || !claim_heal(host, heals) {
        return false;
    }
    for (gauge, leaked) in gauges() {
        host.increment_metric(*gauge, i64::try_from(*leaked).unwrap_or_default().wrapping_neg());
    }
    host.increment_metric(metrics.heals, 1);
    host.log(
        Level::Warning,
        &format!(
            "healed: {streams} streams were counted by workers' VMs that have died; Envoy has none"
        ),
    );
    true
}

/// Claims the healing of this leak. False: another gate has healed it.
fn claim_heal(host: &impl Control, heals: u64) -> bool {
    let mut is_own = false;
    let is_changed = compare_and_set_shared(host, HEALS, &mut |text| {
        is_own = text.and_then(digits::<u64>).unwrap_or_default() == heals;
        is_own.then(|| format!("{}", heals + 1).into_bytes())
    });
    is_own && is_changed
}
