//! The gate's record of the replies about ends.

use super::ending::EndReply;

/// Older replies are not valid any more; milliseconds.
const VALID_FOR: u64 = 1_000;

/// The last reply of a counter about one job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct KnownEnd {
    pub(super) reply: EndReply,
    at: u64,
    pub(super) listing: Option<String>,
}

/// Replaces a counter's last reply about the same job. Replies that are too old are forgotten.
pub(super) fn record(ends: &mut Vec<KnownEnd>, reply: EndReply, at: u64, listing: Option<&str>) {
    let is_valid = |known: &KnownEnd| at.saturating_sub(known.at) < VALID_FOR;
    ends.retain(|known| known.reply.job != reply.job && is_valid(known));
    ends.push(KnownEnd { reply, at, listing: listing.map(Into::into) });
}

/// The last reply about one job, if it is still valid.
pub(super) fn of_job(ends: &[KnownEnd], job: u64, now: u64) -> Option<&KnownEnd> {
    ends.iter().find(|known| known.reply.job == job && now.saturating_sub(known.at) < VALID_FOR)
}
