//! The gate's side of ending streams: orders to the counters, and their replies.

use super::asking::Census;
use super::ending::{EndFilter, EndManner, EndRequest};
use super::index::counting_entries;
use super::kinds::{Kinds, StreamKind};
use super::known_end::KnownEnd;
use crate::config::wire::Scope;
use crate::host::Control;

/// The most streams that one counter is ordered to end at once. It needs several callbacks for
/// them.
pub(crate) const MOST_ORDERED: u64 = 512;

/// An order to all counters of some scopes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndOrder<'o> {
    pub(crate) scopes: &'o [Scope],
    pub(crate) job: u64,
    pub(crate) which: EndFilter,
    pub(crate) how: EndManner,
    /// How many streams to end, over all counters.
    pub(crate) count: u64,
    pub(crate) list_limit: usize,
    pub(crate) look_since: u64,
    /// See [`EndRequest::drain_began`].
    pub(crate) drain_began: u64,
}

/// The sum of the counters' replies about one job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EndSurvey {
    /// Streams that match and have not been ended.
    pub(crate) endable: u64,
    /// See [`EndReply::unseen`].
    ///
    /// [`EndReply::unseen`]: super::ending::EndReply::unseen
    pub(crate) unseen: u64,
    /// Counters that should reply, counters that have replied, and replies from counters that keep
    /// kinds.
    pub(crate) asked: u64,
    pub(crate) replied: u64,
    pub(crate) with_kinds: u64,
}

impl EndSurvey {
    /// The number of streams of these kinds that certainly match. A request that no pass has looked
    /// at counts as waiting in `endable`, but its response may have begun.
    pub(crate) fn certain(&self, kinds: Kinds) -> u64 {
        let unseen = if kinds.contains(StreamKind::Waiting) { self.unseen } else { 0 };
        self.endable.saturating_sub(unseen)
    }
}

impl Census {
    /// Sends an order to every counter of the scopes. Each gets a part of the count that fits its
    /// share of the streams, so no two counters end a stream for the same order. Returns the round
    /// and the number of streams that were ordered. It can be less than the count, because of
    /// [`MOST_ORDERED`] and because a counter with many unread messages gets none.
    pub(crate) fn order_ends(&mut self, host: &impl Control, order: EndOrder<'_>) -> (u64, u64) {
        let Some(reply_to) = self.queue_or_register(host) else { return (0, 0) };
        let (now, round, mut sent) = (host.monotonic_time(), self.next_end_round(), 0);
        let queues: Vec<u32> =
            counting_entries(host, order.scopes).iter().map(|entry| entry.queue).collect();
        let endable: Vec<u64> =
            queues.iter().map(|queue| self.endable_of(*queue, order.job, now)).collect();
        let EndOrder { job, which, how, list_limit, look_since, drain_began, .. } = order;
        for (queue, count) in queues.into_iter().zip(split(order.count, &endable)) {
            if self.may_send(queue) {
                let request = EndRequest {
                    reply_to,
                    job,
                    round,
                    sent_at: now,
                    which,
                    count,
                    how,
                    list_limit,
                    look_since,
                    drain_began,
                };
                host.enqueue(queue, request.to_text().as_bytes());
                sent += count;
            }
        }
        (round, sent)
    }

    fn endable_of(&self, queue: u32, job: u64, now: u64) -> u64 {
        self.known_end(queue, job, now).map_or(0, |known| known.reply.endable)
    }

    /// Sums up the replies about a job to this round or a later one.
    pub(crate) fn end_survey(
        &self,
        host: &impl Control,
        scopes: &[Scope],
        job: u64,
        round: u64,
    ) -> EndSurvey {
        let (now, mut survey) = (host.monotonic_time(), EndSurvey::default());
        for entry in counting_entries(host, scopes) {
            survey.asked += 1;
            let known = self.known_end(entry.queue, job, now);
            if let Some(KnownEnd { reply, .. }) = known.filter(|known| known.reply.round >= round) {
                survey.replied += 1;
                survey.with_kinds += u64::from(reply.knows_kinds);
                survey.endable = survey.endable.saturating_add(reply.endable);
                survey.unseen = survey.unseen.saturating_add(reply.unseen);
            }
        }
        survey
    }

    /// The listings of a job from this round or a later one.
    pub(crate) fn end_listings(
        &self,
        host: &impl Control,
        scopes: &[Scope],
        job: u64,
        round: u64,
    ) -> Vec<(Scope, &str)> {
        let now = host.monotonic_time();
        counting_entries(host, scopes)
            .into_iter()
            .filter_map(|entry| {
                let known = self.known_end(entry.queue, job, now)?;
                let is_current = known.reply.round >= round;
                Some((entry.scope, known.listing.as_deref().filter(|_| is_current)?))
            })
            .collect()
    }
}

/// Splits a count in proportion to the streams of each counter. A counter gets at most as many as
/// it has, and at most [`MOST_ORDERED`].
fn split(count: u64, endable: &[u64]) -> Vec<u64> {
    let total = endable.iter().copied().fold(0, u64::saturating_add);
    let mut passed = 0_u64;
    let share = |streams: u64| match streams.saturating_mul(count).checked_div(total) {
        Some(share) if count < total => share,
        _ => streams,
    };
    let mut parts = Vec::with_capacity(endable.len());
    for streams in endable {
        let before = share(passed);
        passed = passed.saturating_add(*streams);
        let part = share(passed).saturating_sub(before);
        parts.push(part.min(*streams).min(MOST_ORDERED));
    }
    parts
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{MOST_ORDERED, split};

    #[wasm_bindgen_test(unsupported = test)]
    fn a_count_is_split_without_a_rest() {
        for (count, endable, parts) in [
            (0, &[5, 5][..], &[0, 0][..]),
            (1, &[5, 5], &[0, 1]),
            (3, &[1, 1, 1, 1], &[0, 1, 1, 1]),
            (10, &[30, 10], &[7, 3]),
            (10, &[0, 4], &[0, 4]),
            (7, &[0, 0], &[0, 0]),
            (5, &[], &[]),
            (1 << 50, &[1 << 40, 1 << 40], &[MOST_ORDERED, MOST_ORDERED]),
        ] {
            assert_eq!(split(count, endable), parts, "{count} of {endable:?}");
        }
        for count in 0..200 {
            let parts = split(count, &[17, 0, 99, 3, 81]);
            assert_eq!(parts.iter().sum::<u64>(), count, "{parts:?}");
        }
    }
}
