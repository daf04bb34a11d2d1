//! The texts of the messages between a gate and the counters: one request and one reply.

use laststream_drain::kinds::Kinds;
use laststream_drain::messages::{Endable, LatchCheck, Order, Reply, Request};

use crate::parse;

pub(crate) fn request_to_text(request: &Request) -> String {
    let Request { reply_to, round, sent_at, long_lived_before, list_limit, .. } = request;
    let (check, plain) = (request.latch_check as u8, u8::from(request.plain_only));
    // Earlier versions have a number before the order.
    let mut text = format!(
        "ask {reply_to} {round} {check} {sent_at} {long_lived_before} {list_limit} {plain} 0"
    );
    if let Some(order) = &request.order {
        let Order { count, kinds, changing, began_before, grace, look_since, drain, .. } = order;
        let ([from, to], kinds, changing) =
            (order.retry_after, kinds.to_number(), u8::from(*changing));
        text.push_str(&format!(
            " {count} {kinds} {changing} {began_before} {from} {to} {grace} {look_since} {drain}"
        ));
    }
    text
}

pub(crate) fn parse_request(message: &[u8]) -> Option<Request> {
    let mut words = core::str::from_utf8(message).ok()?.strip_prefix("ask ")?.split(' ');
    let [reply_to, round, check, sent_at]: [u64; 4] = parse::numbers(&mut words)?;
    let [long_lived_before, list_limit, plain_only]: [u64; 3] = parse::numbers(&mut words)?;
    Some(Request {
        reply_to: u32::try_from(reply_to).ok()?,
        round,
        latch_check: match check {
            0 => LatchCheck::Off,
            1 => LatchCheck::ForAWhile,
            _ => LatchCheck::Always,
        },
        sent_at,
        long_lived_before,
        list_limit: usize::try_from(list_limit).ok()?,
        plain_only: plain_only == 1,
        order: words.next().and_then(|_| parse_order(&mut words)),
    })
}

/// The order behind a request, if there is one.
fn parse_order(words: &mut dyn Iterator<Item = &str>) -> Option<Order> {
    let [count, kinds, changing, began_before] = parse::numbers(words)?;
    let [from, to, grace, look_since, drain] = parse::numbers(words)?;
    Some(Order {
        count,
        kinds: Kinds::from_number(kinds),
        changing: changing == 1,
        began_before,
        retry_after: [from, to],
        grace,
        look_since,
        drain,
    })
}

pub(crate) fn reply_to_text(reply: &Reply) -> String {
    let Reply { queue, in_flight, long_lived, excluded, round, requested_at, endable } = reply;
    // Earlier versions have a number before the answer to an order.
    let mut text =
        format!("here {queue} {in_flight} {long_lived} {excluded} {round} {requested_at} 0");
    if let Some(Endable { streams, unseen }) = endable {
        text.push_str(&format!(" {streams} {unseen}"));
    }
    text
}

/// The reply, and the listing if one follows it, a line for each stream.
pub(crate) fn parse_reply(message: &[u8]) -> Option<(Reply, Option<String>)> {
    let message = core::str::from_utf8(message).ok()?;
    let (first, listing) = message
        .split_once('\n')
        .map_or((message, None), |(first, listing)| (first, Some(listing.into())));
    let mut words = first.strip_prefix("here ")?.split(' ');
    let [queue, in_flight, long_lived, excluded]: [u64; 4] = parse::numbers(&mut words)?;
    let [round, requested_at] = parse::numbers(&mut words)?;
    let queue = u32::try_from(queue).ok()?;
    let endable = words.next().and_then(|_| parse::numbers(&mut words));
    let endable = endable.map(|[streams, unseen]| Endable { streams, unseen });
    Some((Reply { queue, in_flight, long_lived, excluded, round, requested_at, endable }, listing))
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{
        Endable, Kinds, LatchCheck, Order, Reply, Request, parse_reply, parse_request,
        reply_to_text, request_to_text,
    };

    const REQUEST: Request = Request {
        reply_to: 1,
        round: 2,
        latch_check: LatchCheck::ForAWhile,
        sent_at: 3,
        long_lived_before: 4,
        list_limit: 5,
        plain_only: true,
        order: None,
    };
    const REPLY: Reply = Reply {
        queue: 1,
        in_flight: 2,
        long_lived: 3,
        excluded: 4,
        round: 5,
        requested_at: 6,
        endable: None,
    };

    fn order() -> Order {
        Order {
            count: 1,
            kinds: Kinds::from_number(6),
            changing: true,
            began_before: 2,
            retry_after: [3, 4],
            grace: 5,
            look_since: 6,
            drain: 7,
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn messages_are_the_same_after_a_round_trip() {
        for order in [None, Some(order())] {
            let request = Request { order, ..REQUEST };
            assert_eq!(parse_request(request_to_text(&request).as_bytes()), Some(request));
        }
        for endable in [None, Some(Endable { streams: 7, unseen: 8 })] {
            let reply = Reply { endable, ..REPLY };
            let text = reply_to_text(&reply);
            assert_eq!(parse_reply(text.as_bytes()), Some((reply, None)));
            let listed = format!("{text}\na\nb\n");
            assert_eq!(parse_reply(listed.as_bytes()), Some((reply, Some("a\nb\n".into()))));
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn messages_of_other_versions_are_read() {
        assert_eq!(request_to_text(&REQUEST), "ask 1 2 1 3 4 5 1 0", "as before");
        for earlier in ["ask 1 2 1 3 4 5 1", "ask 1 2 1 3 4 5 1 99"] {
            assert_eq!(parse_request(earlier.as_bytes()), Some(REQUEST));
        }
        assert_eq!(reply_to_text(&REPLY), "here 1 2 3 4 5 6 0", "as before");
        for earlier in ["here 1 2 3 4 5 6", "here 1 2 3 4 5 6 9"] {
            assert_eq!(parse_reply(earlier.as_bytes()), Some((REPLY, None)));
        }
        let later = request_to_text(&Request { order: Some(order()), ..REQUEST }) + " 8 9";
        assert_eq!(parse_request(later.as_bytes()).and_then(|later| later.order), Some(order()));
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn other_messages_are_ignored() {
        for message in ["", "ask", "ask 1 2", "ask x 2 1 3 4 5 1", "end 1 2 3", "wake", "\u{fe}"] {
            assert_eq!(parse_request(message.as_bytes()), None, "{message}");
            assert_eq!(parse_reply(message.as_bytes()), None, "{message}");
        }
    }
}
