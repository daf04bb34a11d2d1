//! The filter that writes the request into filter state, where the listing of streams reads it.

use super::parts::{FILTER_STATE_TYPE, STATE_FILTER, typed};
use laststream_base::yaml::{List, Map};
use laststream_policy::Policy;
use laststream_policy::file::Show;
use laststream_policy::module_json::REQUEST_KEY;

/// The filter, if the policy shows requests. It stands in front of the module.
pub(super) fn filter(policy: &Policy) -> Option<Map> {
    let format = match policy.file.streams.show {
        Show::Nothing => return None,
        Show::Path => "%REQ(:METHOD)% %REQ(:AUTHORITY)%%PATH(NQ:PATH)%",
    };
    let format = Map::of("text_format_source", Map::of("inline_string", format))
        .note("A CONNECT has no path.")
        .with("omit_empty_values", true);
    let state = Map::new()
        .note(
            "`laststream streams` shows this: method, host and path. Not the query string, which \
            may hold secrets.",
        )
        .with("object_key", REQUEST_KEY)
        .with("factory_key", "envoy.string")
        .with("format_string", format);
    let config = Map::of("@type", FILTER_STATE_TYPE).with("on_request_headers", List::of(state));
    Some(typed(STATE_FILTER, config))
}
