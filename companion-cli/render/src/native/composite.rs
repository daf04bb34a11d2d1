//! The composite filter with a matcher of its own, whose actions write the header and have the
//! route chosen again.
//!
//! Envoy 1.39 is the first that has this matcher. Envoy 1.38 accepts the field and ignores it, so
//! every https request would become http there.

use laststream_base::yaml::{List, Map};
use laststream_filter::forwarded::FORWARDED_PROTO;

use super::matcher::Write;
use crate::parts::{FILTER_STATE_TYPE, typed};

const COMPOSITE: &str = "type.googleapis.com/envoy.extensions.filters.http.composite.v3.Composite";
const EXECUTE: &str =
    "type.googleapis.com/envoy.extensions.filters.http.composite.v3.ExecuteFilterAction";
const MUTATION: &str =
    "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation";

/// The filter that writes the first of these values whose condition holds.
pub(super) fn filter(name: &str, writes: &[Write]) -> Map {
    let matchers = writes.iter().fold(List::new(), |list, write| {
        let matcher = Map::of("predicate", write.test.predicate())
            .with("on_match", Map::of("action", action(write.scheme)));
        list.note(write.about).item(matcher)
    });
    let matcher = Map::of("matcher_list", Map::of("matchers", matchers));
    typed(name, Map::of("@type", COMPOSITE).with("matcher", matcher))
}

fn action(scheme: &str) -> Map {
    let header = Map::of("key", FORWARDED_PROTO).with("value", scheme);
    let append = Map::of("header", header).with("append_action", "OVERWRITE_IF_EXISTS_OR_ADD");
    let mutations = Map::of("request_mutations", List::of(Map::of("append", append)));
    let writes = typed("write", Map::of("@type", MUTATION).with("mutations", mutations));
    let clears =
        typed("clear", Map::of("@type", FILTER_STATE_TYPE).with("clear_route_cache", true));
    let chain = List::of(writes)
        .note("Redirects and routes by scheme use the new value only if the route is chosen again.")
        .item(clears);
    let config = Map::of("@type", EXECUTE).with("filter_chain", Map::of("typed_config", chain));
    typed(scheme, config)
}
