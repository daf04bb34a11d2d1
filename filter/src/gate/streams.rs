//! The oldest streams that hold the drain, from the listings of all counters. Pure.

use laststream_drain::requests::Listings;

use super::replies::{StreamStatus, Streams};
use crate::census::{ListingLine, insert_lowest};
use crate::config::wire::Scope;

impl Streams {
    /// The oldest streams, at most as many as were asked for.
    pub(super) fn oldest(listed: &Listings) -> Self {
        let lines: Vec<(Scope, ListingLine<'_>)> = listed
            .listings
            .iter()
            .flat_map(|(scope, listing)| listing.lines().map(move |line| (*scope, line)))
            .filter_map(|(scope, line)| Some((scope, ListingLine::parse(line)?)))
            .collect();
        let mut oldest = Vec::new();
        for (index, (_, line)) in lines.iter().enumerate() {
            insert_lowest(&mut oldest, listed.limit, line.began, index);
        }
        let streams: Vec<StreamStatus> = oldest
            .into_iter()
            .filter_map(|(_, index)| lines.get(index))
            .map(|(scope, line)| status(*scope, line, listed.now.0))
            .collect();
        Self {
            state: listed.state,
            holding: listed.holding,
            complete: listed.is_complete && listed.holding <= streams.len() as u64,
            streams,
        }
    }
}

fn status(scope: Scope, line: &ListingLine<'_>, now: u64) -> StreamStatus {
    let [request, protocol, route, cluster, peer, upstream] = line.texts;
    StreamStatus {
        scope,
        age_ms: now.saturating_sub(line.began),
        long_lived: line.long_lived,
        request: non_empty(request),
        protocol: non_empty(protocol),
        route: non_empty(route),
        cluster: non_empty(cluster),
        peer: non_empty(peer),
        upstream: non_empty(upstream),
        status: (line.status > 0).then_some(line.status),
        bytes: line.bytes,
        kind: line.kind,
        ending: line.ending,
    }
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.into())
}
