//! One gate's view of the counters: its rounds of requests, and its record of each counter.

use crate::facts::{Facts, IndexEntry};
use crate::messages::{Endable, LatchCheck, Order, Reply, Request};
use crate::scope::Scope;
use crate::timing::{
    DEAD_AFTER, END_VALID_FOR, FORGOTTEN_AFTER, MOST_DEAD, MOST_UNREAD, REPLY_TIMEOUT,
};

/// A reply that has not arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct AwaitedReply {
    since: u64,
    /// How long Envoy's main thread had been busy with queries at that time.
    busy: u64,
}

/// The gate's record of one counter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct KnownCounter {
    awaited: Option<AwaitedReply>,
    /// Requests that were sent since its last reply.
    unread: u64,
    replied_at: u64,
    pub(crate) last_reply: Reply,
    /// The listing of its streams, and the round of that listing.
    listing: Option<(u64, String)>,
    /// Its last answer to an order, and the time at which it came.
    endable: Option<(u64, Endable)>,
}

/// Whether a counter still replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// It has replied recently.
    Fresh,
    /// It may still reply.
    Pending,
    /// It does not reply any more.
    Lost,
    /// It was written off, and its streams were taken from the count.
    WrittenOff,
}

impl KnownCounter {
    /// Whether its reply is overdue. Time for which the gates' own queries kept Envoy busy does not
    /// count.
    fn is_late(&self, now: u64, busy: u64) -> bool {
        self.awaited.is_some_and(|awaited| {
            now.saturating_sub(awaited.since)
                >= REPLY_TIMEOUT.saturating_add(busy.saturating_sub(awaited.busy))
        })
    }

    /// Whether it has been silent for so long that it is dead.
    pub(crate) fn is_dead(&self, now: u64) -> bool {
        self.awaited.is_some_and(|awaited| now.saturating_sub(awaited.since) >= DEAD_AFTER)
    }

    pub(crate) fn liveness(&self, entry: &IndexEntry, now: u64, busy: u64) -> Liveness {
        if entry.written_off > 0 {
            Liveness::WrittenOff
        } else if self.is_late(now, busy) {
            Liveness::Lost
        } else if now.checked_sub(self.replied_at).is_some_and(|age| age < REPLY_TIMEOUT) {
            Liveness::Fresh
        } else {
            Liveness::Pending
        }
    }

    /// Streams that it has in flight: at least one, if it is silent and may be alive. None if it is
    /// dead: then only Envoy knows.
    pub(crate) fn streams(&self, liveness: Liveness, now: u64) -> Option<u64> {
        match liveness {
            Liveness::Fresh => Some(self.last_reply.in_flight),
            Liveness::WrittenOff => None,
            Liveness::Lost if self.is_dead(now) => None,
            Liveness::Pending | Liveness::Lost => Some(self.last_reply.in_flight.max(1)),
        }
    }

    /// Its last answer to an order, while it is valid.
    fn endable(&self, now: u64) -> Option<Endable> {
        let is_valid = |(at, _): &(u64, Endable)| now.saturating_sub(*at) < END_VALID_FOR;
        self.endable.filter(is_valid).map(|(_, endable)| endable)
    }
}

/// The gate's choices for a round of requests; see [`Request`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundOptions {
    pub(crate) latch_check: LatchCheck,
    pub(crate) long_lived_before: u64,
    pub(crate) list_limit: usize,
    pub(crate) plain_only: bool,
}

/// The sum of the counters' answers to an order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EndSurvey {
    /// Streams that match and have not been ended.
    pub(crate) endable: u64,
    /// Requests that no pass has looked at.
    pub(crate) unseen: u64,
    /// Counters that should answer, and that have.
    pub(crate) asked: u64,
    pub(crate) answered: u64,
}

/// One gate's view of the counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Census {
    /// The last round of requests.
    pub(crate) round: u64,
    asked_at: u64,
    known: Vec<(u32, KnownCounter)>,
}

impl Census {
    pub(crate) fn find(&self, queue: u32) -> Option<&KnownCounter> {
        self.known.iter().find(|(other, _)| *other == queue).map(|(_, known)| known)
    }

    fn find_or_insert(&mut self, queue: u32) -> &mut KnownCounter {
        let index = self.known.iter().position(|(other, _)| *other == queue).unwrap_or_else(|| {
            self.known.push((queue, KnownCounter::default()));
            self.known.len() - 1
        });
        &mut self.known[index].1
    }

    /// How long ago that round began.
    pub(crate) fn age_of_round(&self, now: u64) -> u64 {
        now.saturating_sub(self.asked_at)
    }

    /// Receives replies. Returns the counters that were written off and are back.
    pub(crate) fn receive(&mut self, facts: &Facts<'_>) -> Vec<u32> {
        let mut back = Vec::new();
        for (reply, listing) in facts.replies {
            let Some(entry) = facts.index.iter().find(|entry| entry.queue == reply.queue) else {
                continue;
            };
            let known = self.find_or_insert(reply.queue);
            (known.awaited, known.unread) = (None, 0);
            (known.replied_at, known.last_reply) = (facts.now, *reply);
            if let Some(listing) = listing {
                known.listing = Some((reply.round, listing.clone()));
            }
            if let Some(endable) = reply.endable {
                known.endable = Some((facts.now, endable));
            }
            if entry.written_off > 0 && !back.contains(&reply.queue) {
                back.push(reply.queue);
            }
        }
        back
    }

