//! A node as the JSON value that the API server gets.

use serde_json::{Number, Value};

use crate::plain::Meaning;
use crate::{MERGE, Node};

/// The JSON value that kubectl makes of a node: aliases and merge keys expanded, plain words read
/// as YAML 1.1. None if the value is larger than `most` values or deeper than `depth`, because
/// aliases of aliases can nest without end.
pub fn value_of(node: Node<'_>, mut most: usize, depth: u16) -> Option<Value> {
    convert(node, &mut most, depth)
}

fn convert(node: Node<'_>, left: &mut usize, depth: u16) -> Option<Value> {
    *left = left.checked_sub(1)?;
    let depth = depth.checked_sub(1)?;
    if node.is_list() {
        let items: Option<Vec<_>> = node.items().map(|item| convert(item, left, depth)).collect();
        return items.map(Value::Array);
    }
    if !node.is_map() {
        return Some(scalar(node));
    }
    let mut members = serde_json::Map::new();
    for (key, inner) in node.entries().filter(|(key, _)| *key != MERGE) {
        members.insert(key.to_owned(), convert(inner, left, depth)?);
    }
    for (_, merged) in node.entries().filter(|(key, _)| *key == MERGE) {
        let maps: Vec<_> = if merged.is_list() { merged.items().collect() } else { vec![merged] };
        for map in maps {
            if let Value::Object(more) = convert(map, left, depth)? {
                more.into_iter().for_each(|(key, value)| {
                    members.entry(key).or_insert(value);
                });
            }
        }
    }
    Some(members.into())
}

fn scalar(node: Node<'_>) -> Value {
    let text = node.text().unwrap_or_default();
    match node.meaning() {
        None | Some(Meaning::Null) => Value::Null,
        Some(Meaning::Bool(value)) => value.into(),
        Some(Meaning::Text) => text.into(),
        Some(Meaning::Number) => {
            let digits = text.replace('_', "");
            let whole = digits.parse::<i64>().ok().map(Number::from);
            let number = whole
                .or_else(|| with_base(&digits).map(Number::from))
                .or_else(|| digits.parse::<f64>().ok().and_then(Number::from_f64));
            number.map_or(Value::from(0), Value::Number)
        }
    }
}

/// An integer with a prefix for its base, such as `0x1F90`.
fn with_base(digits: &str) -> Option<i64> {
    let digits = digits.to_ascii_lowercase();
    [("0x", 16), ("0o", 8), ("0b", 2)]
        .into_iter()
        .find_map(|(prefix, base)| i64::from_str_radix(digits.strip_prefix(prefix)?, base).ok())
}
