//! The listing of streams: what the counters tell of theirs, put together for people.

use super::answers::{StreamStatus, Streams};
use super::machine::Trust;
use super::record::read_record;
use super::root::Gate;
use super::waiting::Waiter;
use crate::config::object::Written as _;
use crate::config::wire::Scope;
use crate::host::Control;
use crate::roll::{Line, keep_lowest};

impl Gate {
    pub(super) fn tell_streams(&self, host: &impl Control, waiter: &Waiter, length: usize) {
        let now = host.now();
        let counted = self.census.result(host, &self.policy.scopes);
        let sight = self.sight(host, now, &counted);
        let (listings, all) = self.census.listings(host, &self.policy.scopes, waiter.round, self.policy.exempts);
        let mut streams: Vec<(Scope, Line<'_>)> = Vec::new();
        for (scope, line) in listings.iter().flat_map(|(scope, listing)| listing.lines().map(move |line| (*scope, line))) {
            if let Some(line) = Line::read(line) {
                keep_lowest(&mut streams, length, (scope, line), |(_, line)| line.began);
            }
        }
        let answer = Streams {
            state: read_record(host).phase,
            holding: sight.holding,
            complete: all && sight.trust == Trust::Exact && sight.holding <= streams.len() as u64,
            streams: streams.iter().map(|(scope, line)| status(*scope, line, now)).collect(),
        };
        host.answer(waiter.stream, 200, &[("content-type", "application/json")], &answer.to_text());
    }
}

fn status(scope: Scope, line: &Line<'_>, now: u64) -> StreamStatus {
    let [request, protocol, route, cluster, peer, upstream] = line.texts.map(|text| (!text.is_empty()).then(|| text.to_owned()));
    StreamStatus {
        scope,
        age_ms: now.saturating_sub(line.began),
        long_lived: line.long,
        request,
        protocol,
        route,
        cluster,
        peer,
        upstream,
        status: (line.status > 0).then_some(line.status),
        bytes: line.bytes,
    }
}
