//! Leaked counts: streams of VMs that died, and gauges that cannot be true.

use crate::count_state::CountState;
use crate::effects::Effect;
use crate::observation::{EnvoyCount, Observation};
use crate::samples::{BeforeQuery, EnvoySamples};
use crate::survey::Survey;
use crate::timing::HEALING_LASTS;
use crate::turn::Turn;

/// Since when the count shows signs of a leak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LeakWatch(Option<u64>);

impl LeakWatch {
    pub(crate) fn is_some(self) -> bool {
        self.0.is_some()
    }

    /// Whether the gate goes on looking for a leak that it can heal.
    pub(crate) fn is_healing(self, now: u64) -> bool {
        self.0.is_some_and(|since| now.saturating_sub(since) < HEALING_LASTS)
    }

    /// Looks for signs. While a signal waits, streams that no counter has are one.
    pub(crate) fn look(&mut self, observed: &Observation, waits_for_signal: bool, now: u64) {
        let is_more = observed.holding > observed.in_flight;
        let is_idle = !matches!(observed.envoy, EnvoyCount::Holds(1..));
        let is_wrong = matches!(observed.count, CountState::Leaking | CountState::Miscounted);
        // It begins anew when Envoy has had requests in between.
        let is_suspicious =
            is_wrong && is_idle || is_more && (waits_for_signal || self.is_healing(now));
        self.0 = is_suspicious.then(|| self.0.unwrap_or(now));
    }

    /// A signal was refused: if no counter has these streams, they would refuse signals for ever.
    pub(crate) fn suspect(&mut self, observed: &Observation, now: u64) {
        if observed.holding > observed.in_flight && !self.is_healing(now) {
            self.0 = Some(now);
        }
    }
}

/// Takes leaked streams from the count, and writes off the counters that leaked them. Every live
/// counter must have replied zero after Envoy did, and none of the gate's scopes may have
/// counted a stream since the gauges were read; otherwise a gauge may show a stream that is in
/// flight.
pub(crate) fn heal(samples: &EnvoySamples, survey: &Survey, turn: &mut Turn<'_, '_>) {
    let facts = turn.facts;
    let is_leaked = |before: &&BeforeQuery| {
        survey.completed_round >= samples.round()
            && facts.counts.ever_begun[0] == before.begun[0]
            && facts.heals == before.heals
            && facts.counts.cover(&before.gauges)
    };
    if let Some(before) = samples.leaked(facts.now).filter(is_leaked) {
        let (gauges, heals) = (before.gauges.clone(), before.heals);
        turn.push(Effect::Heal { gauges, heals, write_off: survey.lost.clone() });
    }
}
