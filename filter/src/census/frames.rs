//! What the frame filter, a counter and the gate tell each other about WebSockets.
//!
//! The roots of the frame filter have an index of their own: a survey asks only what is in the
//! index of counters, so a frame filter is never taken for a counter, nor missed as one.

use super::index::register_queue;
use crate::host::{Control, compare_and_set_shared};
use crate::parse;

/// The frame filter sets this property on each WebSocket that it follows.
pub(crate) const FRAMES: &str = "laststream.frames";
/// The counter sets this property on a WebSocket that the frame filter is to close. The value is
/// of no meaning.
pub(crate) const CLOSE: &str = "laststream.close";
/// The shared data key of the queues of all frame filters, a line each.
const INDEX: &str = "laststream.frame_filters";

/// A gate's message to every root of the frame filter: WebSockets are ended now. Until it runs out,
/// the frame filter reads [`CLOSE`] in its callbacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameNotice {
    /// Milliseconds of the monotonic clock.
    pub(crate) until: u64,
}

impl FrameNotice {
    pub(crate) fn to_text(self) -> String {
        format!("frames {}", self.until)
    }

    pub(crate) fn parse(message: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(message).ok()?;
        let [until] = parse::numbers(&mut text.strip_prefix("frames ")?.split(' '))?;
        Some(Self { until })
    }
}

/// Registers a queue of this root of the frame filter. Called from its first tick or its first
/// stream, because a VM that Envoy creates only to validate a configuration never ticks.
pub(crate) fn register_frame_filter(host: &impl Control) -> Option<u32> {
    let queue = register_queue(host)?;
    compare_and_set_shared(host, INDEX, &mut |text| {
        Some([text.unwrap_or_default(), format!("{queue}\n").as_bytes()].concat())
    });
    Some(queue)
}

/// This root of the frame filter follows nothing any more.
pub(crate) fn remove_frame_filter(host: &impl Control, queue: u32) {
    compare_and_set_shared(host, INDEX, &mut |text| {
        let remaining: String = queues(text?)
            .filter(|other| *other != queue)
            .map(|other| format!("{other}\n"))
            .collect();
        Some(remaining.into_bytes())
    });
}

/// Sends a notice to every frame filter.
pub(crate) fn notify_frame_filters(host: &impl Control, notice: FrameNotice) {
    let Some((text, _)) = host.get_shared_data(INDEX) else { return };
    let message = notice.to_text();
    for queue in queues(&text) {
        host.enqueue(queue, message.as_bytes());
    }
}

fn queues(text: &[u8]) -> impl Iterator<Item = u32> {
    core::str::from_utf8(text).unwrap_or_default().lines().filter_map(|line| line.parse().ok())
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{FrameNotice, notify_frame_filters, register_frame_filter, remove_frame_filter};
    use crate::census::index::entries;
    use crate::fake::Fake;
    use crate::host::Control as _;

    #[wasm_bindgen_test(unsupported = test)]
    fn a_notice_reaches_every_frame_filter_and_no_survey_sees_them() {
        let host = Fake::default();
        let [one, other] = [1, 2].map(|_| register_frame_filter(&host).expect("a queue"));
        assert!(entries(&host).is_empty(), "a frame filter is no counter");
        notify_frame_filters(&host, FrameNotice { until: 7 });
        remove_frame_filter(&host, one);
        notify_frame_filters(&host, FrameNotice { until: 8 });
        let read = |queue| host.dequeue(queue).and_then(|message| FrameNotice::parse(&message));
        assert_eq!((read(one), read(one)), (Some(FrameNotice { until: 7 }), None));
        assert_eq!(
            (read(other), read(other)),
            (Some(FrameNotice { until: 7 }), Some(FrameNotice { until: 8 }))
        );
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn other_messages_are_no_notice() {
        for message in ["", "frames", "frames x", "ask 1 2 3 4 5 6 7", "frames -1"] {
            assert_eq!(FrameNotice::parse(message.as_bytes()), None, "{message}");
        }
    }
}
