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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::Kind;
    use crate::tests;

    /// The formats that filters in front of the module write under the key.
    fn formats(patches: &Value) -> Vec<&str> {
        let patches = patches.as_array().expect("patches").iter();
        let states = patches
            .filter_map(|patch| patch.pointer("/patch/value/typed_config/on_request_headers/0"));
        states
            .filter(|state| state["object_key"] == "laststream.request")
            .filter_map(|state| state.pointer("/format_string/text_format_source/inline_string"))
            .filter_map(Value::as_str)
            .collect()
    }

    #[test]
    fn each_counter_of_an_envoyfilter_has_the_filter_if_the_policy_shows_requests() {
        for (more, filters) in [
            ("streams: {show: path}\n", 1),
            ("streams: {show: path}\nplacement: {sidecar: {}}\n", 2),
            ("placement: {sidecar: {}}\n", 0),
        ] {
            let text = format!("{more}namespace: a\nmodule: oci://h/r:t");
            let object = tests::yaml(&tests::rendered(Kind::EnvoyFilter, &text)[0]);
            let formats = formats(&object["spec"]["configPatches"]);
            assert_eq!(formats.len(), filters, "{text}");
            assert!(formats.iter().all(|format| format.contains("PATH(NQ:")), "{formats:?}");
        }
    }
}
