//! One gate's view of the counters: its rounds of requests, and its record of each counter.

use super::facts::{Facts, IndexEntry};
use super::messages::{Endable, Order, Reply, Request};
use crate::state::timing::{
    DEAD_AFTER, END_VALID_FOR, FORGOTTEN_AFTER, MOST_DEAD, MOST_ORDERED, MOST_UNREAD, REPLY_TIMEOUT,
};
use crate::state::{Millis, Moment, Queue, Scope};

/// A reply that has not arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct AwaitedReply {
    since: Moment,
    /// How long Envoy's main thread had been busy with queries at that time.
    busy: Millis,
}

/// The gate's record of one counter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct KnownCounter {
    awaited: Option<AwaitedReply>,
    /// Requests that were sent since its last reply.
    unread: u64,
    replied_at: Option<Moment>,
    pub(crate) last_reply: Reply,
    /// The listing of its streams, and the round of that listing.
    listing: Option<(u64, String)>,
    /// Its last answer to an order, and the time at which it came.
    endable: Option<(Moment, Endable)>,
}

/// Whether a counter still replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// It has replied recently.
    Fresh,
    /// It may still reply in time.
    Pending,
    /// Its reply is overdue. Its worker may stand still and own streams.
    Late,
    /// It has been silent for so long that it no longer replies.
    Dead,
    /// It was written off, and its streams were taken from the count.
    WrittenOff,
}

impl KnownCounter {
    /// How long it has been silent, if a reply is awaited.
    pub(crate) fn silence(&self, now: Moment) -> Option<Millis> {
        self.awaited.map(|awaited| now - awaited.since)
    }

    /// Whether its reply is overdue. Time for which the gate's own queries kept Envoy busy does not
    /// count.
    fn is_late(&self, now: Moment, busy: Millis) -> bool {
        self.awaited
            .is_some_and(|awaited| now - awaited.since >= REPLY_TIMEOUT + (busy - awaited.busy))
    }

    fn is_dead(&self, now: Moment) -> bool {
        self.silence(now).is_some_and(|silence| silence >= DEAD_AFTER)
    }

    pub(crate) fn liveness(&self, entry: &IndexEntry, now: Moment, busy: Millis) -> Liveness {
        let age = self.replied_at.and_then(|replied_at| now.since(replied_at));
        if entry.written_off.is_some() {
            Liveness::WrittenOff
        } else if self.is_dead(now) {
            Liveness::Dead
        } else if self.is_late(now, busy) {
            Liveness::Late
        } else if age.is_some_and(|age| age < REPLY_TIMEOUT) {
            Liveness::Fresh
        } else {
            Liveness::Pending
        }
    }

    /// Streams that it has in flight: at least one, if it is silent and may be alive. None if it is
    /// dead: then only Envoy knows.
    pub(crate) fn streams(&self, liveness: Liveness) -> Option<u64> {
        match liveness {
            Liveness::Fresh => Some(self.last_reply.in_flight),
            Liveness::WrittenOff | Liveness::Dead => None,
            Liveness::Pending | Liveness::Late => Some(self.last_reply.in_flight.max(1)),
        }
    }

    /// Whether it has replied since it was written off.
    fn is_back(&self, entry: &IndexEntry) -> bool {
        entry.written_off.is_some_and(|then| self.replied_at.is_some_and(|at| at >= then))
    }

    /// Its last answer to an order, while it is valid.
    fn endable(&self, now: Moment) -> Option<Endable> {
        let is_valid = |(at, _): &(Moment, Endable)| now - *at < END_VALID_FOR;
        self.endable.filter(is_valid).map(|(_, endable)| endable)
    }
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

impl EndSurvey {
    /// Whether a claim may be made. Otherwise a counter that has not answered may have streams, and
    /// the pace stays as it is.
    pub(crate) fn is_known(&self) -> bool {
        self.endable > 0 || self.answered == self.asked
    }

    /// What a claim may take at most.
    pub(crate) fn most(&self) -> u64 {
        MOST_ORDERED.saturating_mul(self.answered)
    }
}

/// One gate's view of the counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Census {
    /// The last round of requests.
    pub(crate) round: u64,
    asked_at: Moment,
    counters: Vec<(Queue, KnownCounter)>,
}

impl Census {
    pub(crate) fn find(&self, queue: Queue) -> Option<&KnownCounter> {
        self.counters.iter().find(|(other, _)| *other == queue).map(|(_, counter)| counter)
    }

    fn find_or_insert(&mut self, queue: Queue) -> &mut KnownCounter {
        let index =
            self.counters.iter().position(|(other, _)| *other == queue).unwrap_or_else(|| {
                self.counters.push((queue, KnownCounter::default()));
                self.counters.len() - 1
            });
        &mut self.counters[index].1
    }

