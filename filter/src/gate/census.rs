//! The gate's side of the census: rounds of asking, and what the answers are worth.

use std::collections::BTreeMap;

use crate::census::{Ask, Entry, Here, index, own_queue, strike};
use crate::config::wire::Scope;
use crate::host::Control;

use super::machine::Trust;

/// How long an answer may take, and how long it is good; milliseconds. A worker may be busy for a while.
const PATIENCE: u64 = 1_000;

/// Of one who counts, what is known.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    asked_first: u64,
    answered: u64,
    round: u64,
    live: u64,
    guard: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Census {
    queue: Option<u32>,
    round: u64,
    known: BTreeMap<u32, Known>,
}

/// What the answers are worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Result {
    pub(crate) trust: Trust,
    pub(crate) living: u64,
    pub(crate) members: u64,
    /// Those that do not answer any more.
    pub(crate) lost: Vec<u32>,
    /// Since when all scopes are counted without a gap.
    pub(crate) since: u64,
}

impl Census {
    pub(crate) fn is_mine(&self, queue: u32) -> bool {
        self.queue == Some(queue)
    }

    /// Asks everybody, and tells them whether their streams must mind the gate.
    pub(crate) fn ask(&mut self, host: &impl Control, guard: bool) {
        if self.queue.is_none() {
            self.queue = own_queue(host);
        }
        let Some(back) = self.queue else { return };
        self.round += 1;
        let now = host.now();
        let entries = index(host);
        self.known.retain(|queue, _| entries.iter().any(|entry| entry.queue == *queue));
        for entry in entries {
            let known = self.known.entry(entry.queue).or_default();
            if known.asked_first == 0 {
                known.asked_first = now;
            }
            host.send(entry.queue, Ask { back, round: self.round, guard }.write().as_bytes());
        }
    }

    /// Takes the answers that have come.
    pub(crate) fn hear(&mut self, host: &impl Control) {
        let Some(queue) = self.queue else { return };
        let now = host.now();
        while let Some(message) = host.receive(queue) {
            if let Some(here) = Here::read(&message)
                && let Some(known) = self.known.get_mut(&here.queue)
            {
                *known = Known { answered: now, round: here.round, live: here.live, guard: here.guard, ..*known };
            }
        }
    }

    /// Whether everybody has answered the last round, and minds the gate as that round asked.
    pub(crate) fn is_complete(&self, host: &impl Control, guard: bool) -> bool {
        self.round > 0
            && index(host)
                .iter()
                .all(|entry| self.known.get(&entry.queue).is_some_and(|known| known.round == self.round && known.guard == guard))
    }

    /// What is known now of those who count these scopes.
    pub(crate) fn result(&self, host: &impl Control, scopes: &[Scope]) -> Result {
        let now = host.now();
        let entries: Vec<Entry> = index(host).into_iter().filter(|entry| scopes.contains(&entry.scope)).collect();
        let known = |entry: &Entry| self.known.get(&entry.queue).copied().unwrap_or_default();
        let fresh = |entry: &&Entry| now.saturating_sub(known(entry).answered) < PATIENCE;
        let late = |entry: &&Entry| {
            let known = known(entry);
            known.asked_first > 0 && now.saturating_sub(known.asked_first.max(known.answered)) >= PATIENCE
        };
        let lost: Vec<u32> = entries.iter().filter(late).map(|entry| entry.queue).collect();
        let everywhere = scopes.iter().all(|scope| entries.iter().any(|entry| entry.scope == *scope));
        let trust = if !lost.is_empty() {
            Trust::Leaking
        } else if !everywhere {
            Trust::Unknown
        } else if entries.iter().all(|entry| fresh(&entry)) {
            Trust::Exact
        } else {
            Trust::Asking
        };
        Result {
            trust,
            living: entries.iter().filter(fresh).map(|entry| known(entry).live).sum(),
            members: entries.iter().filter(fresh).count() as u64,
            lost,
            since: entries.iter().map(|entry| entry.since).max().unwrap_or(now),
        }
    }

    /// Forgets those whose count was put right.
    pub(crate) fn bury(&mut self, host: &impl Control, lost: &[u32]) {
        strike(host, lost);
        self.known.retain(|queue, _| !lost.contains(queue));
    }
}
