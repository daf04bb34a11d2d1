//! Templates of Helm, which are no manifests: the whole file is left out, because what is left of
//! it without its values would be judged wrongly.

use laststream_base::yaml::tree::{Kind, Slip, Tree};

/// A template has no nodes, and one error.
pub(super) fn left_out(text: &str, tree: Tree) -> Tree {
    if !text.lines().any(is_of_template) {
        return tree;
    }
    // An unquoted `{{ .x }}` is a map with a map as its key.
    let keys = tree.nodes.iter().filter_map(|raw| tree.nodes.get(raw.key as usize));
    let maps = keys.filter(|key| matches!(key.kind, Kind::Map(_)));
    let strange = maps.map(|key| key.start).min();
    let broken = tree.errors.iter().map(|slip| slip.position).min();
    let Some(position) = strange.into_iter().chain(broken).min() else { return tree };
    // The parser may notice an action only in the next line.
    let last = position.line as usize;
    let mut around = text.lines().take(last).skip(last.saturating_sub(2));
    if !around.any(is_of_template) {
        return tree;
    }
    let message = "it is a template: render it first".into();
    Tree { errors: vec![Slip { position, message }], comments: tree.comments, ..Tree::default() }
}

/// Whether an action of a template begins a line or an unquoted value.
fn is_of_template(line: &str) -> bool {
    let line = line.trim_start();
    let has_action = line.starts_with("{{") || line.starts_with("- {{") || line.contains(": {{");
    has_action && !line.starts_with('#')
}