    /// How long ago the last round began.
    pub(crate) fn age_of_round(&self, now: Moment) -> Millis {
        now - self.asked_at
    }

    /// Receives the replies to a gate, and returns whether no counter that may be alive is left to
    /// reply. Until then nothing is decided, but on ticks.
    pub(crate) fn receive(&mut self, now: Moment, replies: Vec<(Reply, Option<String>)>) -> bool {
        for (reply, listing) in replies {
            let counter = self.find_or_insert(reply.queue);
            (counter.awaited, counter.unread) = (None, 0);
            (counter.replied_at, counter.last_reply) = (Some(now), reply);
            if let Some(listing) = listing {
                counter.listing = Some((reply.round, listing));
            }
            if let Some(endable) = reply.endable {
                counter.endable = Some((now, endable));
            }
        }
        self.counters.iter().all(|(_, counter)| counter.awaited.is_none() || counter.is_dead(now))
    }

    /// The counters that were written off and have replied since.
    pub(crate) fn to_revive(&self, facts: &Facts) -> Vec<Queue> {
        let is_back = |entry: &&IndexEntry| {
            self.find(entry.queue).is_some_and(|counter| counter.is_back(entry))
        };
        facts.index.iter().filter(is_back).map(|entry| entry.queue).collect()
    }

    /// Begins a round: the same request to all counters that read their messages.
    pub(crate) fn ask(&mut self, facts: &Facts, request: Request) -> Vec<(Queue, Request)> {
        let Some(reply_to) = facts.queue else { return Vec::new() };
        self.round += 1;
        self.asked_at = facts.now;
        self.counters.retain(|(queue, _)| facts.index.iter().any(|entry| entry.queue == *queue));
        let (now, busy) = (facts.now, facts.shared.pacing.busy(facts.now));
        let request = Request { reply_to, round: self.round, sent_at: now, ..request };
        let mut requests = Vec::new();
        for entry in &facts.index {
            let counter = self.find_or_insert(entry.queue);
            counter.awaited = counter.awaited.or(Some(AwaitedReply { since: now, busy }));
            if counter.unread < MOST_UNREAD {
                counter.unread += 1;
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
        facts: &Facts,
        scopes: &[Scope],
        order: Order,
        requests: &mut [(Queue, Request)],
    ) -> u64 {
        let is_own = |queue: Queue| counting(facts, scopes).any(|entry| entry.queue == queue);
        let endable = |queue: Queue| {
            self.find(queue)
                .and_then(|counter| counter.endable(facts.now))
                .map_or(0, |endable| endable.streams)
        };
        let total: u64 = counting(facts, scopes).map(|entry| endable(entry.queue)).sum();
        let (mut passed, mut sent) = (0_u64, 0);
        for (queue, request) in requests.iter_mut().filter(|(queue, _)| is_own(*queue)) {
            let start = share(passed, order.count, total);
            passed = passed.saturating_add(endable(*queue));
            let part = share(passed, order.count, total).saturating_sub(start);
            let count = part.min(endable(*queue)).min(MOST_ORDERED);
            request.order = Some(Order { count, ..order });
            sent += count;
        }
        sent
    }

    /// Sums up the counters' answers to orders.
    pub(crate) fn end_survey(&self, facts: &Facts, scopes: &[Scope]) -> EndSurvey {
        let mut survey = EndSurvey::default();
        for entry in counting(facts, scopes) {
            survey.asked += 1;
            if let Some(endable) =
                self.find(entry.queue).and_then(|counter| counter.endable(facts.now))
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
        facts: &Facts,
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
        self.counters.iter_mut().for_each(|(_, counter)| counter.listing = None);
    }

    /// The dead counters that leave the index: those that are forgotten, and the oldest of too
    /// many.
    pub(crate) fn to_remove(&self, facts: &Facts) -> Vec<Queue> {
        let is_dead = |entry: &&IndexEntry| {
            self.find(entry.queue).is_some_and(|counter| counter.is_dead(facts.now))
        };
        // The index is in the order in which the counters have begun.
        let entries: Vec<&IndexEntry> = facts.index.iter().filter(is_dead).collect();
        let mut surplus = (entries.len() as u64).saturating_sub(MOST_DEAD);
        let is_forgotten = |entry: &IndexEntry| {
            entry.written_off.is_some_and(|then| facts.now - then >= FORGOTTEN_AFTER)
        };
        let mut queues = Vec::new();
        for entry in entries {
            if surplus > 0 || is_forgotten(entry) {
                queues.push(entry.queue);
            }
            surplus = surplus.saturating_sub(1);
        }
        queues
    }
}

/// The entries of some scopes that were not written off.
fn counting<'f>(facts: &'f Facts, scopes: &'f [Scope]) -> impl Iterator<Item = &'f IndexEntry> {
    facts.index.iter().filter(|entry| scopes.contains(&entry.scope) && entry.written_off.is_none())
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
