//! The shared index of counters, and the scopes whose metrics Envoy rejects.

use laststream_drain::counts::IndexEntry;
use laststream_drain::state::{Moment, Queue};

use crate::config::wire::Scope;
use crate::host::{Control, compare_and_set_shared};
use crate::parse::digits;
use crate::shared_text::{self, to_text};

const INDEX: &str = "laststream.index";
/// The shared data key of the scopes whose counters this Envoy rejects.
const REJECTED: &str = "laststream.rejected";
/// The shared data key of the last queue number that was assigned.
const NUMBERS: &str = "laststream.number";

fn to_line(entry: &IndexEntry) -> String {
    to_text(entry) + "\n"
}

fn parse_line(line: &str) -> Option<IndexEntry> {
    shared_text::parse(line)
}

pub(crate) fn entries(host: &impl Control) -> Vec<IndexEntry> {
    host.get_shared_data(INDEX).map_or_else(Vec::new, |(text, _)| parse(&text))
}

pub(super) fn contains(host: &impl Control, queue: Queue) -> bool {
    entries(host).iter().any(|entry| entry.queue == queue)
}

fn parse(text: &[u8]) -> Vec<IndexEntry> {
    let text = core::str::from_utf8(text).unwrap_or_default();
    text.lines().filter_map(parse_line).collect()
}

pub(crate) fn add_to_index(host: &impl Control, entry: IndexEntry) {
    let line = to_line(&entry);
    compare_and_set_shared(host, INDEX, &mut |text| {
        Some([text.unwrap_or_default(), line.as_bytes()].concat())
    });
}

pub(crate) fn remove_from_index(host: &impl Control, queues: &[Queue]) {
    change(host, &mut |entry| (!queues.contains(&entry.queue)).then_some(entry));
}

/// Marks counters as written off, for all gates. An earlier mark stays.
pub(crate) fn write_off(host: &impl Control, queues: &[Queue], now: Moment) {
    change(host, &mut |entry| {
        let is_new = queues.contains(&entry.queue) && entry.written_off.is_none();
        Some(if is_new { IndexEntry { written_off: Some(now), ..entry } } else { entry })
    });
}

/// Takes the mark from counters that have replied.
pub(crate) fn revive(host: &impl Control, queues: &[Queue]) {
    change(host, &mut |entry| {
        let is_back = queues.contains(&entry.queue);
        Some(if is_back { IndexEntry { written_off: None, ..entry } } else { entry })
    });
}

/// Changes or removes entries. A line that this version of the module cannot parse stays as it is,
/// and so does one that does not change. The text is written only if that makes a difference.
fn change(host: &impl Control, work: &mut dyn FnMut(IndexEntry) -> Option<IndexEntry>) {
    compare_and_set_shared(host, INDEX, &mut |text| {
        let before = core::str::from_utf8(text.unwrap_or_default()).ok()?;
        let mut after = String::new();
        for line in before.lines() {
            let entry = parse_line(line);
            let changed = entry.map(&mut *work);
            if changed == Some(entry) || entry.is_none() {
                after.push_str(line);
                after.push('\n');
            } else if let Some(Some(entry)) = changed {
                after.push_str(&to_line(&entry));
            }
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
    let own: &str = scope.into();
    core::str::from_utf8(text).unwrap_or_default().lines().any(|name| name == own)
}

/// Registers a queue under a number that no other root context has.
pub(crate) fn register_queue(host: &impl Control) -> Option<Queue> {
    let mut own = 0_u64;
    let is_assigned = compare_and_set_shared(host, NUMBERS, &mut |text| {
        let last = text.and_then(digits::<u64>).unwrap_or_default();
        own = last + 1;
        Some(format!("{own}").into_bytes())
    });
    let queue =
        is_assigned.then(|| host.register_queue(&format!("laststream.queue.{own}"))).flatten();
    queue.map(Queue)
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{
        INDEX, IndexEntry, Moment, Queue, add_to_index, entries, remove_from_index, revive,
        write_off,
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
            add_to_index(&host, entry(queue));
        }
        write_off(&host, &[Queue(3), Queue(9)], Moment(70));
        write_off(&host, &[Queue(3)], Moment(80));
        let written_off = IndexEntry { written_off: Some(Moment(70)), ..entry(3) };
        assert_eq!(entries(&host), [written_off, entry(4)]);
        revive(&host, &[Queue(3), Queue(4)]);
        assert_eq!(entries(&host), [entry(3), entry(4)]);
    }

    /// The module is replaced by a later version, or by an earlier one, while a drain goes on.
    #[wasm_bindgen_test(unsupported = test)]
    fn lines_that_this_version_cannot_read_stay() {
        let host = Fake::default();
        let later = "2 3 0 5 0\n?\n";
        assert!(host.set_shared_data(INDEX, later.as_bytes(), None));
        add_to_index(&host, entry(7));
        write_off(&host, &[Queue(7)], Moment(70));
        remove_from_index(&host, &[Queue(7)]);
        let (text, _) = host.get_shared_data(INDEX).expect("an index");
        assert_eq!(String::from_utf8_lossy(&text), later);
    }
}