    /// Begins a round: the requests to all counters that read their messages.
    pub(crate) fn ask(&mut self, facts: &Facts<'_>, options: RoundOptions) -> Vec<(u32, Request)> {
        let Some(reply_to) = facts.queue else { return Vec::new() };
        self.round += 1;
        self.asked_at = facts.now;
        self.known.retain(|(queue, _)| facts.index.iter().any(|entry| entry.queue == *queue));
        let (now, busy) = (facts.now, facts.pacing.busy(facts.now));
        let request = Request {
            reply_to,
            round: self.round,
            latch_check: options.latch_check,
            sent_at: now,
            long_lived_before: options.long_lived_before,
            list_limit: options.list_limit,
            plain_only: options.plain_only,
            order: None,
        };
        let mut requests = Vec::new();
        for entry in &facts.index {
            let known = self.find_or_insert(entry.queue);
            known.awaited = known.awaited.or(Some(AwaitedReply { since: now, busy }));
            if known.unread < MOST_UNREAD {
                known.unread += 1;
                requests.push((entry.queue, request));
            }
        }
        requests
    }

    /// Puts an order into the requests of this round to the counters of these scopes. Each gets a
    /// part of the count that fits its share of the streams, so no two counters end a stream for
    /// the same order. A counter that is behind gets none. Returns the number of streams.
    pub(crate) fn put_order(
        &self,
        facts: &Facts<'_>,
        scopes: &[Scope],
        order: Order,
        requests: &mut [(u32, Request)],
    ) -> u64 {
        let is_own = |queue: u32| counting(facts, scopes).any(|entry| entry.queue == queue);
        let endable = |queue: u32| {
            self.find(queue).and_then(|known| known.endable(facts.now)).map_or(0, |own| own.streams)
        };
        let total: u64 = counting(facts, scopes).map(|entry| endable(entry.queue)).sum();
        let (mut passed, mut sent) = (0_u64, 0);
        for (queue, request) in requests.iter_mut().filter(|(queue, _)| is_own(*queue)) {
            let before = share(passed, order.count, total);
            passed = passed.saturating_add(endable(*queue));
            let part = share(passed, order.count, total).saturating_sub(before);
            let count = part.min(endable(*queue)).min(crate::timing::MOST_ORDERED);
            request.order = Some(Order { count, ..order });
            sent += count;
        }
        sent
    }

    /// Sums up the counters' answers to orders.
    pub(crate) fn end_survey(&self, facts: &Facts<'_>, scopes: &[Scope]) -> EndSurvey {
        let mut survey = EndSurvey::default();
        for entry in counting(facts, scopes) {
            survey.asked += 1;
            if let Some(endable) = self.find(entry.queue).and_then(|known| known.endable(facts.now))
            {
                survey.answered += 1;
                survey.endable = survey.endable.saturating_add(endable.streams);
                survey.unseen = survey.unseen.saturating_add(endable.unseen);
            }
        }
        survey
    }

    /// The listings of this round or a later one, and whether every counter of the scopes has
    /// listed all of its streams.
    pub(crate) fn listings(
        &self,
        facts: &Facts<'_>,
        scopes: &[Scope],
        round: u64,
        plain_only: bool,
    ) -> (Vec<(Scope, String)>, bool) {
        let (mut listings, mut is_complete) = (Vec::new(), true);
        for entry in counting(facts, scopes) {
            match self.find(entry.queue) {
                Some(KnownCounter { listing: Some((listed_in, listing)), last_reply, .. })
                    if *listed_in >= round =>
                {
                    let long_lived = if plain_only { last_reply.long_lived } else { 0 };
                    let expected = last_reply.in_flight.saturating_sub(long_lived);
                    is_complete &= listing.lines().count() as u64 == expected;
                    listings.push((entry.scope, listing.clone()));
                }
                _ => is_complete = false,
            }
        }
        (listings, is_complete)
    }

    /// Forgets the listings, once no request waits for them.
    pub(crate) fn forget_listings(&mut self) {
        self.known.iter_mut().for_each(|(_, known)| known.listing = None);
    }

    /// The dead counters that leave the index: those that are forgotten, and the oldest of too
    /// many.
    pub(crate) fn to_remove(&self, facts: &Facts<'_>) -> Vec<u32> {
        let is_dead = |entry: &&IndexEntry| {
            self.find(entry.queue).is_some_and(|known| known.is_dead(facts.now))
        };
        // The index is in the order in which the counters have begun.
        let dead: Vec<&IndexEntry> = facts.index.iter().filter(is_dead).collect();
        let mut surplus = (dead.len() as u64).saturating_sub(MOST_DEAD);
        let is_forgotten = |entry: &IndexEntry| {
            entry.written_off > 0 && facts.now.saturating_sub(entry.written_off) >= FORGOTTEN_AFTER
        };
        let mut removed = Vec::new();
        for entry in dead {
            if surplus > 0 || is_forgotten(entry) {
                removed.push(entry.queue);
            }
            surplus = surplus.saturating_sub(1);
        }
        removed
    }
}

/// The entries of some scopes that were not written off.
fn counting<'f>(facts: &'f Facts<'_>, scopes: &'f [Scope]) -> impl Iterator<Item = &'f IndexEntry> {
    facts.index.iter().filter(|entry| scopes.contains(&entry.scope) && entry.written_off == 0)
}

/// The part of `count` for the first `streams` of `total`.
fn share(streams: u64, count: u64, total: u64) -> u64 {
    match streams.saturating_mul(count).checked_div(total) {
        Some(share) if count < total => share,
        _ => streams,
    }
}

#[cfg(test)]
#[path = "census_tests.rs"]
mod tests;
