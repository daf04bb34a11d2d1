//! The text of a counter's reply to a gate, with its listing.

use laststream_drain::counts::Reply;

use crate::shared_text::{parse, to_text};

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
    Some((parse(first)?, listing))
}

#[cfg(test)]
mod tests {
    use laststream_drain::state::Queue;
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Reply, parse_reply, reply_to_text};

    #[wasm_bindgen_test(unsupported = test)]
    fn a_listing_follows_the_reply() {
        let reply = Reply { queue: Queue(7), in_flight: 2, ..Reply::default() };
        for listing in [None, Some("1 2\nb\n".to_string())] {
            let text = reply_to_text(&reply, listing.as_deref());
            assert_eq!(parse_reply(text.as_bytes()), Some((reply, listing)));
        }
        assert_eq!((parse_reply(b"wake"), parse_reply(b"\xff")), (None, None));
    }
}
