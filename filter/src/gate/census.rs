//! The gate's side of the census: rounds of asking, and what the answers are worth.

use crate::census::{Ask, Entry, Guard, Here, index, is_rejected, own_queue, strike};
use crate::config::wire::Scope;
use crate::host::Control;

use super::machine::Trust;
use super::witness::Sides;

/// How long an answer may take, and how long it is good; milliseconds. A worker may be busy for a
/// while.
const PATIENCE: u64 = 1_000;
/// One of the same configuration that began to count so much later than one that was never heard
/// did so in its place; milliseconds.
const LATER: u64 = 5_000;
/// A dead VM reads no message and gets no more than so many; a living one reads them all once it
/// runs.
const MOST_UNREAD: u32 = 8;
/// A counter in whose place no other counts is written off only after so long a silence: its worker
/// may merely not have been scheduled, and would let streams begin while a signal passes;
/// milliseconds.
const SILENT_FOR: u64 = 10_000;
/// A counter that was written off and has said nothing for so long does not come back;
/// milliseconds.
const GONE_AFTER: u64 = 600_000;

/// Of one counter, what is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Known {
    /// Since when an answer is waited for, and how long Envoy's main thread had been busy with
    /// questions then.
    owes: Option<Owes>,
    /// Messages that were sent since it last answered.
    unread: u32,
    answered: u64,
    /// What it answered last.
    here: Here,
    /// The listing of its streams, and in which round that came.
    listing: Option<(u64, String)>,
    /// Its streams were taken off the count, and since when that is so. It holds nothing until it
    /// answers again.
    written_off: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Owes {
    since: u64,
    busy: u64,
}

impl Known {
    /// The time for which our own questions kept Envoy busy does not count against it.
    fn is_late(&self, now: u64, busy: u64) -> bool {
        self.owes.is_some_and(|owes| {
            now.saturating_sub(owes.since)
                >= PATIENCE.saturating_add(busy.saturating_sub(owes.busy))
        })
    }
}

/// What the last answer of a counter, or its silence, is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It has answered lately.
    Fresh,
    /// It may still answer.
    Pending,
    /// It does not answer any more.
    Lost,
    WrittenOff,
}

impl Known {
    fn standing(&self, now: u64, busy: u64) -> Standing {
        if self.written_off.is_some() {
            Standing::WrittenOff
        } else if self.is_late(now, busy) {
            Standing::Lost
        } else if now.checked_sub(self.answered).is_some_and(|age| age < PATIENCE) {
            Standing::Fresh
        } else {
            Standing::Pending
        }
    }
}

/// The counters of the gate's scopes.
#[derive(Debug, Default)]
struct ByStanding {
    fresh: Vec<Entry>,
    pending: Vec<Entry>,
    lost: Vec<Entry>,
}

impl ByStanding {
    fn put(&mut self, standing: Standing, entry: Entry) {
        match standing {
            Standing::Fresh => self.fresh.push(entry),
            Standing::Pending => self.pending.push(entry),
            Standing::Lost => self.lost.push(entry),
            Standing::WrittenOff => {}
        }
    }

    fn trust(&self, host: &impl Control, scopes: &[Scope]) -> Trust {
        let counts = |scope: &Scope| {
            [&self.fresh, &self.pending].into_iter().flatten().any(|entry| entry.scope == *scope)
        };
        if !self.lost.is_empty() {
            Trust::Leaking
        } else if !scopes.iter().all(counts) {
            Trust::Unknown
        } else if scopes.iter().any(|scope| is_rejected(host, *scope)) {
            Trust::Rejected
        } else if !self.pending.is_empty() {
            Trust::Asking
        } else {
            Trust::Exact
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Census {
    queue: Option<u32>,
    round: u64,
    /// When it was asked.
    asked: u64,
    known: Vec<(u32, Known)>,
}

/// What the gate wants of those who count; see [`Ask`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wishes {
    pub(crate) guard: Guard,
    pub(crate) older: u64,
    pub(crate) list: usize,
    pub(crate) plain_only: bool,
    /// How long Envoy's main thread has been busy with questions.
    pub(crate) busy: u64,
}

/// What the answers are worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Survey {
    /// By the counters alone.
    pub(crate) trust: Trust,
    pub(crate) living: u64,
    pub(crate) members: u64,
    /// Those that do not answer any more.
    pub(crate) lost: Vec<u32>,
    /// Those of them in whose place others count now.
    pub(crate) replaced: Vec<u32>,
    /// Since when all of them count.
    pub(crate) since: u64,
    /// Up to when all the living are known to have lived.
    pub(crate) seen: u64,
    /// The last round that all have answered who can be expected to, and whose wishes they mind.
    pub(crate) completed: u64,
    /// Streams that need not be waited for, of those counters that have answered the round that was
    /// asked for: of these scopes and of others.
    pub(crate) idle: Sides,
}

/// What is wanted of a survey.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'s> {
    pub(crate) scopes: &'s [Scope],
    /// Long-lived streams need not be waited for.
    pub(crate) exempts: bool,
    /// The round from which on answers tell of idle streams.
    pub(crate) idle_since: u64,
    /// How long Envoy's main thread has been busy with questions.
    pub(crate) busy: u64,
}

