//! Keys of a map that are no fields of its message.

use crate::{Findings, MERGE, Node, camel};

/// The first character of fields that only direct a merge.
const DIRECTIVE: char = '$';

/// Reports the keys of a map that are none of these fields, in neither spelling of protobuf.
/// `words` has nothing for a key that is no mistake.
pub fn unknown<'g>(
    map: Node<'g>,
    fields: &str,
    findings: &mut Findings<'g>,
    words: impl Fn(&str) -> Option<String>,
) {
    let is_checked = |key: &str| key != MERGE && !key.starts_with(DIRECTIVE);
    for (key, value) in map.entries().filter(|(key, _)| is_checked(key)) {
        let is_known = |field: &str| field == key || camel(field) == key;
        let words = if fields.split(' ').any(is_known) { None } else { words(key) };
        words.into_iter().for_each(|words| findings.at(value.key().unwrap_or(value), words));
    }
}
