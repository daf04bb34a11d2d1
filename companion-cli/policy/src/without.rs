//! The text of a policy without its wrong fields, so that the other ones are read, too.

use laststream_base::yaml::tree::{NONE, NodeKind, Style, Tree};

/// A text with the values of a tree, one of them in each line.
#[derive(Default)]
pub(crate) struct Without {
    pub(crate) text: String,
    /// The node of each line.
    nodes: Vec<u32>,
}

impl Without {
    /// The text of a tree that has no aliases, without these nodes.
    pub(crate) fn nodes(tree: &Tree, root: u32, wrong: &[u32]) -> Self {
        let mut rest = Self::default();
        rest.add(tree, root, wrong, "");
        rest.text.truncate(rest.text.trim_end_matches([',', '\n']).len());
        rest
    }

    /// The node of a line, from 1.
    pub(crate) fn node(&self, line: u64) -> Option<u32> {
        self.nodes.get(usize::try_from(line).ok()?.checked_sub(1)?).copied()
    }

    fn add(&mut self, tree: &Tree, id: u32, wrong: &[u32], key: &str) {
        let Some(raw) = tree.nodes.get(id as usize).filter(|_| !wrong.contains(&id)) else {
            return;
        };
        match &raw.kind {
            NodeKind::Scalar(text, style) => {
                self.line(id, &format!("{key}{},", scalar(text, *style)))
            }
            NodeKind::List(items) => {
                self.line(id, &format!("{key}["));
                items.iter().for_each(|item| self.add(tree, *item, wrong, ""));
                self.line(id, "],");
            }
            NodeKind::Map(entries) => {
                self.line(id, &format!("{key}{{"));
                for (key, value) in entries {
                    let key = tree.text(*key).unwrap_or_default();
                    self.add(tree, *value, wrong, &format!("{}: ", quoted(key)));
                }
                self.line(id, "},");
            }
            NodeKind::Alias(_) => {}
        }
    }

    fn line(&mut self, id: u32, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
        self.nodes.push(id);
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A number or a switch stays what it is.
fn scalar(text: &str, style: Style) -> String {
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte);
    match style {
        Style::Plain if text.is_empty() => "~".to_owned(),
        Style::Plain if text == "~" || text.bytes().all(is_kept) => text.to_owned(),
        _ => quoted(text),
    }
}

/// The path of a node, such as `a.b[3]`.
pub(crate) fn path(tree: &Tree, id: u32) -> String {
    let Some(raw) = tree.nodes.get(id as usize).filter(|raw| raw.parent != NONE) else {
        return String::new();
    };
    let parent = path(tree, raw.parent);
    match tree.text(raw.key) {
        None => format!("{parent}[{}]", raw.index),
        Some(key) if parent.is_empty() => key.to_owned(),
        Some(key) => format!("{parent}.{key}"),
    }
}

/// Whether a node is another one, or within it.
pub(crate) fn is_within(tree: &Tree, id: u32, outer: u32) -> bool {
    let parent = |id: &u32| Some(tree.nodes.get(*id as usize)?.parent);
    std::iter::successors(Some(id), parent).any(|id| id == outer)
}
