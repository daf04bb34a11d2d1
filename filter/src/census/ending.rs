//! The messages for ending streams: the gate's request, and a counter's reply with the number that
//! can still be ended. A 0 in a text is the place of a number that only earlier versions use.

use super::kinds::Kinds;
use super::messages::parse_numbers;

/// The gate's request to a counter. A counter of an older version ignores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndRequest {
    /// The queue for the reply.
    pub(crate) reply_to: u32,
    /// The reply repeats it: a gate of an earlier version asks for several reasons at a time.
    pub(crate) reference: Reference,
    pub(crate) sent_at: u64,
    pub(crate) which: EndFilter,
    /// How many to end now; 0 only asks.
    pub(crate) count: u64,
    pub(crate) how: EndManner,
    /// The counter looks again at waiting requests that it last looked at before this moment.
    pub(crate) look_since: u64,
}

/// The reason and the round of a gate of an earlier version. This version writes zeros.
pub(crate) type Reference = [u64; 2];

/// The streams that may be ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct EndFilter {
    pub(crate) kinds: Kinds,
    /// Also requests whose method changes something.
    pub(crate) changing: bool,
    /// Only streams that began before this moment of the monotonic clock.
    pub(crate) began_before: u64,
    /// Long-lived streams are left alone.
    pub(crate) plain_only: bool,
}

/// How streams are ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct EndManner {
    /// The range of `Retry-After`, in seconds.
    pub(crate) retry_after: [u64; 2],
    /// How long a frame filter may take to close a WebSocket; milliseconds.
    pub(crate) grace: u64,
}

/// A counter's reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct EndReply {
    /// The counter's own queue.
    pub(crate) queue: u32,
    pub(crate) reference: Reference,
    /// Streams that match and that it has not ended yet.
    pub(crate) endable: u64,
    /// Requests that no pass has looked at since [`EndRequest::look_since`]. `endable` may be wrong
    /// by up to this number.
    pub(crate) unseen: u64,
}

impl EndRequest {
    pub(crate) fn to_text(self) -> String {
        let Self { reply_to, reference: [reason, round], sent_at, which, count, how, look_since } =
            self;
        let EndFilter { kinds, changing, began_before, plain_only } = which;
        let (kinds, changing, plain_only) =
            (kinds.to_number(), u8::from(changing), u8::from(plain_only));
        let EndManner { retry_after: [from, to], grace } = how;
        format!(
            "end {reply_to} {reason} {round} {sent_at} {kinds} {changing} {began_before} \
             {plain_only} {count} {from} {to} {grace} 0 {look_since}"
        )
    }

    pub(crate) fn parse(message: &[u8]) -> Option<Self> {
        let (numbers, [look_since]): ([_; 13], _) =
            parse_numbers("end ", core::str::from_utf8(message).ok()?)?;
        let [reply_to, reason, round, sent_at, which @ .., count, from, to, grace, _] = numbers;
        let [kinds, changing, began_before, plain_only] = which;
        Some(Self {
            reply_to: u32::try_from(reply_to).ok()?,
            reference: [reason, round],
            sent_at,
            which: EndFilter {
                kinds: Kinds::from_number(kinds),
                changing: changing == 1,
                began_before,
                plain_only: plain_only == 1,
            },
            count,
            how: EndManner { retry_after: [from, to], grace },
            // A gate of an earlier version does not send this number.
            look_since: if look_since == 0 { sent_at } else { look_since },
        })
    }
}

impl EndReply {
    pub(crate) fn to_text(self) -> String {
        let Self { queue, reference: [reason, round], endable, unseen } = self;
        format!("ended {queue} {reason} {round} 0 {endable} {unseen}")
    }

    pub(crate) fn parse(message: &[u8]) -> Option<Self> {
        let ([queue, reason, round, _, endable], [unseen]) =
            parse_numbers("ended ", core::str::from_utf8(message).ok()?)?;
        let queue = u32::try_from(queue).ok()?;
        Some(Self { queue, reference: [reason, round], endable, unseen })
    }
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{EndFilter, EndManner, EndReply, EndRequest};
    use crate::census::kinds::{Kinds, StreamKind};

    fn request() -> EndRequest {
        EndRequest {
            reply_to: 1,
            reference: [2, 3],
            sent_at: 4,
            which: EndFilter {
                kinds: Kinds::of(&[StreamKind::Waiting, StreamKind::Other]),
                changing: true,
                began_before: 5,
                plain_only: false,
            },
            count: 6,
            how: EndManner { retry_after: [7, 8], grace: 9 },
            look_since: 11,
        }
    }

    const REPLY: EndReply = EndReply { queue: 1, reference: [2, 3], endable: 4, unseen: 5 };

    #[wasm_bindgen_test(unsupported = test)]
    fn messages_survive_their_text() {
        let (request, reply) = (request(), REPLY);
        assert_eq!(EndRequest::parse(request.to_text().as_bytes()), Some(request));
        assert_eq!(EndReply::parse(reply.to_text().as_bytes()), Some(reply));
        for message in ["", "end", "end 1 2 3", "ended 1 2 3 4", "here 1 2 3 4 5 6", "\u{fe}"] {
            assert_eq!(EndRequest::parse(message.as_bytes()), None, "{message}");
            assert_eq!(EndReply::parse(message.as_bytes()), None, "{message}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn messages_of_other_versions_are_read() {
        let text = request().to_text();
        assert_eq!(text, "end 1 2 3 4 17 1 5 0 6 7 8 9 0 11", "the text of an earlier one");
        let listing = EndRequest::parse(b"end 1 2 3 4 17 1 5 0 6 7 8 9 10 11");
        assert_eq!(listing, Some(request()));
        let earlier = text.strip_suffix(" 11").expect("the last number");
        let each_pass_anew = EndRequest { look_since: 4, ..request() };
        assert_eq!(EndRequest::parse(earlier.as_bytes()), Some(each_pass_anew));
        assert_eq!(EndRequest::parse(format!("{text} 12").as_bytes()), Some(request()), "later");
        assert_eq!(REPLY.to_text(), "ended 1 2 3 0 4 5", "the text of an earlier one");
        let earlier = EndReply { unseen: 0, ..REPLY };
        assert_eq!(EndReply::parse(b"ended 1 2 3 1 4"), Some(earlier));
        assert_eq!(EndReply::parse(b"ended 1 2 3 1 4 5 6"), Some(REPLY), "later");
    }
}
