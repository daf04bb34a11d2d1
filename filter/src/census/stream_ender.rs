//! Ending streams by the counter that owns them. The counter only asks Envoy to end a stream: the
//! count goes down when Envoy has ended it, as for any other stream.

use laststream_drain::counts::{Endable, Order, Request};
use laststream_drain::state::{Millis, Moment};
use laststream_drain::timing::{CLOSING_TICK, END_VALID_FOR, OVERDUE_TICK, YOUNG};

use super::frames::{CLOSE, FRAMES};
use super::kinds::{Ending, KeptKind, StreamKind};
use super::listing::{ForEachStream, ListedStream, insert_lowest, response_status};
use crate::host::Control;
use crate::shared_text::{self, parse_or_default};

/// The shared data key of the beginning of the drain that was cancelled last.
const STOPPED: &str = "laststream.ends_stopped";
/// The most streams that one callback ends. Envoy nests the ends after the callback, and a few
/// hundred overflow the stack of the VM.
pub(crate) const MOST_ACTIONS: u64 = 64;
/// The most waiting requests whose response one pass looks at, which takes about 2.5 µs each.
const MOST_LOOKS: usize = 1_024;

/// The work of a counter after an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AfterOrder {
    pub(crate) endable: Endable,
    /// The frame filter is closing a WebSocket, which the counter resets if that takes too long.
    pub(crate) has_closing: bool,
    /// The part of the order that is left for another callback.
    pub(crate) rest: Option<Order>,
}

/// Ends the oldest streams that match. `actions`: how many streams the counter may still end in
/// this callback. The others are left to another callback.
pub(crate) fn end_streams<S: ListedStream>(
    host: &impl Control,
    order: Order,
    request: &Request,
    actions: &mut u64,
    for_each: ForEachStream<'_, S>,
) -> AfterOrder {
    let now = host.monotonic_time();
    let is_valid = now - request.sent_at < END_VALID_FOR;
    let acts = is_valid && order.count > 0 && !is_stopped(host, order.drain);
    let total = if acts { order.count } else { 0 };
    let count = total.min(*actions);
    let mut pass = Pass { host, order: &order, now, looks: MOST_LOOKS, unseen: 0 };
    let (mut streams, mut chosen) = (0, Vec::new());
    for_each(&mut |context, stream| {
        if (stream.is_plain() || !request.plain_only) && pass.matches(context, stream) {
            streams += 1;
            if stream.kept_kind().is_some_and(|record| now - record.began >= YOUNG) {
                insert_lowest(&mut chosen, count as usize, context.into(), 0);
            }
        }
    });
    let mut has_closing = false;
    if !chosen.is_empty() {
        for_each(&mut |context, stream| {
            if chosen.binary_search(&(context.into(), 0)).is_ok()
                && let Some(ending) = pass.end(context, stream)
            {
                streams -= 1;
                has_closing |= ending != Ending::Ended;
            }
        });
    }
    *actions -= chosen.len() as u64;
    // If fewer were chosen, no more old streams match.
    let has_rest = total > count && chosen.len() as u64 == count;
    let rest = has_rest.then_some(Order { count: total - count, ..order });
    AfterOrder { endable: Endable { streams, unseen: pass.unseen }, has_closing, rest }
}

/// A drain is being cancelled: from now on no counter ends a stream for it, even if it was ordered
/// to. Two gates can have a drain each, so an order is compared with that drain only.
pub(crate) fn stop_ends(host: &impl Control, drain: Moment) {
    shared_text::update(host, STOPPED, &mut |stopped: &mut Option<Moment>| *stopped = Some(drain));
}

fn is_stopped(host: &impl Control, drain: Moment) -> bool {
    let text = host.get_shared_data(STOPPED).map(|(text, _)| text);
    parse_or_default::<Option<Moment>>(text.as_deref()) == Some(drain)
}

/// One pass over all streams for an order. Each waiting request keeps the time of the last look at
/// its response, so a pass continues where the previous one ended, and gates do not disturb each
/// other.
struct Pass<'p, H> {
    host: &'p H,
    order: &'p Order,
    now: Moment,
    /// How many responses it may still look at.
    looks: usize,
    /// Requests that it should have looked at, but had no looks left for.
    unseen: u64,
}

