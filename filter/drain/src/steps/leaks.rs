//! Leaked counts: streams of VMs that died, and gauges that cannot be true.

use super::callback::Callback;
use crate::counts::{BeforeQuery, EnvoySamples, Survey};
use crate::requests::Effect;
use crate::state::timing::HEALING_LASTS;
use crate::state::{CountState, EnvoyCount, Moment, Observation};

/// Since when the count shows signs of a leak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LeakWatch(Option<Moment>);

impl LeakWatch {
    pub(crate) fn is_some(self) -> bool {
        self.0.is_some()
    }

    /// Whether the gate goes on looking for a leak that it can heal.
    pub(crate) fn is_healing(self, now: Moment) -> bool {
        self.0.is_some_and(|since| now - since < HEALING_LASTS)
    }

    /// Looks for signs. While a signal waits, streams that no counter has are one.
    pub(crate) fn look(&mut self, observed: &Observation, waits_for_signal: bool, now: Moment) {
        let is_more = observed.holding > observed.in_flight;
        let is_idle = !matches!(observed.envoy, EnvoyCount::Holds(1..));
        let is_wrong = matches!(observed.count, CountState::Leaking | CountState::Miscounted);
        // It begins anew when Envoy has had requests in between.
        let is_suspicious =
            is_wrong && is_idle || is_more && (waits_for_signal || self.is_healing(now));
        self.0 = is_suspicious.then(|| self.0.unwrap_or(now));
    }

    /// A signal was refused: if no counter has these streams, they would refuse signals
    /// without a limit.
    pub(crate) fn suspect(&mut self, observed: &Observation, now: Moment) {
        if observed.holding > observed.in_flight && !self.is_healing(now) {
            self.0 = Some(now);
        }
    }
}

/// Takes leaked streams from the count, and writes off the counters that leaked them. Every live
/// counter must have replied zero after Envoy did, and none of the gate's scopes may have
/// counted a stream since the gauges were read; otherwise a gauge may show a stream that is in
/// flight.
pub(crate) fn heal(samples: &EnvoySamples, survey: &Survey, callback: &mut Callback<'_>) {
    let facts = callback.facts;
    let is_leaked = |before: &&BeforeQuery| {
        survey.completed_round >= samples.round()
            && facts.counts.ever_begun.own == before.ignorable.begun.own
            && facts.tally.heals == before.heals
            && facts.counts.cover(&before.gauges)
    };
    if let Some(before) = samples.leaked(facts.now).filter(is_leaked) {
        let (gauges, heals) = (before.gauges.clone(), before.heals);
        callback.push(Effect::Heal { gauges, heals, write_off: survey.lost.clone() });
    }
}
