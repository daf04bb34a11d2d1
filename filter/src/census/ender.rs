//! Ending streams by the counter that owns them. The counter only asks Envoy to end a stream: the
//! count goes down when Envoy has ended it, as for any other stream.

use super::ending::{EndFilter, EndManner, EndReply, EndRequest};
use super::frames::{CLOSE, FRAMES};
use super::kinds::{Ending, KeptKind, StreamKind};
use super::listing::{
    Clock, ForEachStream, ListedStream, insert_lowest, oldest_of, response_status,
};
use crate::host::{Control, compare_and_set_shared};
use crate::parse::digits;

/// The shared data key of the beginning of the drain that was cancelled last.
const STOPPED: &str = "laststream.ends_stopped";
/// The most streams that one callback ends. Envoy nests the ends after the callback, and a few
/// hundred overflow the stack of the VM.
pub(crate) const MOST_ACTIONS: u64 = 64;
/// The tick period while the frame filter is closing WebSockets; milliseconds.
pub(crate) const CLOSING_TICK: u32 = 100;
/// The tick period while some WebSockets are overdue; milliseconds. The grace periods of all that a
/// gate orders at once can end together.
const OVERDUE_TICK: u32 = 10;
/// Younger streams are left alone: Envoy takes many ends of young streams on one connection for an
/// attack, and closes the connection; milliseconds.
pub(crate) const YOUNG: u64 = 2_000;
/// An older request ends nothing, because it was made for another state of the drain; milliseconds.
const VALID_FOR: u64 = 1_000;
/// The most waiting requests whose response one pass looks at, which takes about 2.5 µs each.
const MOST_LOOKS: u32 = 1_024;

/// The counter that ends its streams.
#[derive(Debug)]
pub(crate) struct Owner<'c> {
    pub(crate) queue: u32,
    pub(crate) knows_kinds: bool,
    /// How many streams it may still end in this callback.
    pub(crate) actions: &'c mut u64,
}

/// The looks of one pass at the responses of waiting requests. Each request keeps the time of its
/// last look, so a pass continues where the previous one ended, and jobs do not disturb each other.
#[derive(Debug, Default)]
struct Looks {
    /// See [`EndRequest::look_since`].
    since: u64,
    now: u64,
    left: u32,
    /// Requests that the pass should have looked at, but had no looks left for.
    unseen: u64,
}

/// Ends the oldest streams that match, lists some if the request asks for it, and replies how many
/// are left. Ends beyond the actions of this callback are left to another one.
pub(crate) fn end_streams<S: ListedStream>(
    host: &impl Control,
    owner: Owner<'_>,
    request: EndRequest,
    clock: Clock,
    for_each: ForEachStream<'_, S>,
) -> AfterEnd {
    let Owner { queue, knows_kinds, actions } = owner;
    let now = host.monotonic_time();
    let is_valid = now.saturating_sub(request.sent_at) < VALID_FOR;
    let acts = is_valid && request.count > 0 && !is_stopped(host, request.drain_began);
    let wanted = if acts { request.count } else { 0 };
    let count = wanted.min(*actions);
    let (mut endable, unseen, chosen) = choose(host, &request, count, now, for_each);
    let mut has_closing = false;
    if !chosen.is_empty() {
        for_each(&mut |context, stream| {
            if chosen.binary_search(&(context.into(), 0)).is_ok()
                && let Some(ending) = end(host, context, stream, &request, now)
            {
                endable -= 1;
                has_closing |= ending != Ending::Ended;
            }
        });
    }
    *actions -= chosen.len() as u64;
    // If fewer were chosen, no more old streams match.
    let has_rest = wanted > count && chosen.len() as u64 == count;
    if has_rest {
        let rest = EndRequest { count: wanted - count, list_limit: 0, ..request };
        host.enqueue(queue, rest.to_text().as_bytes());
    }
    let EndRequest { job, round, .. } = request;
    let answer = EndReply { queue, job, round, knows_kinds, endable, unseen };
    reply(host, answer, request, clock, for_each);
    AfterEnd { has_closing, has_rest }
}

/// A drain is being cancelled: from now on no counter ends a stream for it, also if it was ordered
/// to. Two gates can have a drain each, so an order is compared with that drain only.
pub(crate) fn stop_ends(host: &impl Control, drain_began: u64) {
    compare_and_set_shared(host, STOPPED, &mut |_| Some(format!("{drain_began}").into_bytes()));
}

fn is_stopped(host: &impl Control, drain_began: u64) -> bool {
    let stopped = || host.get_shared_data(STOPPED).and_then(|(text, _)| digits(&text));
    drain_began > 0 && stopped() == Some(drain_began)
}

/// Returns the number of streams that match, the number that no pass has looked at, and the oldest
/// streams that may be ended now.
fn choose<S: ListedStream>(
    host: &impl Control,
    request: &EndRequest,
    count: u64,
    now: u64,
    for_each: ForEachStream<'_, S>,
) -> (u64, u64, Vec<(u64, usize)>) {
    let EndFilter { kinds, .. } = request.which;
    let needs_response = kinds.contains(StreamKind::Waiting) != kinds.contains(StreamKind::Other);
    let since = if needs_response { request.look_since } else { 0 };
    let mut looks = Looks { since, now, left: MOST_LOOKS, unseen: 0 };
    let (mut endable, mut chosen) = (0, Vec::new());
    for_each(&mut |context, stream| {
        if matches(host, context, stream, request.which, &mut looks) {
            endable += 1;
            if is_old(stream, now) {
                insert_lowest(&mut chosen, count as usize, context.into(), 0);
            }
        }
    });
    (endable, looks.unseen, chosen)
}

