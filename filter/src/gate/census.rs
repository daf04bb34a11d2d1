//! The gate's side of the census: rounds of asking, and what the answers are worth.

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
        self.known.retain(|(queue, _)| entries.iter().any(|entry| entry.queue == *queue));
        for entry in entries {
            match self.known.iter_mut().find(|(queue, _)| *queue == entry.queue) {
                None => self.known.push((entry.queue, Known { owes: now, ..Known::default() })),
                Some((_, known)) => {
                    known.owes = if known.owes == 0 { now } else { known.owes };
                    known.listing.take_if(|_| wishes.list == 0);
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
                let listing = listing.map(|listing| (here.round, listing.to_owned())).or(known.listing.take());
                *known = Known { owes: 0, answered: now, here, listing };
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
        let (entries, others): (Vec<Entry>, Vec<Entry>) = index(host).into_iter().partition(|entry| scopes.contains(&entry.scope));
        let nothing = Known::default();
        let known = |entry: &Entry| self.find(entry.queue).unwrap_or(&nothing);
        let late = |entry: &Entry| matches!(known(entry).owes, owes if owes > 0 && now.saturating_sub(owes) >= PATIENCE);
        let fresh = |entry: &&Entry| now.saturating_sub(known(entry).answered) < PATIENCE && !late(entry);
        let lost: Vec<Entry> = entries.iter().filter(|entry| late(entry)).copied().collect();
        let living: Vec<Here> = entries.iter().filter(fresh).map(|entry| known(entry).here).collect();
        let replaced = |gone: &Entry| {
            let died = known(gone).answered.max(gone.since + LATER);
            let same = |entry: &&Entry| entry.configuration == gone.configuration && entry.scope == gone.scope;
            let others = entries.iter().filter(fresh).filter(same);
            let (all, newer) = others.fold((0, 0), |(all, newer), entry| (all + 1, newer + usize::from(entry.since >= died)));
            all == 0 && !living.is_empty() || newer >= lost.iter().filter(same).count()
        };
        let everywhere = scopes.iter().all(|scope| entries.iter().any(|entry| entry.scope == *scope));
        let trust = if !lost.is_empty() {
            Trust::Leaking
        } else if !everywhere {
            Trust::Unknown
        } else if scopes.iter().any(|scope| is_rejected(host, *scope)) {
            Trust::Rejected
        } else if entries.iter().all(|entry| fresh(&entry)) {
            Trust::Exact
        } else {
            Trust::Asking
        };
        Result {
            trust,
            living: living.iter().map(|here| here.live).sum(),
            long: living.iter().map(|here| here.long).sum(),
            excluded: living.iter().map(|here| here.excluded).sum(),
            elsewhere: others.iter().filter(fresh).map(|entry| known(entry).here).map(|here| here.live + here.excluded).sum(),
            members: living.len() as u64,
            replaced: lost.iter().filter(|gone| replaced(gone)).map(|gone| gone.queue).collect(),
            lost: lost.iter().map(|gone| gone.queue).collect(),
            since: entries.iter().map(|entry| entry.since).max().unwrap_or(now),
            seen: living.iter().map(|here| here.asked).min().unwrap_or(now),
        }
    }

    /// The listings that came in this round or later, by scope, and whether none is missing or shorter than it should be.
    pub(crate) fn listings(&self, host: &impl Control, scopes: &[Scope], round: u64, plain_only: bool) -> (Vec<(Scope, &str)>, bool) {
        let mut complete = true;
        let mut listings = Vec::new();
        for entry in index(host).iter().filter(|entry| scopes.contains(&entry.scope)) {
            match self.find(entry.queue) {
                Some(Known { listing: Some((when, listing)), here, .. }) if *when >= round => {
                    let there = if plain_only { here.live - here.long } else { here.live };
                    complete &= listing.lines().count() as u64 == there;
                    listings.push((entry.scope, listing.as_str()));
                }
                _ => complete = false,
            }
        }
        (listings, complete)
    }

    /// Forgets those whose count was put right, and in whose place others count. A worker where nobody does is not forgotten.
    pub(crate) fn bury(&mut self, host: &impl Control, replaced: &[u32]) {
        strike(host, replaced);
        self.known.retain(|(queue, _)| !replaced.contains(queue));
    }
}
