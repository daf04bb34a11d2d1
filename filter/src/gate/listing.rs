//! The listing of streams: what the counters tell of theirs, put together for people.

use super::answers::{StreamStatus, Streams, json};
use super::machine::Trust;
use super::root::Gate;
use super::snapshot::Snapshot;
use super::waiting::Waiter;
use crate::config::wire::Scope;
use crate::host::Control;
use crate::roll::{Line, keep_lowest};

impl Gate {
    pub(super) fn tell_streams(
        &self,
        host: &impl Control,
        snapshot: &Snapshot,
        waiter: &Waiter,
        length: usize,
    ) {
        let (now, sight) = (snapshot.now, &snapshot.sight);
        let mut lines = Vec::new();
        let mut oldest = Vec::new();
        let all = self.census.listings(
            host,
            &self.policy.scopes,
            waiter.needs.round,
            self.policy.exempts,
            &mut |scope, listing| {
                for line in listing.lines() {
                    if let Some(line) = Line::read(line) {
                        keep_lowest(&mut oldest, length, line.began, lines.len());
                        lines.push((scope, line));
                    }
                }
            },
        );
        let mut streams = Vec::new();
        for (scope, line) in oldest.into_iter().filter_map(|(_, index)| lines.get(index)) {
            streams.push(status(*scope, line, now));
        }
        let answer = Streams {
            state: snapshot.record.phase,
            holding: sight.holding,
            complete: all
                && matches!(sight.trust, Trust::Exact | Trust::Assumed)
                && sight.holding <= streams.len() as u64,
            streams,
        };
        host.answer(waiter.stream, 200, &[("content-type", "application/json")], &json(&answer));
    }
}

fn status(scope: Scope, line: &Line<'_>, now: u64) -> StreamStatus {
    let [request, protocol, route, cluster, peer, upstream] = line.texts;
    StreamStatus {
        scope,
        age_ms: now.saturating_sub(line.began),
        long_lived: line.long,
        request: known(request),
        protocol: known(protocol),
        route: known(route),
        cluster: known(cluster),
        peer: known(peer),
        upstream: known(upstream),
        status: (line.status > 0).then_some(line.status),
        bytes: line.bytes,
    }
}

fn known(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.into())
}