impl Survey {
    fn new() -> Self {
        Self {
            trust: Trust::Exact,
            living: 0,
            members: 0,
            lost: Vec::new(),
            replaced: Vec::new(),
            since: 0,
            seen: u64::MAX,
            completed: u64::MAX,
            idle: [0; 2],
        }
    }
}

impl Census {
    pub(crate) fn is_mine(&self, queue: u32) -> bool {
        self.queue == Some(queue)
    }

    fn find(&self, queue: u32) -> Option<&Known> {
        self.known.iter().find(|(other, _)| *other == queue).map(|(_, known)| known)
    }

    /// The round that was asked last.
    pub(crate) fn round(&self) -> u64 {
        self.round
    }

    /// So lately that answers to it are as good as new.
    pub(crate) fn has_just_asked(&self, now: u64) -> bool {
        now.saturating_sub(self.asked) < 5
    }

    /// What tells this gate from those of other workers.
    pub(crate) fn me(&self) -> Option<u32> {
        self.queue
    }

    /// The gate's own queue, which is made when it is first needed.
    pub(crate) fn queue(&mut self, host: &impl Control) -> Option<u32> {
        if self.queue.is_none() {
            self.queue = own_queue(host);
        }
        self.queue
    }

    /// Asks everybody, and tells them what the gate wants of their streams.
    pub(crate) fn ask(&mut self, host: &impl Control, wishes: Wishes) {
        let Some(back) = self.queue(host) else { return };
        self.round += 1;
        let now = host.now();
        self.asked = now;
        let entries = index(host);
        self.known.retain(|(queue, _)| entries.iter().any(|entry| entry.queue == *queue));
        let Wishes { guard, older, list, plain_only, busy } = wishes;
        let message =
            Ask { back, round: self.round, guard, at: now, older, list, plain_only }.write();
        for entry in entries {
            let known = self.known_or_new(entry.queue);
            known.owes = known.owes.or(Some(Owes { since: now, busy }));
            if list == 0 {
                known.listing = None;
            }
            if known.unread < MOST_UNREAD {
                known.unread += 1;
                host.send(entry.queue, message.as_bytes());
            }
        }
    }

    fn known_or_new(&mut self, queue: u32) -> &mut Known {
        let index = self.known.iter().position(|(other, _)| *other == queue).unwrap_or_else(|| {
            self.known.push((queue, Known::default()));
            self.known.len() - 1
        });
        &mut self.known[index].1
    }

    /// Takes the answers that have come, and says whether there were any.
    pub(crate) fn hear(&mut self, host: &impl Control) -> bool {
        let Some(queue) = self.queue else { return false };
        let now = host.now();
        let mut is_answered = false;
        while let Some(message) = host.receive(queue) {
            if let Some((here, listing)) = Here::read(&message)
                && let Some((_, known)) =
                    self.known.iter_mut().find(|(queue, _)| *queue == here.queue)
            {
                (known.owes, known.unread, known.written_off) = (None, 0, None);
                (known.answered, known.here) = (now, here);
                is_answered = true;
                if let Some(listing) = listing {
                    known.listing = Some((here.round, listing.into()));
                }
            }
        }
        is_answered
    }

