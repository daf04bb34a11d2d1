//! The module's JSON reader takes no more than serde_json does, finds the same in it, and refuses only what it has to.
#![no_main]

use laststream_filter::config::json::parse;
use laststream_fuzz::tree::Tree;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let theirs = Tree::read(text);
    match parse(text) {
        Ok(ours) => assert!(theirs.as_ref().is_some_and(|theirs| theirs.is(&ours)), "{ours:?} instead of {theirs:?}"),
        Err(problem) => {
            assert!(!theirs.is_some_and(|theirs| theirs.is_for_us()), "refused without a reason: {problem}");
            assert!(is_place_in(text, &problem.path), "not a place in the text: {problem}");
            assert!(!problem.message.is_empty());
        }
    }
});

/// Whether it is `line N, column M` of the text, or right behind its end. Columns are bytes.
fn is_place_in(text: &str, place: &str) -> bool {
    let numbers = place.strip_prefix("line ").and_then(|rest| rest.split_once(", column "));
    let Some((line, column)) = numbers.and_then(|(line, column)| Some((line.parse::<usize>().ok()?, column.parse::<usize>().ok()?))) else {
        return false;
    };
    let mut lines = text.split('\n');
    line > 0 && lines.nth(line - 1).is_some_and(|line| (1..=line.len() + 1).contains(&column))
}
