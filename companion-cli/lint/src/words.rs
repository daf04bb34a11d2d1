//! The words of rendered files: keys, and values that stand for themselves (enumerations, names of
//! Envoy's filters, formats). A word that is nearly one of them is misspelt.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::crds;
use super::node::{Node, camel};

/// One word a line; keys have a colon behind them. A test makes it of the rendered examples.
const WORDS: &str = include_str!("words.txt");
/// Further fields of Envoy's messages, which users may add.
const FIELDS: &str = include_str!("rules/envoy_filter/fields.txt");

/// The maps whose keys users choose.
const FREE: &str = "annotations commonLabels data environmentVariables key_values labels \
    matchLabels nodeSelector podAnnotations podLabels proxyMetadata selector";

static KEYS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| WORDS.lines().filter_map(|line| line.strip_suffix(':')).collect());
static VALUES: LazyLock<HashSet<&str>> =
    LazyLock::new(|| WORDS.lines().filter(|line| !line.ends_with(':')).collect());

/// The key that this one is meant to be, if it is no field that is known anywhere.
pub(super) fn meant_key(key: &str) -> Option<&'static str> {
    let near = if KEYS.contains(key) { None } else { nearest(key, &KEYS) }?;
    // protobuf has two spellings, and of short words one and many are two fields.
    let is_same = |one: &str, other: &str| {
        camel(one) == camel(other) || one.len() < LONG + 4 && one.strip_suffix('s') == Some(other)
    };
    let is_field = || FIELDS.split_whitespace().any(|field| field == key);
    let is_known = KEYS.iter().any(|known| is_same(known, key) || is_same(key, known))
        || is_field()
        || crds::has_field(key);
    (!is_known).then_some(near)
}

/// The value that this one is meant to be.
pub(super) fn meant_value(text: &str) -> Option<&'static str> {
    let is_known = !is_of_vocabulary(text) || VALUES.contains(text);
    if is_known { None } else { nearest(text, &VALUES) }
}

/// Whether a value may stand for itself: in capitals, a name of Envoy's, or a format.
fn is_of_vocabulary(text: &str) -> bool {
    let is_capital = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    text.bytes().all(is_capital) && text.bytes().any(|byte| byte.is_ascii_uppercase())
        || text.starts_with("envoy.")
        || text.starts_with('%')
}

/// The word of a short list that this one is, or is meant to be.
pub(super) fn nearest_of<'w>(text: &str, words: &'w str) -> Option<&'w str> {
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
pub(super) fn is_free(node: Node<'_>) -> bool {
    node.parent()
        .and_then(Node::key_text)
        .is_some_and(|key| FREE.split(' ').any(|free| free == key))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::{is_free, is_of_vocabulary};
    use crate::assume::Assume;
    use crate::inputs::Inputs;

    /// The folders of examples that are rendered from a policy.
    fn rendered() -> Vec<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../envoyfilter-manifests");
        let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
        folders.filter(|folder| folder.join("policy.yaml").exists()).collect()
    }

    #[test]
    fn the_words_are_made_from_rendered_examples() {
        let mut words = BTreeSet::new();
        let sources = crate::gather(&rendered(), &mut std::io::empty()).unwrap();
        let sources = sources.into_iter().filter(|source| !source.name.ends_with("policy.yaml"));
        let inputs = Inputs::read(sources.collect(), Assume::default()).unwrap();
        for tree in inputs.trees() {
            for id in 0..inputs.tree(tree).nodes.len() {
                let node = inputs.node(tree, u32::try_from(id).unwrap());
                let key = node.key_text().filter(|key| !is_free(node) && !key.contains(['/', '.']));
                words.extend(key.map(|key| format!("{key}:")));
                let value = node.text().filter(|text| is_of_vocabulary(text));
                words.extend(value.filter(|text| !text.contains('\n')).map(str::to_owned));
            }
        }
        // What a user may write in their place.
        let others = "FAIL_CLOSED FAIL_CLOSE INBOUND ADD_IF_ABSENT envoy.wasm.runtime.wamr \
            envoy.wasm.runtime.wasmtime envoy.wasm.runtime.null";
        words.extend(others.split_whitespace().map(str::to_owned));
        let text = words.into_iter().map(|word| word + "\n").collect::<String>();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/words.txt");
        if std::env::var_os("LASTSTREAM_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert!(std::fs::read_to_string(&path).unwrap() == text, "run `cargo bless`");
    }
}
