//! The listing of a counter's oldest streams, and the marking of those older than a moment.
//!
//! A counter lists its streams between requests. Header maps must not be read then; properties can
//! be, in the stream's own context.

use laststream_drain::state::{Millis, Moment};

use super::kinds::{Ending, KeptKind, StreamKind};
use crate::host::Control;
use crate::parse::printable_line;

/// A stream that a counter can list.
pub(crate) trait ListedStream {
    /// Whether it is counted, and not long-lived.
    fn is_plain(&self) -> bool;
    /// Whether it is counted as long-lived.
    fn is_long_lived(&self) -> bool;
    /// Counts a plain stream as long-lived from now on.
    fn become_long_lived(&mut self, host: &impl Control);
    /// When it began, if the configuration asks for that.
    fn began(&self) -> Option<Moment>;
    /// The record of its kind, if the configuration asks for kinds and it is counted.
    fn kept_kind(&mut self) -> Option<&mut KeptKind>;
    /// Increments the metrics of ended streams.
    fn count_eviction(&self, host: &impl Control, kind: StreamKind);
}

/// Visits each stream of a root context, with the number of its HTTP context.
pub(crate) type ForEachStream<'e, S> = &'e mut dyn FnMut(&mut dyn FnMut(u32, &mut S));

/// Inserts an item into a list that is sorted by its key, and keeps only the lowest `limit` of
/// them.
pub(crate) fn insert_lowest(list: &mut Vec<(u64, usize)>, limit: usize, key: u64, item: usize) {
    let place = list.partition_point(|(other, _)| *other <= key);
    if place < limit {
        list.truncate(limit - 1);
        list.insert(place, (key, item));
    }
}

/// Counts streams that began before that moment as long-lived from now on. A stream whose counter
/// does not keep its beginning is never older: Envoy's wall clock, which shows it, can step.
pub(crate) fn mark_long_lived<S: ListedStream>(
    host: &impl Control,
    for_each: ForEachStream<'_, S>,
    moment: Moment,
) {
    for_each(&mut |_, stream| {
        if stream.is_plain() && stream.began().is_some_and(|began| began < moment) {
            stream.become_long_lived(host);
        }
    });
}

/// The oldest streams, a line each, which `gate::streams` parses. Envoy numbers contexts
/// consecutively, so the lowest are the oldest.
pub(crate) fn oldest<S: ListedStream>(
    host: &impl Control,
    for_each: ForEachStream<'_, S>,
    limit: usize,
    plain_only: bool,
) -> String {
    let mut contexts = Vec::new();
    for_each(&mut |context, stream| {
        if stream.is_plain() || !plain_only && stream.is_long_lived() {
            insert_lowest(&mut contexts, limit, context.into(), 0);
        }
    });
    // Only for the chosen streams: a Wasm memory never shrinks, and there may be many streams.
    let mut records = vec![(false, None, None); contexts.len()];
    for_each(&mut |context, stream| {
        let index = contexts.binary_search(&(context.into(), 0)).ok();
        if let Some(record) = index.and_then(|index| records.get_mut(index)) {
            *record = (stream.is_long_lived(), stream.began(), stream.kept_kind().copied());
        }
    });
    let mut lines = String::new();
    for ((context, _), (long_lived, began, kept)) in contexts.into_iter().zip(records) {
        let long_lived = u8::from(long_lived);
        host.set_effective_context(context as u32);
        let began = began.unwrap_or_else(|| began_by_envoy(host)).0;
        let (status, bytes) = (response_status(host), number(host, "response\0total_size"));
        lines.push_str(&format!("{began}\t{long_lived}\t{status}\t{bytes}\t"));
        for property in TEXTS {
            let text = host.property(property).unwrap_or_default();
            lines.push_str(&printable_line(&text, LONGEST_TEXT));
            lines.push('\t');
        }
        if let Some(KeptKind { kind, ending, .. }) = kept {
            let is_ending = u8::from(ending != Ending::No);
            lines.push_str(&format!("{}\t{is_ending}\t", kind.at_status(status)));
        }
        lines.push('\n');
    }
    lines
}

/// Longer texts are truncated, because a path can be as long as a header may be.
const LONGEST_TEXT: usize = 512;

/// Request, protocol, route, cluster, peer, upstream. All can be read in every phase of a stream;
/// the first exists only if the operator configures Envoy to write it.
const TEXTS: [&str; 6] = [
    "filter_state\0laststream.request",
    "request\0protocol",
    "xds\0route_name",
    "xds\0cluster_name",
    "source\0address",
    "upstream\0address",
];

/// The status of the response; 0 until it has begun. Envoy's property can also be the status of an
/// interim response: its own `100 Continue` comes before the request has reached the upstream.
pub(super) fn response_status(host: &impl Control) -> u64 {
    match number(host, "response\0code") {
        100 | 102..=199 => 0,
        status => status,
    }
}

/// The beginning of the stream by Envoy's wall clock, which may have stepped since: only to be
/// shown. Envoy's property is in nanoseconds.
fn began_by_envoy(host: &impl Control) -> Moment {
    let began = number(host, "request\0time") / 1_000_000;
    let age = if began == 0 { 0 } else { host.wall_clock().saturating_sub(began) };
    host.monotonic_time() - Millis(age)
}

/// Envoy serialises a number as eight bytes, the lowest first.
pub(super) fn number(host: &impl Control, property: &str) -> u64 {
    host.property(property).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::insert_lowest;

    #[wasm_bindgen_test(unsupported = test)]
    fn keeps_the_lowest() {
        let numbers = [5, 3, 9, 1, 3, 7, 0, 8];
        for most in 1..=numbers.len() {
            let mut kept = Vec::new();
            for number in numbers {
                insert_lowest(&mut kept, most, number, 0);
            }
            let mut sorted = numbers;
            sorted.sort_unstable();
            assert!(kept.iter().map(|(key, _)| key).eq(&sorted[..most]), "{kept:?}");
        }
    }
}
