//! The messages of the census: the gate's request and a counter's reply.

use crate::parse;

/// How long each new stream must check whether the latch is closed. The check costs a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LatchCheck {
    /// Not at all.
    Off,
    /// For a while.
    ForAWhile,
    /// Until the process ends: the latch is sealed.
    Always,
}

impl LatchCheck {
    fn from_number(number: u64) -> Self {
        match number {
            0 => Self::Off,
            1 => Self::ForAWhile,
            _ => Self::Always,
        }
    }
}

/// The gate's request to every counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CountRequest {
    /// The queue for the reply.
    pub(crate) reply_to: u32,
    pub(crate) round: u64,
    pub(crate) latch_check: LatchCheck,
    pub(crate) sent_at: u64,
    /// Streams that began before this are long-lived from now on; 0 changes none.
    pub(crate) long_lived_before: u64,
    /// How many streams to list, the oldest first.
    pub(crate) list_limit: usize,
    /// Whether long-lived streams are left out of the listing.
    pub(crate) plain_only: bool,
}

impl CountRequest {
    pub(crate) fn to_text(self) -> String {
        let Self { reply_to, round, latch_check, sent_at, .. } = self;
        let Self { long_lived_before, list_limit, plain_only, .. } = self;
        let (check, plain) = (latch_check as u8, u8::from(plain_only));
        // The 0 is the place of a number that only earlier versions use.
        format!(
            "ask {reply_to} {round} {check} {sent_at} {long_lived_before} {list_limit} {plain} 0"
        )
    }

    pub(crate) fn parse(message: &[u8]) -> Option<Self> {
        let ([reply_to, round, latch_check, sent_at, numbers @ ..], []): ([_; 7], _) =
            parse_numbers("ask ", core::str::from_utf8(message).ok()?)?;
        let [long_lived_before, list_limit, plain_only] = numbers;
        Some(Self {
            reply_to: u32::try_from(reply_to).ok()?,
            round,
            latch_check: LatchCheck::from_number(latch_check),
            sent_at,
            long_lived_before,
            list_limit: usize::try_from(list_limit).ok()?,
            plain_only: plain_only == 1,
        })
    }
}

/// A counter's reply. A listing may follow it, a line for each stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct CountReply {
    /// The counter's own queue.
    pub(crate) queue: u32,
    pub(crate) in_flight: u64,
    pub(crate) long_lived: u64,
    pub(crate) excluded: u64,
    /// The round of the request.
    pub(crate) round: u64,
    /// When the request was sent.
    pub(crate) requested_at: u64,
}

impl CountReply {
    pub(crate) fn to_text(self) -> String {
        let Self { queue, in_flight, long_lived, excluded, round, requested_at } = self;
        // The 0 is the place of a number that only earlier versions use.
        format!("here {queue} {in_flight} {long_lived} {excluded} {round} {requested_at} 0")
    }

    /// The reply, and the listing if the message has one.
    pub(crate) fn parse(message: &[u8]) -> Option<(Self, Option<&str>)> {
        let message = core::str::from_utf8(message).ok()?;
        let (first, listing) = message
            .split_once('\n')
            .map_or((message, None), |(first, listing)| (first, Some(listing)));
        let ([queue, in_flight, long_lived, excluded, round, requested_at], []) =
            parse_numbers("here ", first)?;
        let queue = u32::try_from(queue).ok()?;
        let reply = Self { queue, in_flight, long_lived, excluded, round, requested_at };
        Some((reply, listing))
    }
}

/// Parses the numbers of a message, and those that later versions have added behind them. The
/// latter are 0 if a message of an earlier version has none: gate and counters are replaced one
/// after the other, while a drain may be running. Both sides ignore further words.
pub(super) fn parse_numbers<const N: usize, const LATER: usize>(
    kind: &str,
    message: &str,
) -> Option<([u64; N], [u64; LATER])> {
    let mut words = message.strip_prefix(kind)?.split(' ');
    let numbers = parse::numbers(&mut words)?;
    Some((numbers, parse::numbers(&mut words.chain(core::iter::repeat("0")))?))
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{CountReply, CountRequest, LatchCheck};

    const REQUEST: CountRequest = CountRequest {
        reply_to: 1,
        round: 2,
        latch_check: LatchCheck::ForAWhile,
        sent_at: 4,
        long_lived_before: 5,
        list_limit: 6,
        plain_only: true,
    };
    const REPLY: CountReply = CountReply {
        queue: 1,
        in_flight: 2,
        long_lived: 3,
        excluded: 4,
        round: 5,
        requested_at: 6,
    };

    #[wasm_bindgen_test(unsupported = test)]
    fn messages_survive_their_text() {
        let (request, reply) = (REQUEST.to_text(), REPLY.to_text());
        assert_eq!(CountRequest::parse(request.as_bytes()), Some(REQUEST));
        assert_eq!(CountReply::parse(reply.as_bytes()), Some((REPLY, None)));
        let listed = format!("{reply}\na\nb\n");
        assert_eq!(CountReply::parse(listed.as_bytes()), Some((REPLY, Some("a\nb\n"))));
        for message in
            ["", "ask", "ask 1 2 3 4 5 6", "here 1 2 3 4 5", "here x 2 3 4 5 6", "\u{fe}"]
        {
            assert_eq!(CountRequest::parse(message.as_bytes()), None, "{message}");
            assert_eq!(CountReply::parse(message.as_bytes()), None, "{message}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn messages_of_other_versions_are_read() {
        assert_eq!(REQUEST.to_text(), "ask 1 2 1 4 5 6 1 0", "the text of an earlier one");
        assert_eq!(CountRequest::parse(b"ask 1 2 1 4 5 6 1"), Some(REQUEST));
        assert_eq!(CountRequest::parse(b"ask 1 2 1 4 5 6 1 8 9"), Some(REQUEST));
        assert_eq!(REPLY.to_text(), "here 1 2 3 4 5 6 0", "the text of an earlier one");
        assert_eq!(CountReply::parse(b"here 1 2 3 4 5 6"), Some((REPLY, None)));
        let listed = CountReply::parse(b"here 1 2 3 4 5 6 7\nline\n");
        assert_eq!(listed, Some((REPLY, Some("line\n"))));
        assert_eq!(CountReply::parse(b"here 1 2 3 4 5 6 7 8"), Some((REPLY, None)));
    }
}
