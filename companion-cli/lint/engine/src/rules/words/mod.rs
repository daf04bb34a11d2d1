//! LS011: misspelt words in the files of the program, also where no schema is known: values of
//! charts, patches of pods, parts of a bootstrap.

use std::collections::HashMap;

use crate::words::is_free;
use crate::{Checks, Findings, Inputs, MERGE};

pub(crate) const CHECKS: Checks = &[("LS011", misspelt)];

fn misspelt<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let words = &inputs.program.words;
    let mut meant_keys = HashMap::new();
    for tree in inputs.trees().filter(|tree| is_ours(inputs, *tree)) {
        let nodes = (0_u32..).zip(&inputs.tree(tree).nodes).map(|(id, _)| inputs.node(tree, id));
        for node in nodes {
            let key = node.key().filter(|_| !is_free(node));
            if let Some((key, text)) = key.and_then(|key| Some((key, key.text()?)))
                && text != MERGE
                && let Some(meant) =
                    *meant_keys.entry(text).or_insert_with(|| words.meant_key(text))
            {
                findings.at(key, format!("`{text}` is not known here: it is `{meant}`"));
            }
            if let Some((text, meant)) =
                node.text().and_then(|text| Some((text, words.meant_value(text)?)))
            {
                findings.at(node, format!("`{text}` is not known here: it is `{meant}`"));
            }
        }
    }
}

/// Whether a file is of the program. In others, a word that is not known may be of another program.
fn is_ours(inputs: &Inputs, tree: u32) -> bool {
    let text = inputs.source(tree).and_then(|source| source.text.as_deref().ok());
    text.is_some_and(|text| text.contains(inputs.program.name))
}
