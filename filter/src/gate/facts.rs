//! Reads the facts of one moment, in the order that the protocol needs: the record and the index
//! first, then the gauges between two reads of what has begun, and the latch last.

use laststream_drain::facts::{Counts, Facts, IndexEntry};
use laststream_drain::messages::Reply;
use laststream_drain::record::Record;
use strum::VariantArray as _;

use super::metrics::Metrics;
use super::policy::Policy;
use super::shared::{HEALS, Keys, Notification, PACING, Total};
use crate::census::index;
use crate::census::latch::Latch;
use crate::config::wire::Scope;
use crate::host::{Control, Metric};
use crate::parse::digits;
use crate::shared_text::{self, SharedText as _};

/// The most reads of the gauges, if streams keep beginning meanwhile.
const READS: usize = 4;

/// What one worker reads from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sources<'s> {
    pub(super) policy: &'s Policy,
    pub(super) keys: &'s Keys,
    pub(super) metrics: &'s Metrics,
    pub(super) latch: &'s Latch,
    pub(super) queue: Option<u32>,
}

impl Sources<'_> {
    /// The facts, and the generation of the record.
    pub(super) fn read<'f>(
        self,
        host: &impl Control,
        replies: &'f [(Reply, Option<String>)],
    ) -> (Facts<'f>, Option<u32>) {
        let now = host.monotonic_time();
        let (record, generation) = host.get_shared_data(&self.keys.record).unzip();
        let record = record
            .and_then(|text| Record::parse(core::str::from_utf8(&text).ok()?))
            .unwrap_or_default();
        let index = index::entries(host);
        let is_rejected = |scope: &Scope| index::is_rejected(host, *scope);
        let rejected = Scope::VARIANTS.iter().copied().filter(is_rejected).collect();
        let notify = match self.policy.notify {
            Some(_) => shared_text::read(host, &self.keys.notify),
            None => Notification::default(),
        };
        let ends = match self.policy.drain.end.kinds.is_empty() {
            false => shared_text::read(host, &self.keys.ends),
            true => Default::default(),
        };
        let facts = Facts {
            now,
            notify: notify.step_of(record.began),
            ends,
            pacing: shared_text::read(host, PACING),
            heals: heals(host),
            total: shared_text::read::<Total>(host, &self.keys.total).requests,
            counts: self.read_counts(host, &index),
            latch: self.latch.facts(host, self.queue),
            record,
            index,
            rejected,
            replies,
            queue: self.queue,
        };
        (facts, generation)
    }

    /// Reads the metrics of streams; see [`Counts`].
    fn read_counts(self, host: &impl Control, index: &[IndexEntry]) -> Counts {
        let scopes = || self.metrics.scopes.iter().map(|(_, metrics)| metrics);
        let exempts = self.policy.drain.exempts_long_lived;
        let begun = || sum(scopes().map(|[_, _, begun]| read(host, *begun)));
        let mut counts = Counts::default();
        for _ in 0..READS {
            counts.begun[0] = begun();
            // A gauge that cannot be read is an error of accounting, and does not count as zero.
            let gauge = |gauge| host.get_metric(gauge).unwrap_or(u64::MAX);
            counts.gauges = scopes().map(|[in_flight, ..]| [gauge(*in_flight), 0]).collect();
            let is_busy = counts.gauges.iter().any(|[in_flight, _]| *in_flight > 0);
            for (gauges, [_, long_lived, _]) in counts.gauges.iter_mut().zip(scopes()) {
                gauges[1] = gauge(*long_lived);
            }
            counts.begun[1] = begun();
            if counts.begun[0] == counts.begun[1] || !(exempts && is_busy) {
                break;
            }
        }
        counts.others_in_flight =
            sum(self.metrics.others(host, index).map(|gauge| read(host, gauge)));
        for (scope, counter) in &self.metrics.all_begun {
            let side = usize::from(!self.policy.drain.scopes.contains(scope));
            counts.ever_begun[side] = counts.ever_begun[side].saturating_add(read(host, *counter));
        }
        counts.read_at = host.monotonic_time();
        counts
    }
}

fn read(host: &impl Control, metric: Metric) -> u64 {
    host.get_metric(metric).unwrap_or_default()
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// The number of times that a leaked count was healed.
pub(super) fn heals(host: &impl Control) -> u64 {
    host.get_shared_data(HEALS).and_then(|(text, _)| digits(&text)).unwrap_or_default()
}