    /// What is known now of those who count.
    pub(crate) fn survey(&self, host: &impl Control, wanted: Wanted<'_>) -> Survey {
        let now = host.now();
        let nothing = Known::default();
        let mut survey = Survey::new();
        let mut by_standing = ByStanding::default();
        for entry in index(host) {
            let known = self.find(entry.queue).unwrap_or(&nothing);
            let standing = known.standing(now, wanted.busy);
            if standing == Standing::Fresh {
                survey.take(&entry, &known.here, wanted, now);
            }
            if matches!(standing, Standing::Fresh | Standing::Pending) {
                survey.completed = survey.completed.min(known.here.round);
            }
            if wanted.scopes.contains(&entry.scope) {
                by_standing.put(standing, entry);
            }
        }
        let ByStanding { fresh, lost, .. } = &by_standing;
        survey.trust = by_standing.trust(host, wanted.scopes);
        survey.completed = survey.completed.min(self.round);
        if fresh.is_empty() {
            (survey.since, survey.seen) = (now, now);
        }
        survey.members = fresh.len() as u64;
        survey.replaced = lost
            .iter()
            .filter(|entry| self.is_replaced(entry, lost, fresh))
            .map(|entry| entry.queue)
            .collect();
        survey.lost = lost.iter().map(|entry| entry.queue).collect();
        survey
    }

    /// Whether as many of the same kind have begun to count as are lost.
    fn is_replaced(&self, gone: &Entry, lost: &[Entry], fresh: &[Entry]) -> bool {
        let died = self
            .find(gone.queue)
            .map_or(0, |known| known.answered)
            .max(gone.since.saturating_add(LATER));
        let same =
            |entry: &&Entry| entry.configuration == gone.configuration && entry.scope == gone.scope;
        let newer = fresh.iter().filter(same).filter(|entry| entry.since >= died).count();
        newer >= lost.iter().filter(same).count()
            || !fresh.is_empty() && !fresh.iter().any(|entry| same(&entry))
    }

    /// Hands over the listings that came in this round or later, by scope, and says whether none is
    /// missing or shorter than it should be.
    pub(crate) fn listings<'c>(
        &'c self,
        host: &impl Control,
        scopes: &[Scope],
        round: u64,
        plain_only: bool,
        take: &mut dyn FnMut(Scope, &'c str),
    ) -> bool {
        let mut complete = true;
        for entry in index(host).iter().filter(|entry| scopes.contains(&entry.scope)) {
            match self.find(entry.queue) {
                Some(Known { listing: Some((when, listing)), here, .. }) if *when >= round => {
                    let there = if plain_only { here.live - here.long } else { here.live };
                    complete &=
                        listing.bytes().filter(|byte| *byte == b'\n').count() as u64 == there;
                    take(entry.scope, listing);
                }
                _ => complete = false,
            }
        }
        complete
    }

    /// The streams of those were taken off the count. Those in whose place others count are
    /// forgotten, and so are those that have been silent for long; the rest may only have been
    /// slow, and are asked again.
    pub(crate) fn write_off(&mut self, host: &impl Control, lost: &[u32], replaced: &[u32]) {
        let now = host.now();
        for (queue, known) in &mut self.known {
            let is_silent =
                known.owes.is_some_and(|owes| now.saturating_sub(owes.since) >= SILENT_FOR);
            if lost.contains(queue) && is_silent {
                known.written_off = known.written_off.or(Some(now));
            }
        }
        let is_gone = |known: &Known| {
            known.written_off.is_some_and(|since| now.saturating_sub(since) >= GONE_AFTER)
        };
        let mut gone: Vec<u32> = self
            .known
            .iter()
            .filter(|(_, known)| is_gone(known))
            .map(|(queue, _)| *queue)
            .collect();
        gone.extend(replaced);
        strike(host, &gone);
        self.known.retain(|(queue, _)| !gone.contains(queue));
    }
}

impl Survey {
    /// One that has answered.
    fn take(&mut self, entry: &Entry, here: &Here, wanted: Wanted<'_>, now: u64) {
        let counts_idle = here.round >= wanted.idle_since;
        if !wanted.scopes.contains(&entry.scope) {
            self.idle[1] += if counts_idle { here.live + here.excluded } else { 0 };
            return;
        }
        // A time to come is of another clock: of a module that counted in wall time.
        self.since = self.since.max(entry.since.min(now));
        self.living += here.live;
        self.idle[0] += if counts_idle {
            here.excluded + if wanted.exempts { here.long } else { 0 }
        } else {
            0
        };
        self.seen = self.seen.min(here.asked);
    }
}
