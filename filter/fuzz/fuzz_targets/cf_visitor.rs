//! The parser of `CF-Visitor` finds a scheme if and only if `serde_json` finds exactly one.
#![no_main]

use laststream_filter::config::tree::{self, Value as Tree};
use laststream_filter::forwarded::{Scheme, cf_visitor_scheme};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|header: &[u8]| {
    let expected = naive(header);
    match cf_visitor_scheme(header) {
        None => {
            assert!(expected.is_none() || has_two_schemes(header), "{expected:?} was not found")
        }
        found => assert_eq!(found, expected),
    }
});

/// `serde_json::Value` keeps one of two members, but the module believes neither.
fn has_two_schemes(header: &[u8]) -> bool {
    let text = std::str::from_utf8(header).unwrap_or_default();
    let Ok(Tree::Object(members)) = tree::parse(text) else { return false };
    members.iter().filter(|(name, _)| name == "scheme").count() > 1
}

fn naive(header: &[u8]) -> Option<Scheme> {
    let value: Value = serde_json::from_slice(header).ok()?;
    match value.as_object()?.get("scheme")?.as_str()?.to_ascii_lowercase().as_str() {
        "https" | "wss" => Some(Scheme::Https),
        "http" | "ws" => Some(Scheme::Http),
        _ => None,
    }
}
