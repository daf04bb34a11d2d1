//! The texts of the messages between a gate and the counters: one request and one reply.

use laststream_drain::counts::{Reply, Request};

use crate::shared_text::to_text;

pub(crate) fn parse_request(message: &[u8]) -> Option<Request> {
    serde_json::from_slice(message).ok()
}

/// The reply, and a line behind it for each stream of a listing.
pub(crate) fn reply_to_text(reply: &Reply, listing: Option<&str>) -> String {
    let mut text = to_text(reply);
    if let Some(listing) = listing {
        text.push('\n');
        text.push_str(listing);
    }
    text
}

/// The reply, and the listing if one follows it.
pub(crate) fn parse_reply(message: &[u8]) -> Option<(Reply, Option<String>)> {
    let message = core::str::from_utf8(message).ok()?;
    let (first, listing) = match message.split_once('\n') {
        Some((first, listing)) => (first, Some(listing.into())),
        None => (message, None),
    };
    Some((serde_json::from_str(first).ok()?, listing))
}

#[cfg(test)]
mod tests {
    use laststream_drain::counts::{Endable, LatchCheck, Order};
    use laststream_drain::state::{Kinds, Millis, Moment, Queue, StreamKind};
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Reply, Request, parse_reply, parse_request, reply_to_text, to_text};

    #[wasm_bindgen_test(unsupported = test)]
    fn messages_are_the_same_after_a_round_trip() {
        let order = Order {
            count: 1,
            kinds: Kinds::of(&[StreamKind::Waiting, StreamKind::Grpc]),
            changing: true,
            began_before: Moment(2),
            retry_after: [3, u64::MAX],
            grace: Millis(4),
            look_since: Moment(5),
            drain: Moment(6),
        };
        for order in [None, Some(order)] {
            let request = Request {
                reply_to: Queue(1),
                round: 2,
                latch_check: LatchCheck::ForAWhile,
                sent_at: Moment(3),
                long_lived_before: Some(Moment(4)),
                list_limit: 5,
                plain_only: true,
                order,
            };
            assert_eq!(parse_request(to_text(&request).as_bytes()), Some(request));
        }
        let reply = Reply { queue: Queue(7), in_flight: u64::MAX, ..Reply::default() };
        let reply = Reply { endable: Some(Endable { streams: 1, unseen: 2 }), ..reply };
        for listing in [None, Some("a\nb\n".to_string())] {
            let text = reply_to_text(&reply, listing.as_deref());
            assert_eq!(parse_reply(text.as_bytes()), Some((reply, listing)));
        }
        assert_eq!((parse_reply(b"wake"), parse_request(b"\xff")), (None, None));
    }

    /// A newer gate has fields that this version does not know, and an older one lacks some.
    #[wasm_bindgen_test(unsupported = test)]
    fn messages_of_other_versions_are_read() {
        let request = Request { round: 7, ..Request::default() };
        assert_eq!(parse_request(br#"{"round": 7, "later": [1]}"#), Some(request));
    }
}
