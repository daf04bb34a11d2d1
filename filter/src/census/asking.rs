//! The asking side of the census: a gate's rounds of requests, and its record of each counter.

use super::ending::EndReply;
use super::index::{self, IndexEntry, entries, register_queue, remove_from_index};
use super::known_end::{self, KnownEnd};
use super::messages::{CountReply, CountRequest, LatchCheck};
use super::survey::{ByLiveness, Liveness, Survey, SurveyOptions};
use crate::config::wire::Scope;
use crate::host::Control;

/// How long a reply may take, and how long it is valid; milliseconds. A worker may be busy for a
/// while.
const REPLY_TIMEOUT: u64 = 1_000;
/// The most messages to a counter since its last reply. A dead VM never reads its queue; a live one
/// reads all messages once it runs.
const MOST_UNREAD: u32 = 8;
/// A lost counter is written off after this silence; milliseconds. Its worker may merely not have
/// been scheduled, and would let streams begin while a signal passes. Other counters do not show
/// that it is dead, because a worker can have several of them.
pub(crate) const WRITE_OFF_AFTER: u64 = 10_000;
/// A counter that was written off this long ago, and has not replied since, leaves the index;
/// milliseconds.
pub(super) const GONE_AFTER: u64 = 600_000;
/// The most counters in the index that were written off; the oldest leave it first. A VM that dies
/// again and again must not make each round longer.
const MOST_WRITTEN_OFF: usize = 64;
/// A query joins the last round if that began less than this ago, because its replies are as good
/// as new; milliseconds.
const JUST_ASKED: u64 = 5;

/// A reply that has not arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct AwaitedReply {
    since: u64,
    /// How long Envoy's main thread had been busy with queries at that time.
    busy: u64,
}

/// The gate's record of one counter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct KnownCounter {
    awaited: Option<AwaitedReply>,
    /// Requests that were sent since its last reply.
    unread: u32,
    replied_at: u64,
    last_reply: CountReply,
    /// The listing of its streams, and the round of that listing.
    listing: Option<(u64, String)>,
    /// Its last replies about ends, one for each job.
    ends: Vec<KnownEnd>,
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

    fn liveness(&self, now: u64, busy: u64) -> Liveness {
        if self.is_late(now, busy) {
            Liveness::Lost
        } else if now.checked_sub(self.replied_at).is_some_and(|age| age < REPLY_TIMEOUT) {
            Liveness::Fresh
        } else {
            Liveness::Pending
        }
    }
}

/// The gate's choices for a round of requests; see [`CountRequest`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestOptions {
    pub(crate) latch_check: LatchCheck,
    pub(crate) long_lived_before: u64,
    pub(crate) list_limit: usize,
    pub(crate) plain_only: bool,
    pub(crate) older_than: u64,
    /// How long Envoy's main thread has been busy with queries.
    pub(crate) busy: u64,
}

/// One gate's view of the counters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Census {
    queue: Option<u32>,
    round: u64,
    asked_at: u64,
    known: Vec<(u32, KnownCounter)>,
    end_round: u64,
}

impl Census {
    pub(crate) fn owns_queue(&self, queue: u32) -> bool {
        self.queue == Some(queue)
    }

    fn find(&self, queue: u32) -> Option<&KnownCounter> {
        self.known.iter().find(|(other, _)| *other == queue).map(|(_, known)| known)
    }

    /// The last round of requests.
    pub(crate) fn round(&self) -> u64 {
        self.round
    }

    pub(crate) fn has_just_asked(&self, now: u64) -> bool {
        now.saturating_sub(self.asked_at) < JUST_ASKED
    }

    /// The gate's own queue, which also identifies the gate among those of other workers.
    pub(crate) fn queue(&self) -> Option<u32> {
        self.queue
    }

    /// The gate's own queue, registered when it is first needed.
    pub(crate) fn queue_or_register(&mut self, host: &impl Control) -> Option<u32> {
        if self.queue.is_none() {
            self.queue = register_queue(host);
        }
        self.queue
    }

