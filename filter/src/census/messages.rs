//! The messages of the census: the gate's request and a counter's reply.

use crate::parse;

/// For how long each new stream must check whether the latch is closed. The check costs a read.
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
    /// Long-lived streams are not to be listed.
    pub(crate) plain_only: bool,
}

impl CountRequest {
    pub(crate) fn to_text(self) -> String {
        let Self { reply_to, round, latch_check, sent_at, .. } = self;
        let Self { long_lived_before, list_limit, plain_only, .. } = self;
        let (check, plain_only) = (latch_check as u8, u8::from(plain_only));
        format!(
            "ask {reply_to} {round} {check} {sent_at} {long_lived_before} {list_limit} {plain_only}"
        )
    }

    pub(crate) fn parse(message: &[u8]) -> Option<Self> {
        let [reply_to, round, latch_check, sent_at, long_lived_before, list_limit, plain_only] =
            parse_numbers("ask ", core::str::from_utf8(message).ok()?)?;
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
        format!("here {queue} {in_flight} {long_lived} {excluded} {round} {requested_at}")
    }

    /// The reply, and the listing if the message has one.
    pub(crate) fn parse(message: &[u8]) -> Option<(Self, Option<&str>)> {
        let message = core::str::from_utf8(message).ok()?;
        let (first, listing) = message
            .split_once('\n')
            .map_or((message, None), |(first, listing)| (first, Some(listing)));
        let [queue, in_flight, long_lived, excluded, round, requested_at] =
            parse_numbers("here ", first)?;
        let queue = u32::try_from(queue).ok()?;
        let reply = Self { queue, in_flight, long_lived, excluded, round, requested_at };
        Some((reply, listing))
    }
}

fn parse_numbers<const N: usize>(kind: &str, message: &str) -> Option<[u64; N]> {
    parse::numbers(&mut message.strip_prefix(kind)?.split(' '))
}
