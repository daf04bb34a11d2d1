//! The words of a program's own files: keys, and values that stand for themselves (enumerations,
//! names of Envoy's filters, formats). A word that is nearly one of them is misspelt.

use std::collections::HashSet;

use crate::crds;
use crate::{Node, camel};

/// Further fields of Envoy's messages, which users may add.
const FIELDS: &str = include_str!("rules/envoy_filter/fields.txt");

/// The maps whose keys users choose.
const FREE: &str = "annotations commonLabels data environmentVariables key_values labels \
    matchLabels nodeSelector podAnnotations podLabels proxyMetadata selector";

/// The words of a program's files.
#[derive(Debug)]
pub(crate) struct Words {
    keys: HashSet<&'static str>,
    values: HashSet<&'static str>,
}

impl Words {
    /// Reads a list: one word a line, keys with a colon behind them.
    pub(crate) fn of(list: &'static str) -> Self {
        let (keys, values): (Vec<_>, Vec<_>) = list.lines().partition(|line| line.ends_with(':'));
        let keys = keys.into_iter().map(|key| key.trim_end_matches(':')).collect();
        Self { keys, values: values.into_iter().collect() }
    }

    /// The key that this one is meant to be, if it is no field that is known anywhere.
    pub(crate) fn meant_key(&self, key: &str) -> Option<&'static str> {
        let near = if self.keys.contains(key) { None } else { nearest(key, &self.keys) }?;
        // protobuf has two spellings, and of short words one and many are two fields.
        let is_same = |one: &str, other: &str| {
            let is_one_of = one.len() < LONG + 4 && one.strip_suffix('s') == Some(other);
            camel(one) == camel(other) || is_one_of
        };
        let is_field = || FIELDS.split_whitespace().any(|field| field == key);
        let is_known = self.keys.iter().any(|known| is_same(known, key) || is_same(key, known))
            || is_field()
            || crds::has_field(key);
        (!is_known).then_some(near)
    }

    /// The value that this one is meant to be.
    pub(crate) fn meant_value(&self, text: &str) -> Option<&'static str> {
        let is_known = !is_of_vocabulary(text) || self.values.contains(text);
        if is_known { None } else { nearest(text, &self.values) }
    }
}

/// Whether a value may stand for itself: in capitals, a name of Envoy's, or a format.
pub fn is_of_vocabulary(text: &str) -> bool {
    let is_capital = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    text.bytes().all(is_capital) && text.bytes().any(|byte| byte.is_ascii_uppercase())
        || text.starts_with("envoy.")
        || text.starts_with('%')
}

/// The word of a short list that this one is, or is meant to be.
pub fn nearest_of<'w>(text: &str, words: &'w str) -> Option<&'w str> {
    nearest(text, &words.split(' ').collect())
}

/// The word that differs from this one by one or two slips.
fn nearest<'w>(text: &str, words: &HashSet<&'w str>) -> Option<&'w str> {
    if text.len() < SHORTEST {
        return None;
    }
    let most = if text.len() < LONG { 1 } else { 2 };
    let differ = |word: &str| strsim::damerau_levenshtein(word, text);
    let near = words.iter().filter(|word| word.len().abs_diff(text.len()) <= most);
    let near = near.map(|word| (differ(word), *word)).filter(|(count, _)| *count <= most);
    near.min().map(|(_, word)| word)
}

/// The shortest word that is compared, and the shortest in which two slips are one word.
const SHORTEST: usize = 3;
const LONG: usize = 8;

/// Whether the key of a node is chosen by the user.
pub fn is_free(node: Node<'_>) -> bool {
    node.parent()
        .and_then(Node::key_text)
        .is_some_and(|key| FREE.split(' ').any(|free| free == key))
}
