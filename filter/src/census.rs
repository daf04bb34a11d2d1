//! Who counts: every counting VM has a queue and stands in an index; whoever wants to know asks
//! them all, and the living answer.
//!
//! A gauge alone does not tell whether anybody counts, nor whether a VM died with streams in its
//! count. The answers do.

use core::cell::Cell;

use crate::config::wire::Scope;
use crate::gate::latch;
use crate::host::{Control, change};
use crate::parse::{self, digits};
use crate::roll::{self, Clock, Each};

/// How long a member minds the gate after it was asked to; milliseconds.
const GUARD: u64 = 3_000;
/// Where the index is.
const INDEX: &str = "laststream.index";
/// Where the scopes are whose counters this Envoy rejects.
const REJECTED: &str = "laststream.rejected";
/// Where the last number given away is.
const NUMBERS: &str = "laststream.number";

/// One who counts, as the index has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) queue: u32,
    pub(crate) scope: Scope,
    /// Since when it counts. Streams that began before may be counted by nobody, whoever else
    /// counted then.
    pub(crate) since: u64,
    /// Of which configuration it is: a worker whose VM died comes back with the same.
    pub(crate) configuration: u32,
}

impl Entry {
    fn line(&self) -> String {
        format!("{} {} {} {}\n", self.queue, self.scope, self.since, self.configuration)
    }

    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (queue, scope) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self {
            queue,
            scope,
            since: words.next()?.parse().ok()?,
            configuration: words.next()?.parse().ok()?,
        })
    }
}

pub(crate) fn index(host: &impl Control) -> Vec<Entry> {
    host.shared(INDEX).map_or_else(Vec::new, |(text, _)| entries(&text))
}

fn entries(text: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for line in core::str::from_utf8(text).unwrap_or_default().lines() {
        if let Some(entry) = Entry::read(line) {
            entries.push(entry);
        }
    }
    entries
}

/// Takes entries out of the index.
pub(crate) fn strike(host: &impl Control, gone: &[u32]) {
    change(host, INDEX, &mut |text| {
        let (mut stay, mut some_go) = (String::new(), false);
        for entry in entries(text.unwrap_or_default()) {
            if gone.contains(&entry.queue) {
                some_go = true;
            } else {
                stay.push_str(&entry.line());
            }
        }
        some_go.then(|| stay.into_bytes())
    });
}

/// Makes known that a counter of this scope does not count; for good, since Envoy reads its stats
/// matcher only once.
pub(crate) fn reject(host: &impl Control, scope: Scope) {
    let name: &str = scope.into();
    change(host, REJECTED, &mut |text| {
        let text = text.unwrap_or_default();
        (!names(text, scope)).then(|| [text, name.as_bytes(), b"\n"].concat())
    });
}

pub(crate) fn is_rejected(host: &impl Control, scope: Scope) -> bool {
    host.shared(REJECTED).is_some_and(|(text, _)| names(&text, scope))
}

fn names(text: &[u8], scope: Scope) -> bool {
    let own: &str = scope.into();
    core::str::from_utf8(text).unwrap_or_default().lines().any(|name| name == own)
}

/// A queue that nobody else has.
pub(crate) fn own_queue(host: &impl Control) -> Option<u32> {
    let mut own = 0_u64;
    let numbered = change(host, NUMBERS, &mut |text| {
        let last = text.and_then(digits::<u64>).unwrap_or_default();
        own = last + 1;
        Some(format!("{own}").into_bytes())
    });
    numbered.then(|| host.queue(&format!("laststream.queue.{own}"))).flatten()
}

/// For how long streams must ask whether the gate is closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Not at all.
    No,
    /// For a while.
    ForAWhile,
    /// For good: the process is to end.
    ForGood,
}

/// What a counting root tells of itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Member {
    queue: Cell<Option<u32>>,
    /// Streams that it has counted and that have not ended.
    pub(crate) live: Cell<u64>,
    /// Those of them that are long-lived.
    pub(crate) long: Cell<u64>,
    /// Streams that are not counted, by rule, and that have not ended.
    pub(crate) excluded: Cell<u64>,
    /// Until when each stream must ask whether the gate is closing; 0 when none need. It runs out
    /// by itself: a gate that dies must not refuse for ever.
    pub(crate) guards_until: Cell<u64>,
    /// Streams that began before this are long-lived by now.
    aged: Cell<u64>,
    /// How far the clock that never steps was behind the wall clock when there was last no stream.
    behind: Cell<Option<u64>>,
}

impl Member {
    /// Enters the index, once. Called from the first tick, because a VM that Envoy makes only to
    /// try a configuration never ticks; and from the first stream, which may come before that.
    pub(crate) fn enter(&self, host: &impl Control, scope: Scope, configuration: u32) {
        if self.queue.get().is_some() {
            return;
        }
        let Some(queue) = own_queue(host) else { return };
        self.queue.set(Some(queue));
        let now = host.now();
        // A signal may be on its way, of a gate that could not ask this counter yet.
        self.guard(host, if latch::is_sealed(host) { Guard::ForGood } else { Guard::ForAWhile });
        self.clock(host);
        let line = Entry { queue, scope, since: now, configuration }.line();
        change(host, INDEX, &mut |text| Some([text.unwrap_or_default(), line.as_bytes()].concat()));
    }