/// Sends the reply, with a listing if the request asks for one and no request is left to look at.
fn reply<S: ListedStream>(
    host: &impl Control,
    reply: EndReply,
    request: EndRequest,
    clock: Clock,
    for_each: ForEachStream<'_, S>,
) {
    let EndRequest { reply_to, which, list_limit, .. } = request;
    let mut text = reply.to_text();
    if list_limit > 0 && reply.unseen == 0 {
        let mut is_listed =
            |context, stream: &mut S| matches(host, context, stream, which, &mut Looks::default());
        text.push('\n');
        text.push_str(&oldest_of(host, for_each, clock, list_limit, &mut is_listed));
    }
    host.enqueue(reply_to, text.as_bytes());
}

/// The work that is left for the counter after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AfterEnd {
    /// The frame filter is closing a WebSocket, which the counter resets if that takes too long.
    pub(crate) has_closing: bool,
    /// The rest of the request is in the counter's own queue, for another callback.
    pub(crate) has_rest: bool,
}

/// Whether a job may end this stream. A request whose response no pass has looked at counts as
/// waiting.
fn matches<S: ListedStream>(
    host: &impl Control,
    context: u32,
    stream: &mut S,
    which: EndFilter,
    looks: &mut Looks,
) -> bool {
    let EndFilter { kinds, changing, began_before, plain_only } = which;
    if plain_only && !stream.is_plain() {
        return false;
    }
    let Some(kept) = stream.kept_kind() else { return false };
    if kept.ending != Ending::No || kept.changing && !changing || kept.began >= began_before {
        return false;
    }
    if kept.kind == StreamKind::Waiting && kept.looked_at < looks.since {
        look(host, context, kept, looks);
    }
    kinds.contains(kept.kind)
}

/// Looks whether the response has begun, and then changes the kind.
fn look(host: &impl Control, context: u32, kept: &mut KeptKind, looks: &mut Looks) {
    if looks.left == 0 {
        looks.unseen += 1;
        return;
    }
    looks.left -= 1;
    kept.looked_at = looks.now;
    if host.set_effective_context(context) {
        kept.kind = kept.kind.at_status(response_status(host));
    }
}

fn is_old<S: ListedStream>(stream: &mut S, now: u64) -> bool {
    stream.kept_kind().is_some_and(|kept| now.saturating_sub(kept.began) >= YOUNG)
}

/// The status of an accepted upgrade. A refused one is not a WebSocket, so the frame filter does
/// not close it.
const SWITCHING_PROTOCOLS: u64 = 101;

/// Ends one stream. Two actions on one stream in one callback crash Envoy, so this is called once
/// for each stream.
fn end<S: ListedStream>(
    host: &impl Control,
    context: u32,
    stream: &mut S,
    request: &EndRequest,
    now: u64,
) -> Option<Ending> {
    let kept = stream.kept_kind()?;
    if !host.set_effective_context(context) {
        return None;
    }
    let status = response_status(host);
    kept.kind = kept.kind.at_status(status);
    let KeptKind { kind, .. } = *kept;
    if !request.which.kinds.contains(kind) {
        return None;
    }
    let EndManner { retry_after, grace } = request.how;
    let patient_until = now.saturating_add(grace / 2);
    kept.ending = if status == 0 {
        let seconds = format!("{}", drawn(retry_after, context, now));
        host.send_http_response(context, 503, &[("retry-after", &seconds)], BODY);
        Ending::Ended
    } else if (kind, status) == (StreamKind::Websocket, SWITCHING_PROTOCOLS)
        && host.property(FRAMES).is_some()
        && host.set_property(CLOSE, format!("{patient_until}").as_bytes())
    {
        Ending::Closing { until: now.saturating_add(grace) }
    } else {
        host.reset_stream(context);
        Ending::Ended
    };
    let ending = kept.ending;
    stream.count_eviction(host, kind);
    Some(ending)
}

const BODY: &str = "the proxy ends soon: send the request again\n";

/// Resets WebSockets whose grace period is over. Returns the next tick period, if there are more.
pub(crate) fn reset_overdue<S: ListedStream>(
    host: &impl Control,
    for_each: ForEachStream<'_, S>,
) -> Option<u32> {
    let (now, mut actions, mut next) = (host.monotonic_time(), MOST_ACTIONS, None);
    for_each(&mut |context, stream| {
        let Some(kept) = stream.kept_kind() else { return };
        let Ending::Closing { until } = kept.ending else { return };
        if now < until {
            next = next.or(Some(CLOSING_TICK));
        } else if actions == 0 {
            next = Some(OVERDUE_TICK);
        } else {
            actions -= 1;
            kept.ending = Ending::Ended;
            host.reset_stream(context);
        }
    });
    next
}

/// A number in the range, which differs from stream to stream: clients whose streams end together
/// must not return together.
fn drawn([from, to]: [u64; 2], context: u32, now: u64) -> u64 {
    // The finalizer of splitmix64.
    let mut bits = (u64::from(context) << 32 ^ now).wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    let span = to.saturating_sub(from).saturating_add(1);
    from.saturating_add((bits ^ bits >> 31) % span)
}

#[cfg(test)]
#[path = "ender_tests.rs"]
mod tests;
