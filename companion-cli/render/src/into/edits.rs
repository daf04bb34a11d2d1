//! Changes of a text: each replaces a range. All other bytes stay, and so do comments.

use std::ops::Range;

use laststream_base::yaml::{self, Map};
use serde_json::Value;

use super::document::{Document, Id};
use super::error::MergeError;

#[derive(Default)]
pub(super) struct Edits(Vec<(Range<usize>, String)>);

impl Edits {
    /// Puts items in front of all others of a list.
    pub(super) fn prepend(&mut self, document: &Document<'_>, list: Id, items: &[Map]) {
        if document.is_flow(list) {
            return self.prepend_in_brackets(document, list, items);
        }
        let at = document.below_key(list);
        self.insert(at, items.iter().map(|item| block_item(item, document.indent(list))).collect());
    }

    /// Puts an item behind all others of a list; a list in brackets gets it in front.
    pub(super) fn append(&mut self, document: &Document<'_>, list: Id, item: &Map) {
        if document.is_flow(list) {
            return self.prepend_in_brackets(document, list, std::slice::from_ref(item));
        }
        self.insert(document.end(list), block_item(item, document.indent(list)));
    }

    /// Adds a field behind all others of a map; a map in braces gets it in front.
    pub(super) fn add_field(&mut self, document: &Document<'_>, map: Id, field: &Map) {
        if document.is_flow(map) {
            let text = flow(field);
            let inner = text.trim_start_matches('{').strip_suffix('}').unwrap_or_default();
            return self.behind_bracket(document, map, inner);
        }
        let indent = " ".repeat(document.indent(map));
        let lines = yaml::write_map(field);
        let lines = lines.lines().map(|line| format!("{indent}{line}\n"));
        self.insert(document.end(map), lines.collect());
    }

    pub(super) fn remove(&mut self, document: &Document<'_>, item: Id) -> Result<(), MergeError> {
        if document.is_flow(item) {
            return Err(MergeError {
                line: Some(document.line(item)),
                message: "has a part of laststream from another policy, in braces: remove the \
                    part, and merge again"
                    .into(),
            });
        }
        self.0.push((document.line_start(item)..document.end(item), String::new()));
        Ok(())
    }

    fn prepend_in_brackets(&mut self, document: &Document<'_>, list: Id, items: &[Map]) {
        let items: Vec<String> = items.iter().map(flow).collect();
        self.behind_bracket(document, list, &items.join(", "));
    }

    fn behind_bracket(&mut self, document: &Document<'_>, id: Id, text: &str) {
        let is_empty = document.items(id).is_empty() && document.entries(id).is_empty();
        let at = document.start(id) + 1;
        self.insert(at, if is_empty { text.to_owned() } else { format!("{text}, ") });
    }

    fn insert(&mut self, at: usize, text: String) {
        self.0.push((at..at, text));
    }

    /// The changed text. Changes at one place keep their order.
    pub(super) fn apply(mut self, text: &str) -> String {
        self.0.sort_by_key(|(range, _)| range.start);
        let (mut out, mut done) = (String::with_capacity(text.len()), 0);
        for (range, new) in self.0 {
            out.push_str(text.get(done..range.start).unwrap_or_default());
            if range.start == text.len() && !out.ends_with('\n') {
                out.push('\n');
            }
            out.push_str(&new);
            done = done.max(range.end);
        }
        out + text.get(done..).unwrap_or_default()
    }
}

/// An item of a list whose dashes are in this column.
fn block_item(item: &Map, column: usize) -> String {
    let indent = " ".repeat(column);
    let text = yaml::write_map(item);
    let lines = text.lines().enumerate().map(|(number, line)| match (number, line) {
        (_, "") => "\n".to_owned(),
        (0, _) => format!("{indent}- {line}\n"),
        _ => format!("{indent}  {line}\n"),
    });
    lines.collect()
}

/// A map on one line, as JSON, for lists and maps in brackets and braces.
fn flow(map: &Map) -> String {
    let value: Value = serde_saphyr::from_str(&yaml::write_map(map)).unwrap_or_default();
    value.to_string()
}
