//! The messages for ending streams: the gate's request, and a counter's reply with the number that
//! can still be ended.

use super::kinds::Kinds;
use super::messages::parse_numbers;

/// The gate's request to a counter. A counter of an older version ignores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndRequest {
    /// The queue for the reply.
    pub(crate) reply_to: u32,
    /// The number of the job, and of the round in it; the reply repeats both.
    pub(crate) job: u64,
    pub(crate) round: u64,
    pub(crate) sent_at: u64,
    pub(crate) which: EndFilter,
    /// How many to end now; 0 only asks.
    pub(crate) count: u64,
    pub(crate) how: EndManner,
    /// How many of them to list, the oldest first.
    pub(crate) list_limit: usize,
    /// The counter looks again at waiting requests that it last looked at before this moment.
    pub(crate) look_since: u64,
    /// The beginning of the drain that ends them; 0 for none. If that drain is cancelled before the
    /// counter acts, it ends nothing.
    pub(crate) drain_began: u64,
}

/// The streams that a job may end.
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

/// A counter's reply. A listing may follow it, as in a [`super::messages::CountReply`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct EndReply {
    /// The counter's own queue.
    pub(crate) queue: u32,
    pub(crate) job: u64,
    pub(crate) round: u64,
    /// Whether the counter keeps the kinds of its streams.
    pub(crate) knows_kinds: bool,
    /// Streams that match and that it has not ended yet.
    pub(crate) endable: u64,
    /// Requests that no pass has looked at since [`EndRequest::look_since`]. `endable` may be wrong
    /// by up to this number.
    pub(crate) unseen: u64,
}

impl EndRequest {
    pub(crate) fn to_text(self) -> String {
        let Self { reply_to, job, round, sent_at, which, count, how, .. } = self;
        let Self { list_limit, look_since, drain_began, .. } = self;
        let EndFilter { kinds, changing, began_before, plain_only } = which;
        let (kinds, changing, plain_only) =
            (kinds.to_number(), u8::from(changing), u8::from(plain_only));
        let EndManner { retry_after: [from, to], grace } = how;
        format!(
            "end {reply_to} {job} {round} {sent_at} {kinds} {changing} {began_before} {plain_only} \
             {count} {from} {to} {grace} {list_limit} {look_since} {drain_began}"
        )
    }

    pub(crate) fn parse(message: &[u8]) -> Option<Self> {
        let (numbers, [look_since, drain_began]): ([_; 13], _) =
            parse_numbers("end ", core::str::from_utf8(message).ok()?)?;
        let [reply_to, job, round, sent_at, which @ .., count, from, to, grace, list_limit] =
            numbers;
        let [kinds, changing, began_before, plain_only] = which;
        Some(Self {
            reply_to: u32::try_from(reply_to).ok()?,
            job,
            round,
            sent_at,
            which: EndFilter {
                kinds: Kinds::from_number(kinds),
                changing: changing == 1,
                began_before,
                plain_only: plain_only == 1,
            },
            count,
            how: EndManner { retry_after: [from, to], grace },
            list_limit: usize::try_from(list_limit).ok()?,
            // A gate of an earlier version does not send this number.
            look_since: if look_since == 0 { sent_at } else { look_since },
            drain_began,
        })
    }
}

impl EndReply {
    pub(crate) fn to_text(self) -> String {
        let Self { queue, job, round, knows_kinds, endable, unseen } = self;
        format!("ended {queue} {job} {round} {} {endable} {unseen}", u8::from(knows_kinds))
    }

    /// The reply, and the listing if the message has one.
    pub(crate) fn parse(message: &[u8]) -> Option<(Self, Option<&str>)> {
        let message = core::str::from_utf8(message).ok()?;
        let (first, listing) = message
            .split_once('\n')
            .map_or((message, None), |(first, listing)| (first, Some(listing)));
        let ([queue, job, round, knows_kinds, endable], [unseen]) = parse_numbers("ended ", first)?;
        let queue = u32::try_from(queue).ok()?;
        let knows_kinds = knows_kinds == 1;
        Some((Self { queue, job, round, knows_kinds, endable, unseen }, listing))
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
            job: 2,
            round: 3,
            sent_at: 4,
            which: EndFilter {
                kinds: Kinds::of(&[StreamKind::Waiting, StreamKind::Other]),
                changing: true,
                began_before: 5,
                plain_only: false,
            },
            count: 6,
            how: EndManner { retry_after: [7, 8], grace: 9 },
            list_limit: 10,
            look_since: 11,
            drain_began: 12,
        }
    }

    const REPLY: EndReply =
        EndReply { queue: 1, job: 2, round: 3, knows_kinds: true, endable: 4, unseen: 5 };

    #[wasm_bindgen_test(unsupported = test)]
    fn messages_survive_their_text() {
        let (request, reply) = (request(), REPLY);
        assert_eq!(EndRequest::parse(request.to_text().as_bytes()), Some(request));
        assert_eq!(EndReply::parse(reply.to_text().as_bytes()), Some((reply, None)));
        let listed = format!("{}\na\nb\n", reply.to_text());
        assert_eq!(EndReply::parse(listed.as_bytes()), Some((reply, Some("a\nb\n"))));
        for message in ["", "end", "end 1 2 3", "ended 1 2 3 4", "here 1 2 3 4 5 6", "\u{fe}"] {
            assert_eq!(EndRequest::parse(message.as_bytes()), None, "{message}");
            assert_eq!(EndReply::parse(message.as_bytes()), None, "{message}");
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn messages_of_other_versions_are_read() {
        let text = request().to_text();
        let earlier = text.strip_suffix(" 12").expect("the last number");
        let of_no_drain = EndRequest { drain_began: 0, ..request() };
        assert_eq!(EndRequest::parse(earlier.as_bytes()), Some(of_no_drain));
        let earlier = earlier.strip_suffix(" 11").expect("the last number");
        let each_pass_anew = EndRequest { look_since: 4, ..of_no_drain };
        assert_eq!(EndRequest::parse(earlier.as_bytes()), Some(each_pass_anew));
        assert_eq!(EndRequest::parse(format!("{text} 13").as_bytes()), Some(request()), "later");
        let earlier = EndReply { unseen: 0, ..REPLY };
        assert_eq!(EndReply::parse(b"ended 1 2 3 1 4"), Some((earlier, None)));
        assert_eq!(EndReply::parse(b"ended 1 2 3 1 4\na\n"), Some((earlier, Some("a\n"))));
        assert_eq!(EndReply::parse(b"ended 1 2 3 1 4 5 6"), Some((REPLY, None)), "later");
    }
}
