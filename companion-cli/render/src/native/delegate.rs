//! `match_delegate` around Envoy's IP tagging.
//!
//! Of the filters of every supported Envoy, only IP tagging writes a chosen header and makes Envoy
//! choose the route again. Header mutation does not, so redirects and routes would use the old
//! value.

use laststream_base::yaml::{List, Map};
use laststream_filter::forwarded::FORWARDED_PROTO;

use super::matcher::{Write, not};
use crate::parts::typed;

const DELEGATE: &str =
    "type.googleapis.com/envoy.extensions.common.matching.v3.ExtensionWithMatcher";
const SKIP: &str =
    "type.googleapis.com/envoy.extensions.filters.common.matcher.action.v3.SkipFilter";
const TAGGING: &str = "type.googleapis.com/envoy.extensions.filters.http.ip_tagging.v3.IPTagging";

/// The filter that writes this value, skipped unless the condition holds.
pub(super) fn filter(name: &str, write: &Write) -> Map {
    let skip = typed("skip", Map::of("@type", SKIP));
    let unless = Map::of("predicate", not(write.test.clone()).predicate())
        .with("on_match", Map::of("action", skip));
    let config = Map::of("@type", DELEGATE)
        .with("extension_config", writer(write.scheme))
        .note(write.about)
        .with("xds_matcher", Map::of("matcher_list", Map::of("matchers", List::of(unless))));
    typed(name, config)
}

/// The filter that writes the header for every client.
fn writer(scheme: &str) -> Map {
    let all_ranges = ["0.0.0.0", "::"]
        .into_iter()
        .map(|address| Map::of("address_prefix", address).with("prefix_len", 0_u16));
    let tag = Map::of("ip_tag_name", scheme).with("ip_list", all_ranges.collect::<List>());
    typed(
        "envoy.filters.http.ip_tagging",
        Map::of("@type", TAGGING)
            .with("request_type", "BOTH")
            .note(
                "Every address has this tag, and the tag becomes the header: no other filter of \
                    every supported Envoy both writes one and has the route chosen again.",
            )
            .with("ip_tags", List::of(tag))
            .with("ip_tag_header", Map::of("header", FORWARDED_PROTO).with("action", "SANITIZE")),
    )
}
