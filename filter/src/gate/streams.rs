//! The oldest streams that hold the drain, from the listings of all counters.

use super::gate::Gate;
use super::replies::{StreamStatus, Streams};
use super::snapshot::Snapshot;
use crate::census::{CountState, ListingLine, insert_lowest};
use crate::config::wire::Scope;
use crate::host::Control;

impl Gate {
    pub(super) fn oldest_streams(
        &self,
        host: &impl Control,
        snapshot: &Snapshot,
        round: u64,
        limit: usize,
    ) -> Streams {
        let observed = &snapshot.observed;
        let mut lines = Vec::new();
        let mut oldest = Vec::new();
        let is_complete = self.census.for_each_listing(
            host,
            &self.policy.scopes,
            round,
            self.policy.exempts_long_lived,
            &mut |scope, listing| {
                for line in listing.lines() {
                    if let Some(line) = ListingLine::parse(line) {
                        insert_lowest(&mut oldest, limit, line.began, lines.len());
                        lines.push((scope, line));
                    }
                }
            },
        );
        let mut streams = Vec::new();
        for (scope, line) in oldest.into_iter().filter_map(|(_, index)| lines.get(index)) {
            streams.push(status(*scope, line, snapshot.now));
        }
        Streams {
            state: snapshot.record.phase,
            holding: observed.holding,
            complete: is_complete
                && matches!(observed.count, CountState::Exact | CountState::Assumed)
                && observed.holding <= streams.len() as u64,
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
    }
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.into())
}
