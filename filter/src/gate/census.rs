//! The gate's side of the census: rounds of asking, and what the answers are worth.

use alloc::string::String;
use alloc::vec::Vec;

use crate::census::{Ask, Entry, Here, index, is_rejected, own_queue, strike};
use crate::config::wire::Scope;
use crate::host::Control;

use super::machine::Trust;

/// How long an answer may take, and how long it is good; milliseconds. A worker may be busy for a while.
const PATIENCE: u64 = 1_000;

/// Of one who counts, what is known.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Since when an answer is waited for; 0 when none is.
    owes: u64,
    answered: u64,
    /// What it answered last.
    here: Here,
    /// The listing of its streams, and in which round that came.
    listing: Option<(u64, String)>,
}

/// One of the same configuration that began to count so much later than one that was never heard did so in its place; milliseconds.
const LATER: u64 = 5_000;

#[derive(Debug, Default)]
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
    pub(crate) guard: bool,
    pub(crate) older: u64,
    pub(crate) list: usize,
    pub(crate) plain_only: bool,
}

/// What the answers are worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Result {
    pub(crate) trust: Trust,
    pub(crate) living: u64,
    /// Those of them that are long-lived, and beside them those that are not counted by rule.
    pub(crate) long: u64,
    pub(crate) excluded: u64,
    /// Streams of other scopes, which are not waited for.
    pub(crate) elsewhere: u64,
    pub(crate) members: u64,
    /// Those that do not answer any more.
    pub(crate) lost: Vec<u32>,
    /// Those of them in whose place others count now.
    pub(crate) replaced: Vec<u32>,
    /// Since when all of them count.
    pub(crate) since: u64,
    /// Up to when all the living are known to have lived.
    pub(crate) seen: u64,
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

    /// Asks everybody, and tells them what the gate wants of their streams.
    pub(crate) fn ask(&mut self, host: &impl Control, wishes: Wishes) {
        if self.queue.is_none() {
            self.queue = own_queue(host);
        }
        let Some(back) = self.queue else { return };
        self.round += 1;
        let now = host.now();
        self.asked = now;
        let entries = index(host);
        self.keep(&mut |queue| entries.iter().any(|entry| entry.queue == queue));
        for entry in entries {
            match self.known.iter_mut().find(|(queue, _)| *queue == entry.queue) {
                None => self.known.push((entry.queue, Known { owes: now, ..Known::default() })),
                Some((_, known)) => {
                    known.owes = if known.owes == 0 { now } else { known.owes };
                    if wishes.list == 0 {
                        known.listing = None;
                    }
                }
            }
            let Wishes { guard, older, list, plain_only } = wishes;
            let ask = Ask { back, round: self.round, guard, at: now, older, list, plain_only };
            host.send(entry.queue, ask.write().as_bytes());
        }
    }

    /// Takes the answers that have come.
    pub(crate) fn hear(&mut self, host: &impl Control) {
        let Some(queue) = self.queue else { return };
        let now = host.now();
        while let Some(message) = host.receive(queue) {
            if let Some((here, listing)) = Here::read(&message)
                && let Some((_, known)) = self.known.iter_mut().find(|(queue, _)| *queue == here.queue)
            {
                (known.owes, known.answered, known.here) = (0, now, here);
                if let Some(listing) = listing {
                    known.listing = Some((here.round, listing.into()));
                }
            }
        }
    }

    /// The last round that everybody has answered, and minds the gate as it asked. None: nobody was asked.
    pub(crate) fn completed(&self, host: &impl Control) -> Option<u64> {
        let answered = |entry: &Entry| self.find(entry.queue).map_or(0, |known| known.here.round);
        (self.round > 0).then(|| index(host).iter().map(answered).min().unwrap_or(self.round))
    }

    /// What is known now of those who count these scopes.
    pub(crate) fn result(&self, host: &impl Control, scopes: &[Scope]) -> Result {
        let now = host.now();
        let nothing = Known::default();
        let (mut fresh, mut lost): (Vec<Entry>, Vec<Entry>) = (Vec::new(), Vec::new());
        let (mut asking, mut since, mut seen) = (false, None, u64::MAX);
        let (mut living, mut long, mut excluded, mut elsewhere) = (0, 0, 0, 0);
        let mut counted = Vec::new();
        for entry in index(host) {
            let Known { owes, answered, here, .. } = self.find(entry.queue).unwrap_or(&nothing);
            let is_late = *owes > 0 && now.saturating_sub(*owes) >= PATIENCE;
            let is_fresh = !is_late && now.saturating_sub(*answered) < PATIENCE;
            if !scopes.contains(&entry.scope) {
                elsewhere += if is_fresh { here.live + here.excluded } else { 0 };
                continue;
            }
            counted.push(entry.scope);
            since = since.max(Some(entry.since));
            if is_fresh {
                living += here.live;
                long += here.long;
                excluded += here.excluded;
                seen = seen.min(here.asked);
                fresh.push(entry);
            } else if is_late {
                lost.push(entry);
            } else {
                asking = true;
            }
        }
        let trust = if !lost.is_empty() {
            Trust::Leaking
        } else if !scopes.iter().all(|scope| counted.contains(scope)) {
            Trust::Unknown
        } else if scopes.iter().any(|scope| is_rejected(host, *scope)) {
            Trust::Rejected
        } else if asking {
            Trust::Asking
        } else {
            Trust::Exact
        };
        let (mut gone, mut replaced) = (Vec::new(), Vec::new());
        for entry in &lost {
            gone.push(entry.queue);
            if self.is_replaced(entry, &lost, &fresh) {
                replaced.push(entry.queue);
            }
        }
        Result {
            trust,
            living,
            long,
            excluded,
            elsewhere,
            members: fresh.len() as u64,
            lost: gone,
            replaced,
            since: since.unwrap_or(now),
            seen: if fresh.is_empty() { now } else { seen },
        }
    }

    /// Whether as many of the same kind have begun to count as are lost.
    fn is_replaced(&self, gone: &Entry, lost: &[Entry], fresh: &[Entry]) -> bool {
        let died = self.find(gone.queue).map_or(0, |known| known.answered).max(gone.since + LATER);
        let same = |entry: &&Entry| entry.configuration == gone.configuration && entry.scope == gone.scope;
        let newer = fresh.iter().filter(same).filter(|entry| entry.since >= died).count();
        newer >= lost.iter().filter(same).count() || !fresh.is_empty() && !fresh.iter().any(|entry| same(&entry))
    }

    /// Hands over the listings that came in this round or later, by scope, and says whether none is missing or shorter than it should be.
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
                    complete &= listing.bytes().filter(|byte| *byte == b'\n').count() as u64 == there;
                    take(entry.scope, listing);
                }
                _ => complete = false,
            }
        }
        complete
    }

    /// Forgets those whose count was put right, and in whose place others count. A worker where nobody does is not forgotten.
    pub(crate) fn bury(&mut self, host: &impl Control, replaced: &[u32]) {
        strike(host, replaced);
        self.keep(&mut |queue| !replaced.contains(&queue));
    }

    /// Forgets all others.
    fn keep(&mut self, stays: &mut dyn FnMut(u32) -> bool) {
        self.known.retain(|(queue, _)| stays(*queue));
    }
}
