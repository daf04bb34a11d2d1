//! The properties and messages with which the gate and a counter make the frame filter close
//! WebSockets.
//!
//! The roots of the frame filter have their own index. A survey asks only the entries in the index
//! of counters, so a frame filter is never mistaken for a counter, or missed as one.
//!
//! The texts are words, not JSON: serde would double the size of the module of the frame filter.

use laststream_drain::state::{Moment, Queue};
use laststream_drain::timing::{FORGOTTEN_AFTER, MOST_UNREAD};

use super::index::register_queue;
use crate::host::{Control, compare_and_set_shared};
use crate::parse;

/// The frame filter sets this property on each WebSocket that it follows.
pub(crate) const FRAMES: &str = "laststream.frames";
/// The counter sets this property on a WebSocket that the frame filter must close. The value is the
/// monotonic time in milliseconds at which half of the grace period is over. Until then, the frame
/// filter waits for the end of a message.
pub(crate) const CLOSE: &str = "laststream.close";
const INDEX: &str = "laststream.frame_filters";

/// A gate's message to every root of the frame filter: WebSockets are ended now. Until the notice
/// expires, the frame filter reads [`CLOSE`] in its callbacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameNotice {
    pub(crate) until: Moment,
}

impl FrameNotice {
    pub(crate) fn to_text(self) -> String {
        format!("frames {}", self.until.0)
    }

    pub(crate) fn parse(message: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(message).ok()?;
        let [until] = parse::numbers(&mut text.strip_prefix("frames ")?.split(' '))?;
        Some(Self { until: Moment(until) })
    }
}

/// The entry of one frame filter in the index.
struct Entry {
    queue: Queue,
    /// Notices that were sent since the frame filter last read them.
    unread: u64,
    /// When the first of them was sent; 0 in the text if there is none.
    since: Option<Moment>,
}

impl Entry {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let queue = Queue(words.next()?.parse().ok()?);
        let [unread, since] = parse::numbers(&mut words)?;
        Some(Self { queue, unread, since: Some(Moment(since)).filter(|since| since.0 > 0) })
    }
}

/// Changes the index. If another VM has changed it meanwhile, `work` runs again on the new one.
fn update(host: &impl Control, work: &mut dyn FnMut(&mut Vec<Entry>)) {
    compare_and_set_shared(host, INDEX, &mut |text| {
        let before = core::str::from_utf8(text.unwrap_or_default()).unwrap_or_default();
        let mut entries = before.lines().filter_map(Entry::parse).collect();
        work(&mut entries);
        let mut after = String::new();
        for Entry { queue, unread, since } in entries {
            let since = since.unwrap_or_default().0;
            after.push_str(&format!("{} {unread} {since}\n", queue.0));
        }
        (after != before).then(|| after.into_bytes())
    });
}

/// Registers a queue of this root of the frame filter. Called from its first tick or its first
/// stream, because a VM that Envoy creates only to validate a configuration never ticks.
pub(crate) fn register_frame_filter(host: &impl Control) -> Option<Queue> {
    let queue = register_queue(host)?;
    mark_as_read(host, queue);
    Some(queue)
}

pub(crate) fn remove_frame_filter(host: &impl Control, queue: Queue) {
    update(host, &mut |entries| entries.retain(|entry| entry.queue != queue));
}

/// Records that this root of the frame filter has read its notices. It enters the index again if a
/// gate has removed it, because its worker was not running for long.
pub(crate) fn mark_as_read(host: &impl Control, queue: Queue) {
    let read = || Entry { queue, unread: 0, since: None };
    update(host, &mut |entries| match entries.iter_mut().find(|entry| entry.queue == queue) {
        Some(entry) => *entry = read(),
        None => entries.push(read()),
    });
}

/// Sends a notice to every frame filter that has not reached [`MOST_UNREAD`]. Those that have not
/// read for long leave the index.
pub(crate) fn notify_frame_filters(host: &impl Control, notice: FrameNotice) {
    let now = host.monotonic_time();
    let mut live = Vec::new();
    update(host, &mut |entries| {
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
    let message = notice.to_text();
    for queue in live {
        host.enqueue(queue.0, message.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{
        FORGOTTEN_AFTER, FrameNotice, INDEX, MOST_UNREAD, Moment, Queue, mark_as_read,
        notify_frame_filters, register_frame_filter, remove_frame_filter,
    };
    use crate::census::index::entries;
    use crate::fake::Fake;
    use crate::host::Control as _;

    #[wasm_bindgen_test(unsupported = test)]
    fn a_notice_reaches_every_frame_filter_and_no_survey_sees_them() {
        let host = Fake::default();
        let [one, other] = [1, 2].map(|_| register_frame_filter(&host).expect("a queue"));
        assert!(entries(&host).is_empty(), "a frame filter is no counter");
        notify_frame_filters(&host, FrameNotice { until: Moment(7) });
        remove_frame_filter(&host, one);
        notify_frame_filters(&host, FrameNotice { until: Moment(8) });
        let read =
            |queue: Queue| host.dequeue(queue.0).and_then(|message| FrameNotice::parse(&message));
        assert_eq!((read(one), read(one)), (Some(FrameNotice { until: Moment(7) }), None));
        assert_eq!(
            (read(other), read(other)),
            (Some(FrameNotice { until: Moment(7) }), Some(FrameNotice { until: Moment(8) }))
        );
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_dead_frame_filter_gets_only_a_few_notices() {
        let host = Fake::default();
        let [live, dead] = [1, 2].map(|_| register_frame_filter(&host).expect("a queue"));
        let read = |queue: Queue| core::iter::from_fn(|| host.dequeue(queue.0)).count() as u64;
        let mut seconds = 0;
        for until in 0..100 {
            notify_frame_filters(&host, FrameNotice { until: Moment(until) });
            if until % 2 == 0 {
                seconds += read(live);
                mark_as_read(&host, live);
            }
        }
        assert_eq!((seconds + read(live), read(dead)), (100, MOST_UNREAD));
        mark_as_read(&host, dead);
        notify_frame_filters(&host, FrameNotice { until: Moment(100) });
        assert_eq!(read(dead), 1, "it was only slow");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn a_dead_frame_filter_leaves_the_index_and_a_slow_one_comes_back() {
        let host = Fake::default();
        assert!(host.set_shared_data(INDEX, b"7 8 0\n", None));
        let queue = register_frame_filter(&host).expect("a queue");
        let index = || {
            let (text, _) = host.get_shared_data(INDEX).expect("an index");
            String::from_utf8_lossy(&text).into_owned()
        };
        for (now, expected) in [
            (5_000, "7 8 5000\n1 1 5000\n".to_owned()),
            (
                5_000 + FORGOTTEN_AFTER.0 - 1,
                format!("7 8 5000\n1 1 {}\n", 5_000 + FORGOTTEN_AFTER.0 - 1),
            ),
            (5_000 + FORGOTTEN_AFTER.0, format!("1 1 {}\n", 5_000 + FORGOTTEN_AFTER.0)),
        ] {
            host.clock.set(now);
            notify_frame_filters(&host, FrameNotice { until: Moment(1) });
            assert_eq!(index(), expected);
            mark_as_read(&host, queue);
        }
        mark_as_read(&host, Queue(7));
        assert_eq!(index(), "1 0 0\n7 0 0\n");
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn other_messages_are_no_notice() {
        for message in ["", "frames", "frames x", "ask 1 2 3 4 5 6 7", "frames -1"] {
            assert_eq!(FrameNotice::parse(message.as_bytes()), None, "{message}");
        }
    }
}
