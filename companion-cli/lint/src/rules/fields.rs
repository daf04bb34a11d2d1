//! Maps beside the fields that their message has.

use crate::finding::Findings;
use crate::node::{MERGE, Node, camel};

/// Maps to check: the path to them, the words for one of them, and its fields.
pub(super) type Maps = &'static [(&'static str, &'static str, &'static str)];

/// Reports the keys of these maps below a node that are no fields of theirs.
pub(super) fn unknown_below<'g>(node: Node<'g>, maps: Maps, findings: &mut Findings<'g>) {
    for (path, what, fields) in maps {
        for map in node.all(path) {
            unknown(map, fields, findings, |key| Some(format!("{what} has no field `{key}`")));
        }
    }
}

/// Reports the keys of a map that are none of these fields, in neither spelling of protobuf.
/// `words` has nothing for a key that is no mistake.
pub(super) fn unknown<'g>(
    map: Node<'g>,
    fields: &str,
    findings: &mut Findings<'g>,
    words: impl Fn(&str) -> Option<String>,
) {
    for (key, value) in map.entries().filter(|(key, _)| *key != MERGE) {
        let is_known = |field: &str| field == key || camel(field) == key;
        let words = if fields.split(' ').any(is_known) { None } else { words(key) };
        words.into_iter().for_each(|words| findings.at(value.key().unwrap_or(value), words));
    }
}
