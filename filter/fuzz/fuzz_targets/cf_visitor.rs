//! The reader of `CF-Visitor` finds a scheme where serde_json finds exactly one, and nowhere else.
#![no_main]

use laststream_filter::forwarded::{Scheme, cf_visitor_scheme};
use laststream_fuzz::tree::Tree;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|header: &[u8]| {
    let tree = std::str::from_utf8(header).ok().and_then(Tree::read);
    let found = cf_visitor_scheme(header);
    let expected = tree.as_ref().and_then(naive);
    match found {
        Some(_) => assert_eq!(found, expected),
        None => assert!(expected.is_none() || !tree.is_some_and(|tree| tree.is_for_us()), "the scheme was not found"),
    }
});

fn naive(tree: &Tree) -> Option<Scheme> {
    let Tree::Object(members) = tree else { return None };
    let schemes: Vec<_> = members.iter().filter(|(name, _)| name == "scheme").collect();
    let [(_, Tree::Text(word))] = schemes.as_slice() else { return None };
    match word.to_ascii_lowercase().as_str() {
        "https" | "wss" => Some(Scheme::Https),
        "http" | "ws" => Some(Scheme::Http),
        _ => None,
    }
}
