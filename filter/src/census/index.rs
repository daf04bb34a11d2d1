//! The shared index of counters, and the scopes whose metrics Envoy rejects.

use laststream_drain::counts::IndexEntry;
use laststream_drain::state::{Moment, Queue};

use crate::config::wire::Scope;
use crate::host::{Control, compare_and_set_shared};
use crate::shared_text::{self, to_text};

/// An index of those that reply to a round, under its shared data key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Index(&'static str);

impl Index {
    /// Counters of streams.
    pub(crate) const COUNTERS: Self = Self("laststream.index");
    /// The gates of all workers, where Envoy's own count is the only one.
    pub(crate) const BEATS: Self = Self("laststream.beats");
}

impl Default for Index {
    fn default() -> Self {
        Self::COUNTERS
    }
}

/// The shared data key of the scopes whose counters this Envoy rejects.
const REJECTED: &str = "laststream.rejected";
/// The shared data key of the last queue number that was assigned.
const NUMBERS: &str = "laststream.number";

pub(crate) fn entries(host: &impl Control, index: Index) -> Vec<IndexEntry> {
    let (text, _) = host.get_shared_data(index.0).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().filter_map(shared_text::parse).collect()
}

pub(super) fn contains(host: &impl Control, index: Index, queue: Queue) -> bool {
    entries(host, index).iter().any(|entry| entry.queue == queue)
}

pub(crate) fn add_to_index(host: &impl Control, index: Index, entry: IndexEntry) {
    let line = to_text(&entry) + "\n";
    compare_and_set_shared(host, index.0, &mut |text| {
        Some([text.unwrap_or_default(), line.as_bytes()].concat())
    });
}

pub(crate) fn remove_from_index(host: &impl Control, index: Index, queues: &[Queue]) {
    change(host, index, &mut |entry| (!queues.contains(&entry.queue)).then_some(entry));
}

/// Marks counters as written off, for all gates, or takes the mark from counters that have replied.
/// An earlier mark stays.
pub(crate) fn write_off(host: &impl Control, index: Index, queues: &[Queue], at: Option<Moment>) {
    change(host, index, &mut |mut entry| {
        if queues.contains(&entry.queue) {
            entry.written_off = at.map(|now| entry.written_off.unwrap_or(now));
        }
        Some(entry)
    });
}

/// Changes or removes entries. A line that this version of the module cannot parse stays as it is,
/// and so does one that does not change. The text is written only if that makes a difference.
fn change(
    host: &impl Control,
    index: Index,
    work: &mut dyn FnMut(IndexEntry) -> Option<IndexEntry>,
) {
    compare_and_set_shared(host, index.0, &mut |text| {
        let before = core::str::from_utf8(text.unwrap_or_default()).ok()?;
        let mut after = String::new();
        for line in before.lines() {
            let entry = shared_text::parse(line);
            match entry.map(&mut *work) {
                Some(None) => continue,
                Some(Some(changed)) if Some(changed) != entry => after += &to_text(&changed),
                _ => after += line,
            }
            after.push('\n');
        }
        (after != before).then(|| after.into_bytes())
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
    let word: &str = scope.into();
    core::str::from_utf8(text).unwrap_or_default().lines().any(|line| line == word)
}

/// Registers a queue under a number that no other root context has.
pub(crate) fn register_queue(host: &impl Control) -> Option<Queue> {
    let mut number = 0;
    let is_assigned = shared_text::update(host, NUMBERS, &mut |last: &mut u64| {
        *last += 1;
        number = *last;
    });
    let name = format!("laststream.queue.{number}");
    is_assigned.then(|| host.register_queue(&name)).flatten().map(Queue)
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{
        Index, IndexEntry, Moment, Queue, add_to_index, entries, remove_from_index, write_off,
    };
    use crate::config::wire::Scope;
    use crate::fake::Fake;
    use crate::host::Control as _;

    fn entry(queue: u32) -> IndexEntry {
        let (queue, scope, since) = (Queue(queue), Scope::Gateway, Moment(5));
        IndexEntry { queue, scope, since, written_off: None }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_counter_that_was_written_off_is_revived() {
        let host = Fake::default();
        for queue in [3, 4] {
            add_to_index(&host, Index::COUNTERS, entry(queue));
        }
        write_off(&host, Index::COUNTERS, &[Queue(3), Queue(9)], Some(Moment(70)));
        write_off(&host, Index::COUNTERS, &[Queue(3)], Some(Moment(80)));
        let written_off = IndexEntry { written_off: Some(Moment(70)), ..entry(3) };
        assert_eq!(entries(&host, Index::COUNTERS), [written_off, entry(4)]);
        write_off(&host, Index::COUNTERS, &[Queue(3), Queue(4)], None);
        assert_eq!(entries(&host, Index::COUNTERS), [entry(3), entry(4)]);
    }

    /// The module is replaced by a later version, or by an earlier one, while a drain goes on.
    #[wasm_bindgen_test(unsupported = test)]
    fn lines_that_this_version_cannot_read_stay() {
        let host = Fake::default();
        let later = "2 3 0 5 0\n?\n";
        assert!(host.set_shared_data(Index::COUNTERS.0, later.as_bytes(), None));
        add_to_index(&host, Index::COUNTERS, entry(7));
        write_off(&host, Index::COUNTERS, &[Queue(7)], Some(Moment(70)));
        remove_from_index(&host, Index::COUNTERS, &[Queue(7)]);
        let (text, _) = host.get_shared_data(Index::COUNTERS.0).expect("an index");
        assert_eq!(String::from_utf8_lossy(&text), later);
    }
}
