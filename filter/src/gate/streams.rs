//! The oldest streams that hold the drain, from the listings of all counters. Pure.

use laststream_drain::requests::Listings;
use laststream_drain::state::Moment;

use super::replies::{ClusterRequests, StreamStatus, Streams};
use crate::census::insert_lowest;
use crate::config::wire::Scope;
use crate::parse;

impl Streams {
    /// The oldest streams, at most as many as were asked for.
    pub(super) fn oldest(listed: &Listings) -> Self {
        let listings = listed.listings.iter();
        let lines: Vec<(Scope, &str)> = listings
            .flat_map(|(scope, listing)| listing.lines().map(move |line| (*scope, line)))
            .collect();
        let mut oldest = Vec::new();
        for (index, (_, line)) in lines.iter().enumerate() {
            if let Some([began]) = parse::numbers(&mut line.split('\t')) {
                insert_lowest(&mut oldest, listed.limit, began, index);
            }
        }
        let lines = oldest.into_iter().filter_map(|(_, index)| lines.get(index));
        let streams: Vec<StreamStatus> =
            lines.filter_map(|(scope, line)| parse_line(*scope, line, listed.now)).collect();
        let of_clusters = listed.clusters.as_deref().map(|text| busiest(text, listed.limit));
        let (clusters, holding) = of_clusters.unwrap_or((Vec::new(), listed.holding));
        Self {
            state: listed.state,
            holding,
            complete: listed.is_complete && listed.holding <= streams.len() as u64,
            streams,
            clusters,
        }
    }
}

/// The requests to one cluster, if it has any, from a line of Envoy's statistics.
fn requests_of(line: &str) -> Option<(&str, u64)> {
    let (name, requests) = line.rsplit_once(": ")?;
    let cluster = name.strip_prefix("cluster.")?.strip_suffix(".upstream_rq_active")?;
    Some((cluster, requests.parse().ok().filter(|requests| *requests > 0)?))
}

/// The clusters with the most requests, and the number of all requests.
fn busiest(text: &str, limit: usize) -> (Vec<ClusterRequests>, u64) {
    let (mut busiest, mut all) = (Vec::new(), 0);
    for (index, line) in text.lines().enumerate() {
        if let Some((_, requests)) = requests_of(line) {
            all += requests;
            insert_lowest(&mut busiest, limit, u64::MAX - requests, index);
        }
    }
    let lines = busiest.into_iter().filter_map(|(_, index)| text.lines().nth(index));
    let clusters = lines
        .filter_map(requests_of)
        .map(|(cluster, requests)| ClusterRequests { cluster: cluster.into(), requests });
    (clusters.collect(), all)
}

/// One stream, from a line that `census::listing` has written.
fn parse_line(scope: Scope, line: &str, now: Moment) -> Option<StreamStatus> {
    let mut fields = line.split('\t');
    let [began, long_lived, status, bytes] = parse::numbers(&mut fields)?;
    let mut texts: [Option<String>; 6] = Default::default();
    for text in &mut texts {
        *text = Some(fields.next()?).filter(|text| !text.is_empty()).map(Into::into);
    }
    let [request, protocol, route, cluster, peer, upstream] = texts;
    let kind = fields.next().and_then(|kind| kind.parse().ok());
    Some(StreamStatus {
        scope,
        age_ms: (now - Moment(began)).0,
        long_lived: long_lived == 1,
        request,
        protocol,
        route,
        cluster,
        peer,
        upstream,
        status: (status > 0).then_some(status),
        bytes,
        kind,
        ending: kind.is_some() && fields.next() == Some("1"),
    })
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::{Moment, Scope, StreamStatus, parse_line};
    use crate::census::StreamKind;

    #[wasm_bindgen_test(unsupported = test)]
    fn parses_a_line_of_a_listing() {
        let text = |text: &str| Some(text.to_string());
        let status = StreamStatus {
            scope: Scope::Inbound,
            age_ms: 3,
            long_lived: true,
            request: text("GET a/b"),
            protocol: text("HTTP/1.1"),
            route: None,
            cluster: text("app"),
            peer: text("10.0.0.1:80"),
            upstream: None,
            status: Some(200),
            bytes: 12,
            kind: None,
            ending: false,
        };
        let line = "7\t1\t200\t12\tGET a/b\tHTTP/1.1\t\tapp\t10.0.0.1:80\t\t";
        let parse = |line: &str| parse_line(Scope::Inbound, line, Moment(10));
        assert_eq!(parse(line), Some(status.clone()));
        let with_kind = StreamStatus { kind: Some(StreamKind::Grpc), ending: true, ..status };
        assert_eq!(parse(&format!("{line}grpc\t1\t")), Some(with_kind));
        assert_eq!((parse("7\t1\t200\t12\tGET a/b"), parse("")), (None, None));
    }
}