    /// Leaves the index: nothing is counted here any more.
    pub(crate) fn leave(&self, host: &impl Control) {
        if let Some(queue) = self.queue.take() {
            strike(host, &[queue]);
        }
    }

    /// Never for less than another worker's gate has asked for.
    fn guard(&self, host: &impl Control, guard: Guard) {
        let until = match guard {
            Guard::No => 0,
            Guard::ForAWhile => host.now().saturating_add(GUARD),
            Guard::ForGood => u64::MAX,
        };
        self.guards_until.set(self.guards_until.get().max(until));
    }

    /// How Envoy's times are read now. While there is no stream no step of the wall clock matters.
    fn clock(&self, host: &impl Control) -> Clock {
        let now = host.now();
        let behind = host.wall_clock().saturating_sub(now);
        if self.live.get() == 0 || self.behind.get().is_none() {
            self.behind.set(Some(behind));
        }
        Clock::new(now, behind, self.behind.get().unwrap_or(behind))
    }

    /// Answers every gate that asked.
    pub(crate) fn answer_all(&self, host: &impl Control, each: Each<'_>) {
        let Some(queue) = self.queue.get() else { return };
        while let Some(message) = host.receive(queue) {
            if let Some(ask) = Ask::read(&message) {
                self.guard(host, ask.guard);
                let clock = self.clock(host);
                if ask.older > self.aged.get() {
                    self.aged.set(ask.older);
                    roll::mark_older(host, each, clock, ask.older);
                }
                let [live, long, excluded] =
                    [&self.live, &self.long, &self.excluded].map(Cell::get);
                let mut text =
                    Here { queue, live, long, excluded, round: ask.round, asked: ask.at }.write();
                if ask.list > 0 {
                    text = format!(
                        "{text}\n{}",
                        roll::oldest(host, each, clock, ask.list, ask.plain_only)
                    );
                }
                host.send(ask.back, text.as_bytes());
            }
        }
    }
}

/// What a member holds, as a plain value: a state of the model checker.
#[cfg(all(test, not(target_arch = "wasm32")))]
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct MemberState {
    pub(crate) queue: Option<u32>,
    numbers: [u64; 5],
    behind: Option<u64>,
}

#[cfg(all(test, not(target_arch = "wasm32")))]
impl Member {
    pub(crate) fn state(&self) -> MemberState {
        let numbers =
            [&self.live, &self.long, &self.excluded, &self.guards_until, &self.aged].map(Cell::get);
        MemberState { queue: self.queue.get(), numbers, behind: self.behind.get() }
    }

    pub(crate) fn restore(&self, state: &MemberState) {
        let cells = [&self.live, &self.long, &self.excluded, &self.guards_until, &self.aged];
        cells.iter().zip(state.numbers).for_each(|(cell, number)| cell.set(number));
        self.queue.set(state.queue);
        self.behind.set(state.behind);
    }
}

impl Guard {
    fn of(number: u64) -> Self {
        match number {
            0 => Self::No,
            1 => Self::ForAWhile,
            _ => Self::ForGood,
        }
    }
}

/// "Who is there?"
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) back: u32,
    pub(crate) round: u64,
    pub(crate) guard: Guard,
    /// When it was asked.
    pub(crate) at: u64,
    /// Streams that began before this are long-lived from now on; 0 makes none so.
    pub(crate) older: u64,
    /// How many streams to list, the oldest first.
    pub(crate) list: usize,
    /// Long-lived ones are not to be listed.
    pub(crate) plain_only: bool,
}

impl Ask {
    pub(crate) fn write(self) -> String {
        let Self { back, round, guard, at, older, list, plain_only } = self;
        let (guard, plain_only) = (guard as u8, u8::from(plain_only));
        format!("ask {back} {round} {guard} {at} {older} {list} {plain_only}")
    }

    fn read(message: &[u8]) -> Option<Self> {
        let [back, round, guard, at, older, list, plain_only] =
            numbers("ask ", core::str::from_utf8(message).ok()?)?;
        let (back, list) = (u32::try_from(back).ok()?, usize::try_from(list).ok()?);
        Some(Self {
            back,
            round,
            guard: Guard::of(guard),
            at,
            older,
            list,
            plain_only: plain_only == 1,
        })
    }
}

/// "I am."
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Here {
    pub(crate) queue: u32,
    pub(crate) live: u64,
    pub(crate) long: u64,
    pub(crate) excluded: u64,
    pub(crate) round: u64,
    pub(crate) asked: u64,
}

impl Here {
    fn write(self) -> String {
        let Self { queue, live, long, excluded, round, asked } = self;
        format!("here {queue} {live} {long} {excluded} {round} {asked}")
    }

    /// With the listing, where one was asked for.
    pub(crate) fn read(message: &[u8]) -> Option<(Self, Option<&str>)> {
        let message = core::str::from_utf8(message).ok()?;
        let (first, listing) = message
            .split_once('\n')
            .map_or((message, None), |(first, listing)| (first, Some(listing)));
        let [queue, live, long, excluded, round, asked] = numbers("here ", first)?;
        Some((
            Self { queue: u32::try_from(queue).ok()?, live, long, excluded, round, asked },
            listing,
        ))
    }
}

fn numbers<const N: usize>(kind: &str, message: &str) -> Option<[u64; N]> {
    parse::numbers(&mut message.strip_prefix(kind)?.split(' '))
}
