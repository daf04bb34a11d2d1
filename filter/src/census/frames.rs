//! The properties and messages with which the gate and a counter make the frame filter close
//! WebSockets.
//!
//! The roots of the frame filter have their own index. A survey asks only the entries in the index
//! of counters, so a frame filter is never mistaken for a counter, or missed as one.

use laststream_drain::state::{Moment, Queue};
use laststream_drain::timing::{FORGOTTEN_AFTER, MOST_UNREAD};

use super::index::register_queue;
use crate::host::Control;
use crate::shared_text::{self, Numbers, Words, fields, to_text};

/// The frame filter sets this property on each WebSocket that it follows.
pub(crate) const FRAMES: &str = "laststream.frames";
/// The counter sets this property on a WebSocket that the frame filter must close. The value is the
/// monotonic time in milliseconds at which half of the grace period is over. Until then, the frame
/// filter waits for the end of a message.
pub(crate) const CLOSE: &str = "laststream.close";
const INDEX: &str = "laststream.frame_filters";

/// The entry of one frame filter in the index.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    queue: Queue,
    /// Notices that were sent since the frame filter last read them.
    unread: u64,
    /// When the first of them was sent.
    since: Option<Moment>,
}

fields! { Entry { queue, unread, since } }

/// Registers a queue of this root of the frame filter. Called from its first tick or its first
/// stream, because a VM that Envoy creates only to validate a configuration never ticks.
pub(crate) fn register_frame_filter(host: &impl Control) -> Option<Queue> {
    let queue = register_queue(host)?;
    mark_as_read(host, queue);
    Some(queue)
}

pub(crate) fn remove_frame_filter(host: &impl Control, queue: Queue) {
    shared_text::update(host, INDEX, &mut |entries: &mut Vec<Entry>| {
        entries.retain(|entry| entry.queue != queue);
    });
}

/// Records that this root of the frame filter has read its notices. It enters the index again if a
/// gate has removed it, because its worker was not running for long.
pub(crate) fn mark_as_read(host: &impl Control, queue: Queue) {
    shared_text::update(host, INDEX, &mut |entries: &mut Vec<Entry>| {
        let entry = Entry { queue, unread: 0, since: None };
        match entries.iter_mut().find(|other| other.queue == queue) {
            Some(other) => *other = entry,
            None => entries.push(entry),
        }
    });
}

/// Tells every frame filter that WebSockets are ended, unless it has reached [`MOST_UNREAD`]. Up to
/// that moment, it reads [`CLOSE`] in its callbacks. Those that have not read for long leave the
/// index.
pub(crate) fn notify_frame_filters(host: &impl Control, until: Moment) {
    let now = host.monotonic_time();
    let mut live = Vec::new();
    shared_text::update(host, INDEX, &mut |entries: &mut Vec<Entry>| {
        live.clear();
        entries.retain_mut(|entry| {
            let since = *entry.since.get_or_insert(now);
            if entry.unread >= MOST_UNREAD {
                return now - since < FORGOTTEN_AFTER;
            }
            entry.unread += 1;
            live.push(entry.queue);
            true
        });
    });
    let message = to_text(&until);
    for queue in live {
        host.enqueue(queue.0, message.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{
        Entry, FORGOTTEN_AFTER, INDEX, MOST_UNREAD, Moment, Queue, mark_as_read,
        notify_frame_filters, register_frame_filter, remove_frame_filter,
    };
    use crate::census::index::{Index, entries};
    use crate::fake::Fake;
    use crate::host::Control as _;
    use crate::shared_text::{parse_message, parse_or_default, to_text};

    #[wasm_bindgen_test(unsupported = test)]
    fn a_notice_reaches_every_frame_filter_and_no_survey_sees_them() {
        let host = Fake::default();
        let [one, other] = [1, 2].map(|_| register_frame_filter(&host).expect("a queue"));
        assert!(entries(&host, Index::COUNTERS).is_empty(), "a frame filter is no counter");
        notify_frame_filters(&host, Moment(7));
        remove_frame_filter(&host, one);
        notify_frame_filters(&host, Moment(8));
        let read = |queue: Queue| host.dequeue(queue.0).and_then(|message| parse_message(&message));
        assert_eq!((read(one), read(one)), (Some(Moment(7)), None));
        assert_eq!((read(other), read(other)), (Some(Moment(7)), Some(Moment(8))));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_dead_frame_filter_gets_only_a_few_notices() {
        let host = Fake::default();
        let [live, dead] = [1, 2].map(|_| register_frame_filter(&host).expect("a queue"));
        let read = |queue: Queue| core::iter::from_fn(|| host.dequeue(queue.0)).count() as u64;
        let mut seconds = 0;
        for until in 0..100 {
            notify_frame_filters(&host, Moment(until));
            if until % 2 == 0 {
                seconds += read(live);
                mark_as_read(&host, live);
            }
        }
        assert_eq!((seconds + read(live), read(dead)), (100, MOST_UNREAD));
        mark_as_read(&host, dead);
        notify_frame_filters(&host, Moment(100));
        assert_eq!(read(dead), 1, "it was only slow");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_dead_frame_filter_leaves_the_index_and_a_slow_one_comes_back() {
        let host = Fake::default();
        let entry = |queue: u32, unread: u64, since: Option<u64>| Entry {
            queue: Queue(queue),
            unread,
            since: since.map(Moment),
        };
        let dead = to_text(&vec![entry(7, 8, None)]);
        assert!(host.set_shared_data(INDEX, dead.as_bytes(), None));
        let queue = register_frame_filter(&host).expect("a queue");
        let index = || {
            let (text, _) = host.get_shared_data(INDEX).expect("an index");
            parse_or_default::<Vec<Entry>>(Some(&text))
        };
        let forgotten = 5_000 + FORGOTTEN_AFTER.0;
        for (now, is_there) in [(5_000, true), (forgotten - 1, true), (forgotten, false)] {
            host.clock.set(now);
            notify_frame_filters(&host, Moment(1));
            let dead = is_there.then(|| entry(7, 8, Some(5_000)));
            let expected: Vec<Entry> = dead.into_iter().chain([entry(1, 1, Some(now))]).collect();
            assert_eq!(index(), expected);
            mark_as_read(&host, queue);
        }
        mark_as_read(&host, Queue(7));
        assert_eq!(index(), [entry(1, 0, None), entry(7, 0, None)]);
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn other_messages_are_no_notice() {
        for message in ["", "1", "1 x", "ask 1 2 3 4 5 6 7", "1 -1"] {
            assert_eq!(parse_message::<Moment>(message.as_bytes()), None, "{message}");
        }
    }
}
