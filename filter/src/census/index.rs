//! The shared index of counters, and the scopes whose metrics Envoy rejects.

use crate::config::wire::Scope;
use crate::host::{Control, compare_and_set_shared};
use crate::parse::digits;

/// The shared data key of the index.
const INDEX: &str = "laststream.index";
/// The shared data key of the scopes whose counters this Envoy rejects.
const REJECTED: &str = "laststream.rejected";
/// The shared data key of the last queue number that was assigned.
const NUMBERS: &str = "laststream.number";

/// The entry of one counter in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) queue: u32,
    pub(crate) scope: Scope,
    /// The time since which it counts. A stream that began earlier may be uncounted, even if
    /// another counter existed then.
    pub(crate) since: u64,
    /// The fingerprint of its configuration. A worker whose VM died returns with the same one.
    pub(crate) configuration: u32,
}

impl IndexEntry {
    fn to_line(self) -> String {
        format!("{} {} {} {}\n", self.queue, self.scope, self.since, self.configuration)
    }

    fn parse(line: &str) -> Option<Self> {
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

pub(crate) fn entries(host: &impl Control) -> Vec<IndexEntry> {
    host.get_shared_data(INDEX).map_or_else(Vec::new, |(text, _)| parse(&text))
}

fn parse(text: &[u8]) -> Vec<IndexEntry> {
    let mut entries = Vec::new();
    for line in core::str::from_utf8(text).unwrap_or_default().lines() {
        if let Some(entry) = IndexEntry::parse(line) {
            entries.push(entry);
        }
    }
    entries
}

pub(crate) fn add_to_index(host: &impl Control, entry: IndexEntry) {
    let line = entry.to_line();
    compare_and_set_shared(host, INDEX, &mut |text| {
        Some([text.unwrap_or_default(), line.as_bytes()].concat())
    });
}

pub(crate) fn remove_from_index(host: &impl Control, queues: &[u32]) {
    compare_and_set_shared(host, INDEX, &mut |text| {
        let (mut remaining, mut is_changed) = (String::new(), false);
        for entry in parse(text.unwrap_or_default()) {
            if queues.contains(&entry.queue) {
                is_changed = true;
            } else {
                remaining.push_str(&entry.to_line());
            }
        }
        is_changed.then(|| remaining.into_bytes())
    });
}

/// Publishes that Envoy rejects a counter of this scope. It is never removed, because Envoy
/// reads its stats matcher only once.
pub(crate) fn reject(host: &impl Control, scope: Scope) {
    let name: &str = scope.into();
    compare_and_set_shared(host, REJECTED, &mut |text| {
        let text = text.unwrap_or_default();
        (!contains_scope(text, scope)).then(|| [text, name.as_bytes(), b"\n"].concat())
    });
}

pub(crate) fn is_rejected(host: &impl Control, scope: Scope) -> bool {
    host.get_shared_data(REJECTED).is_some_and(|(text, _)| contains_scope(&text, scope))
}

fn contains_scope(text: &[u8], scope: Scope) -> bool {
    let own: &str = scope.into();
    core::str::from_utf8(text).unwrap_or_default().lines().any(|name| name == own)
}

/// Registers a queue under a number that no other root context has.
pub(crate) fn register_queue(host: &impl Control) -> Option<u32> {
    let mut own = 0_u64;
    let is_assigned = compare_and_set_shared(host, NUMBERS, &mut |text| {
        let last = text.and_then(digits::<u64>).unwrap_or_default();
        own = last + 1;
        Some(format!("{own}").into_bytes())
    });
    is_assigned.then(|| host.register_queue(&format!("laststream.queue.{own}"))).flatten()
}
