//! words.txt: the words of rendered files, one a line; keys have a colon behind them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use manifest_lint::words::{is_free, is_of_vocabulary};
use manifest_lint::{Assume, Inputs, gather};

use crate::LINTER;

/// The folders of examples that are rendered from a policy.
fn rendered() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../envoyfilter-manifests");
    let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    folders.filter(|folder| folder.join("policy.yaml").exists()).collect()
}

#[test]
fn the_words_are_made_from_rendered_examples() {
    let mut words = BTreeSet::new();
    let sources = gather(&rendered(), &mut std::io::empty()).unwrap();
    let sources = sources.into_iter().filter(|source| !source.name.ends_with("policy.yaml"));
    let inputs = Inputs::read(&LINTER.program, sources.collect(), Assume::default()).unwrap();
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
