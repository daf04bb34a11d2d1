//! What is not written yet: templates of Helm and ytt, which are no manifests (the whole file is
//! left out, because what is left of it without its values would be judged wrongly), and values
//! that Flux, Argo CD or kubelet fills in.

use manifest_text::yaml::tree::{NodeKind, Position, Slip, Tree};

/// The first variable in a value that is filled in later: `${NAME}`, `$(NAME)` or `{{ … }}`.
pub(crate) fn variable(text: &str) -> Option<&str> {
    let is_name = |name: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        !name.is_empty() && name.bytes().all(is_inner) && !name.as_bytes()[0].is_ascii_digit()
    };
    let is_variable = |open: &str, inner: &str| match open {
        "${" => is_name(inner.split([':', '=', '-', '?', '/', '%', '#']).next().unwrap_or(inner)),
        "$(" => is_name(inner),
        _ => true,
    };
    [("${", "}"), ("$(", ")"), ("{{", "}}")].into_iter().find_map(|(open, close)| {
        let start = text.find(open)?;
        let inner = text.get(start + open.len()..)?;
        let end = inner
            .find(close)
            .filter(|end| inner.get(..*end).is_some_and(|i| is_variable(open, i)))?;
        text.get(start..start + open.len() + end + close.len())
    })
}

/// A template has no nodes, and one error.
pub(crate) fn left_out(text: &str, tree: Tree) -> Tree {
    if !text.lines().any(is_of_template) {
        return tree;
    }
    // An unquoted `{{ .x }}` is a map with a map as its key.
    let keys = tree.nodes.iter().filter_map(|raw| tree.nodes.get(raw.key as usize));
    let maps = keys.filter(|key| matches!(key.kind, NodeKind::Map(_)));
    let strange = maps.map(|key| key.start).min();
    let broken = tree.errors.iter().map(|slip| slip.position).min();
    // A value of ytt is a comment.
    let comment = (1..).zip(text.lines()).find(|(_, line)| is_of_ytt(line));
    let comment = comment.map(|(line, _)| Position { line, column: 1 });
    let places = [strange, broken, comment].into_iter().flatten();
    let Some(position) = places.min() else { return tree };
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
    has_action && !line.starts_with('#') || is_of_ytt(line)
}

fn is_of_ytt(line: &str) -> bool {
    line.contains(": #@ ") || line.trim_start().starts_with("- #@ ")
}
