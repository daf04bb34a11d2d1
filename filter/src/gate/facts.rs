//! Reads the facts of one moment, in the order that the protocol needs: the shared value and the
//! index first, then the gauges between two reads of what has begun, and the latch last.

use laststream_drain::counts::{Counts, Facts, Gauges, IndexEntry, ScopeCounts, Tally};
use laststream_drain::requests::GateMetric;
use strum::VariantArray as _;

use super::shared::heals;
use super::shell::Gate;
use crate::census::index;
use crate::config::wire::Scope;
use crate::host::{Control, Metric};
use crate::shared_text::parse_or_default;

/// The most reads of the gauges, if streams keep beginning meanwhile.
const READS: usize = 4;

impl Gate {
    /// The facts, and the generation of the shared value.
    pub(super) fn read_facts(&self, host: &impl Control) -> (Facts, Option<u32>) {
        let now = host.monotonic_time();
        let (shared, generation) = host.get_shared_data(&self.key).unzip();
        let index = index::entries(host, self.policy.index());
        let is_rejected = |scope: &Scope| index::is_rejected(host, *scope);
        let facts = Facts {
            now,
            shared: parse_or_default(shared.as_deref()),
            rejected: Scope::VARIANTS.iter().copied().filter(is_rejected).collect(),
            tally: Tally {
                heals: heals(host),
                refused: read(host, self.metrics.of(GateMetric::Refused)),
                evictions: read(host, self.metrics.of(GateMetric::Evictions)),
            },
            counts: self.read_counts(host, &index),
            latch: self.latch.facts(host, self.queue),
            queue: self.queue,
            index,
        };
        (facts, generation)
    }

    /// Reads the metrics of streams; see [`Counts`].
    fn read_counts(&self, host: &impl Control, index: &[IndexEntry]) -> Counts {
        let policy = &self.policy.drain;
        let mut counts = Counts::default();
        for _ in 0..READS {
            self.read_gauges(host, &mut counts);
            let is_busy = counts.scopes.iter().any(|scope| scope.gauges.in_flight > 0);
            let is_torn = counts.begun_before != counts.begun();
            if !(is_torn && policy.exempts_long_lived && is_busy) {
                break;
            }
        }
        counts.others_in_flight =
            sum(self.metrics.others(host, index).map(|gauge| read(host, gauge)));
        for (scope, counter) in &self.metrics.all_begun {
            let is_own = policy.scopes.contains(scope);
            let sides = &mut counts.ever_begun;
            let side = if is_own { &mut sides.own } else { &mut sides.others };
            *side = side.saturating_add(read(host, *counter));
        }
        counts.read_at = host.monotonic_time();
        counts
    }

    fn read_gauges(&self, host: &impl Control, counts: &mut Counts) {
        // A gauge that cannot be read is an error of accounting, and does not count as zero.
        let gauge = |gauge| host.get_metric(gauge).unwrap_or(u64::MAX);
        let scopes = &self.metrics.scopes;
        counts.begun_before = sum(scopes.iter().map(|metrics| read(host, metrics.begun)));
        let in_flight = scopes.iter().map(|metrics| ScopeCounts {
            scope: metrics.scope,
            gauges: Gauges { in_flight: gauge(metrics.in_flight), long_lived: 0 },
            begun: 0,
        });
        counts.scopes = in_flight.collect();
        for (counts, metrics) in counts.scopes.iter_mut().zip(scopes) {
            counts.gauges.long_lived = gauge(metrics.long_lived);
        }
        for (counts, metrics) in counts.scopes.iter_mut().zip(scopes) {
            counts.begun = read(host, metrics.begun);
        }
    }
}

fn read(host: &impl Control, metric: Metric) -> u64 {
    host.get_metric(metric).unwrap_or_default()
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}