impl<H: Control> Pass<'_, H> {
    /// Whether this stream may be ended. A request whose response no pass has looked at counts as
    /// waiting.
    fn matches(&mut self, context: u32, stream: &mut impl ListedStream) -> bool {
        let Order { kinds, changing, began_before, look_since, .. } = *self.order;
        let Some(record) = stream.kept_kind() else { return false };
        if record.ending != Ending::No
            || record.changing && !changing
            || record.began >= began_before
        {
            return false;
        }
        let needs_look = kinds.contains(StreamKind::Waiting) != kinds.contains(StreamKind::Other)
            && record.kind == StreamKind::Waiting
            && record.looked_at.is_none_or(|at| at < look_since);
        if needs_look && self.looks == 0 {
            self.unseen += 1;
        } else if needs_look {
            self.looks -= 1;
            record.looked_at = Some(self.now);
            if self.host.set_effective_context(context) {
                record.kind = record.kind.at_status(response_status(self.host));
            }
        }
        kinds.contains(record.kind)
    }

    /// Ends one stream. Two actions on one stream in one callback crash Envoy, so this is called
    /// once for each stream.
    fn end(&self, context: u32, stream: &mut impl ListedStream) -> Option<Ending> {
        let Self { host, now, .. } = *self;
        let record = stream.kept_kind()?;
        if !host.set_effective_context(context) {
            return None;
        }
        let status = response_status(host);
        record.kind = record.kind.at_status(status);
        let KeptKind { kind, .. } = *record;
        let Order { kinds, retry_after, grace, .. } = *self.order;
        if !kinds.contains(kind) {
            return None;
        }
        let patient_until = (now + Millis(grace.0 / 2)).0;
        let ending = if status == 0 {
            let seconds = format!("{}", jittered(retry_after, context, now.0));
            host.send_http_response(context, 503, &[("retry-after", &seconds)], BODY);
            Ending::Ended
        } else if (kind, status) == (StreamKind::Websocket, SWITCHING_PROTOCOLS)
            && host.property(FRAMES).is_some()
            && host.set_property(CLOSE, format!("{patient_until}").as_bytes())
        {
            Ending::Closing { until: now + grace }
        } else {
            host.reset_stream(context);
            Ending::Ended
        };
        record.ending = ending;
        stream.count_eviction(host, kind);
        Some(ending)
    }
}

/// The status of an accepted upgrade. A refused one is not a WebSocket, so the frame filter does
/// not close it.
const SWITCHING_PROTOCOLS: u64 = 101;

const BODY: &str = "the proxy ends soon: send the request again\n";

/// Resets WebSockets whose grace period is over. Returns the next tick period, if there are more.
pub(crate) fn reset_overdue<S: ListedStream>(
    host: &impl Control,
    for_each: ForEachStream<'_, S>,
) -> Option<u32> {
    let (now, mut actions, mut next) = (host.monotonic_time(), MOST_ACTIONS, None);
    for_each(&mut |context, stream| {
        let Some(record) = stream.kept_kind() else { return };
        let Ending::Closing { until } = record.ending else { return };
        if now < until {
            next = next.or(Some(CLOSING_TICK.0 as u32));
        } else if actions == 0 {
            next = Some(OVERDUE_TICK.0 as u32);
        } else {
            actions -= 1;
            record.ending = Ending::Ended;
            host.reset_stream(context);
        }
    });
    next
}

/// A number in the range, which differs from stream to stream: clients whose streams end together
/// must not return together.
fn jittered([from, to]: [u64; 2], context: u32, now: u64) -> u64 {
    // The finalizer of splitmix64.
    let mut bits = (u64::from(context) << 32 ^ now).wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    let span = to.saturating_sub(from).saturating_add(1);
    from.saturating_add((bits ^ bits >> 31) % span)
}

#[cfg(test)]
#[path = "stream_ender_tests.rs"]
mod tests;