    /// Sends a request to every counter.
    pub(crate) fn ask(&mut self, host: &impl Control, options: RequestOptions) {
        let Some(reply_to) = self.queue_or_register(host) else { return };
        self.round += 1;
        let now = host.monotonic_time();
        self.asked_at = now;
        let entries = self.remove_long_dead(host, entries(host));
        self.known.retain(|(queue, _)| entries.iter().any(|entry| entry.queue == *queue));
        let RequestOptions { latch_check, long_lived_before, list_limit, .. } = options;
        let RequestOptions { plain_only, older_than, busy, .. } = options;
        let request = CountRequest {
            reply_to,
            round: self.round,
            latch_check,
            sent_at: now,
            long_lived_before,
            list_limit,
            plain_only,
            older_than,
        };
        let message = request.to_text();
        for entry in entries {
            let known = self.find_or_insert(entry.queue);
            known.awaited = known.awaited.or(Some(AwaitedReply { since: now, busy }));
            if list_limit == 0 {
                known.listing = None;
            }
            if self.may_send(entry.queue) {
                host.enqueue(entry.queue, message.as_bytes());
            }
        }
    }

    /// The number of a round of ends. It is apart from [`Self::round`], whose numbers counts need.
    pub(super) fn next_end_round(&mut self) -> u64 {
        self.end_round += 1;
        self.end_round
    }

    /// A counter's last reply about a job, if it is still valid.
    pub(super) fn known_end(&self, queue: u32, job: u64, now: u64) -> Option<&KnownEnd> {
        known_end::of_job(&self.find(queue)?.ends, job, now)
    }

    /// Whether a counter may get another message; see [`MOST_UNREAD`].
    pub(super) fn may_send(&mut self, queue: u32) -> bool {
        let known = self.find_or_insert(queue);
        let may_send = known.unread < MOST_UNREAD;
        known.unread += u32::from(may_send);
        may_send
    }

    fn find_or_insert(&mut self, queue: u32) -> &mut KnownCounter {
        let index = self.known.iter().position(|(other, _)| *other == queue).unwrap_or_else(|| {
            self.known.push((queue, KnownCounter::default()));
            self.known.len() - 1
        });
        &mut self.known[index].1
    }

    /// Receives the replies that have arrived. Returns whether there was any.
    pub(crate) fn receive_replies(&mut self, host: &impl Control) -> bool {
        let Some(queue) = self.queue else { return false };
        let now = host.monotonic_time();
        let (mut has_reply, mut alive) = (false, Vec::new());
        while let Some(message) = host.dequeue(queue) {
            if let Some((reply, listing)) = CountReply::parse(&message)
                && let Some((_, known)) =
                    self.known.iter_mut().find(|(queue, _)| *queue == reply.queue)
            {
                (known.awaited, known.unread) = (None, 0);
                (known.replied_at, known.last_reply) = (now, reply);
                has_reply = true;
                alive.push(reply.queue);
                if let Some(listing) = listing {
                    known.listing = Some((reply.round, listing.into()));
                }
            } else if let Some((reply, listing)) = EndReply::parse(&message) {
                let known = self.find_or_insert(reply.queue);
                known.unread = 0;
                known_end::record(&mut known.ends, reply, now, listing);
                has_reply = true;
            }
        }
        if !alive.is_empty() {
            index::revive(host, &alive);
        }
        has_reply
    }

