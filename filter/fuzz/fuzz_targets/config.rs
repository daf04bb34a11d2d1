//! Configurations: nothing panics, a valid configuration is still valid after it was written back,
//! and a refusal has a field and a reason. If a text begins with `s`, the bytes after it make a
//! configuration that follows the schema.
#![no_main]

use arbitrary::Unstructured;
use laststream_filter::config::tree::{self, Value as Tree};
use laststream_filter::config::{Problem, parse, read_wire};
use laststream_fuzz::by_schema::{self, SCHEMA};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    match data.strip_prefix(b"s") {
        None => check(data),
        Some(bytes) => {
            let Ok(made) = by_schema::configuration(&mut Unstructured::new(bytes)) else { return };
            let text = made.to_string();
            if let Err(problem) = read_wire(text.as_bytes()) {
                panic!("the schema allows {text}, the module does not: {problem}");
            }
            check(text.as_bytes());
        }
    }
});

fn check(text: &[u8]) {
    match parse(text) {
        Ok(config) => {
            let Ok(wire) = read_wire(text) else { panic!("taken, but not read") };
            let Ok(written) = serde_json::to_string(&wire) else { panic!("not written") };
            assert_eq!(read_wire(written.as_bytes()).as_ref(), Ok(&wire), "{written}");
            let Ok(again) = parse(written.as_bytes()) else { panic!("not taken again: {written}") };
            assert_eq!(again.summary(), config.summary());
            assert_eq!(again.warnings(), config.warnings());
        }
        Err(refused) => {
            assert!(!refused.0.is_empty() && !refused.to_string().is_empty());
            let tree = std::str::from_utf8(text).ok().and_then(|text| tree::parse(text).ok());
            refused.0.iter().for_each(|problem| check_problem(problem, tree.as_ref()));
        }
    }
}

fn check_problem(problem: &Problem, text: Option<&Tree<'_>>) {
    assert!(!problem.message.trim().is_empty(), "no reason: {problem}");
    let (message, mut path) = (problem.message.as_str(), problem.path.as_str());
    if message.starts_with("not JSON") {
        assert!(path.starts_with("line "), "no place: {problem}");
        return;
    }
    let (mut text, mut schema) = (text, &*SCHEMA);
    while !path.is_empty() {
        let Some((field, rest)) = known_field(schema, path) else {
            assert!(message.starts_with("there is no such field"), "no such path: {problem}");
            return;
        };
        schema = &schema["properties"][field];
        text = text.and_then(|text| member(text, field));
        path = rest;
        if let Some((index, rest)) = path.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            schema = &schema["items"];
            text = text
                .map(|text| item(text, index).unwrap_or_else(|| panic!("no such item: {problem}")));
            path = rest;
        }
        path = path.strip_prefix('.').unwrap_or(path);
    }
}

/// The field that the path begins with, and the rest of the path.
fn known_field<'p>(schema: &Value, path: &'p str) -> Option<(&'p str, &'p str)> {
    let (field, rest) = path.split_at(path.find(['.', '[']).unwrap_or(path.len()));
    schema["properties"].get(field).map(|_| (field, rest))
}

/// The first member of this name. A second one is an error, whatever its value.
fn member<'t>(text: &'t Tree<'_>, name: &str) -> Option<&'t Tree<'t>> {
    let Tree::Object(members) = text else { return None };
    members.iter().find(|(other, _)| other == name).map(|(_, value)| value)
}

fn item<'t>(text: &'t Tree<'_>, index: &str) -> Option<&'t Tree<'t>> {
    let Tree::List(items) = text else { return None };
    items.get(index.parse::<usize>().ok()?)
}
