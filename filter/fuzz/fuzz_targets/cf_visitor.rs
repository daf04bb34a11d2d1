//! The reader of `CF-Visitor` finds a scheme where `serde_json` finds exactly one, and nowhere
//! else.
#![no_main]

use laststream_filter::config::tree::{self, Value as Tree};
use laststream_filter::forwarded::{Scheme, cf_visitor_scheme};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|header: &[u8]| {
    let expected = naive(header);
    match cf_visitor_scheme(header) {
        None => assert!(expected.is_none() || is_there_twice(header), "{expected:?} was not found"),
        found => assert_eq!(found, expected),
    }
});

/// `serde_json::Value` keeps one of them, the module believes neither.
fn is_there_twice(header: &[u8]) -> bool {
    let text = std::str::from_utf8(header).unwrap_or_default();
    matches!(tree::parse(text), Ok(Tree::Object(members)) if members.iter().filter(|(name, _)| name == "scheme").count() > 1)
}

fn naive(header: &[u8]) -> Option<Scheme> {
    let value: Value = serde_json::from_slice(header).ok()?;
    match value.as_object()?.get("scheme")?.as_str()?.to_ascii_lowercase().as_str() {
        "https" | "wss" => Some(Scheme::Https),
        "http" | "ws" => Some(Scheme::Http),
        _ => None,
    }
}