    /// Evaluates the last replies of all counters.
    pub(crate) fn survey(&self, host: &impl Control, options: SurveyOptions<'_>) -> Survey {
        let now = host.monotonic_time();
        let unknown = KnownCounter::default();
        let mut survey = Survey::new();
        let mut by_liveness = ByLiveness::default();
        for entry in entries(host) {
            let known = self.find(entry.queue).unwrap_or(&unknown);
            let liveness = match entry.is_written_off() {
                true => Liveness::WrittenOff,
                false => known.liveness(now, options.busy),
            };
            if liveness == Liveness::Fresh {
                survey.add(&entry, &known.last_reply, options, now);
            }
            if matches!(liveness, Liveness::Fresh | Liveness::Pending) {
                survey.completed_round = survey.completed_round.min(known.last_reply.round);
            }
            if options.scopes.contains(&entry.scope) {
                by_liveness.push(liveness, entry);
            }
        }
        survey.count_state = by_liveness.count_state(host, options.scopes);
        survey.completed_round = survey.completed_round.min(self.round);
        let ByLiveness { fresh, lost, .. } = by_liveness;
        if fresh.is_empty() {
            (survey.counting_since, survey.alive_until) = (now, now);
        }
        survey.counters = fresh.len() as u64;
        survey.lost = lost.iter().map(|entry| entry.queue).collect();
        survey.may_revive = survey.lost.iter().any(|queue| !self.is_silent(*queue, now));
        survey
    }

    /// The listings of this round or a later one, and whether every counter of the scopes has
    /// listed all of its streams.
    pub(crate) fn listings(
        &self,
        host: &impl Control,
        scopes: &[Scope],
        round: u64,
        plain_only: bool,
    ) -> (Vec<(Scope, &str)>, bool) {
        let mut listings = Vec::new();
        let mut is_complete = true;
        for entry in index::counting_entries(host, scopes) {
            match self.find(entry.queue) {
                Some(KnownCounter { listing: Some((listed_in, listing)), last_reply, .. })
                    if *listed_in >= round =>
                {
                    let long_lived = if plain_only { last_reply.long_lived } else { 0 };
                    let expected = last_reply.in_flight.saturating_sub(long_lived);
                    is_complete &=
                        listing.bytes().filter(|byte| *byte == b'\n').count() as u64 == expected;
                    listings.push((entry.scope, listing.as_str()));
                }
                _ => is_complete = false,
            }
        }
        (listings, is_complete)
    }

    /// Writes the lost counters off that have been silent for long. The caller has subtracted their
    /// streams from the count. They may only be slow and are asked again.
    pub(crate) fn write_off(&self, host: &impl Control, lost: &[u32]) {
        let now = host.monotonic_time();
        let silent: Vec<u32> =
            lost.iter().copied().filter(|queue| self.is_silent(*queue, now)).collect();
        index::write_off(host, &silent, now);
    }

    /// Whether a counter has not replied for [`WRITE_OFF_AFTER`].
    fn is_silent(&self, queue: u32, now: u64) -> bool {
        let awaited = self.find(queue).and_then(|known| known.awaited);
        awaited.is_some_and(|awaited| now.saturating_sub(awaited.since) >= WRITE_OFF_AFTER)
    }

    /// Removes the silent counters from the index that were written off long ago, or before many
    /// others.
    fn remove_long_dead(
        &self,
        host: &impl Control,
        mut entries: Vec<IndexEntry>,
    ) -> Vec<IndexEntry> {
        let now = host.monotonic_time();
        let written_off = entries.iter().filter(|entry| entry.is_written_off()).count();
        // The index is in the order in which the counters have begun.
        let mut surplus = written_off.saturating_sub(MOST_WRITTEN_OFF);
        let mut dead = Vec::new();
        for entry in entries.iter().filter(|entry| entry.is_written_off()) {
            let is_due = surplus > 0 || now.saturating_sub(entry.written_off) >= GONE_AFTER;
            if is_due && self.is_silent(entry.queue, now) {
                dead.push(entry.queue);
                surplus = surplus.saturating_sub(1);
            }
        }
        if !dead.is_empty() {
            remove_from_index(host, &dead);
            entries.retain(|entry| !dead.contains(&entry.queue));
        }
        entries
    }
}

#[cfg(test)]
#[path = "asking_tests.rs"]
mod tests;
