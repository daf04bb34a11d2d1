//! A JSON value as a tree of nodes, without a text in between.

use serde_json::Value;

use super::tree::{NARROW, NONE, NodeKind, Position, Raw, Style, Tree, number};

impl Tree {
    /// The nodes that the JSON of this value would have. Each node is on a line of its own, so that
    /// places are in the same order and never equal.
    pub fn of_value(value: &Value) -> Self {
        let mut tree = Self::default();
        let root = tree.add_value(value, NONE, NONE, 0);
        tree.roots.push(root);
        tree
    }

    fn add_value(&mut self, value: &Value, parent: u32, key: u32, index: u32) -> u32 {
        let mut add = |kind| self.add(kind, parent, key, index);
        match value {
            Value::String(text) => add(scalar(text, Style::Quoted)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                add(scalar(&value.to_string(), Style::Plain))
            }
            Value::Array(items) => {
                let list = add(NodeKind::List(Vec::new()));
                let items = (0..).zip(items);
                let ids = items.map(|(index, item)| self.add_value(item, list, NONE, index));
                let ids = ids.collect();
                self.set(list, NodeKind::List(ids))
            }
            Value::Object(fields) => {
                let map = add(NodeKind::Map(Vec::new()));
                let entries = fields.iter().map(|(name, inner)| {
                    let key = self.add(scalar(name, Style::Quoted), map, NONE, 0);
                    (key, self.add_value(inner, map, key, 0))
                });
                let entries: Vec<_> = entries.collect();
                if fields.len() > NARROW {
                    let ids = entries.iter().map(|(_, value)| *value);
                    let names = fields.keys().map(|name| name.as_str().into());
                    self.wide.insert(map, names.zip(ids).collect());
                }
                self.set(map, NodeKind::Map(entries))
            }
        }
    }

    fn add(&mut self, kind: NodeKind, parent: u32, key: u32, index: u32) -> u32 {
        let id = number(self.nodes.len());
        let start = Position { line: id.saturating_add(1), column: 1 };
        self.nodes.push(Raw { kind, parent, key, index, start, bytes: (0, 0), expanded: 1 });
        id
    }

    fn set(&mut self, id: u32, kind: NodeKind) -> u32 {
        if let Some(raw) = self.nodes.get_mut(id as usize) {
            raw.kind = kind;
        }
        id
    }
}

fn scalar(text: &str, style: Style) -> NodeKind {
    NodeKind::Scalar(text.into(), style)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::yaml::tree::MOST_NODES;

    #[test]
    fn a_value_has_the_nodes_of_its_json() {
        let wide: serde_json::Map<_, _> =
            (0..=NARROW).map(|number| (format!("k{number}"), json!([number, {}]))).collect();
        let value = json!({
            "a": [null, true, -1.5, "x: y\n", ""], "": { "<<": { "b": "1" } }, "w": wide,
        });
        let described = |tree: &Tree| -> Vec<String> {
            let node =
                |raw: &Raw| format!("{:?} {} {} {}", raw.kind, raw.parent, raw.key, raw.index);
            tree.nodes.iter().map(node).collect()
        };
        let (tree, read) = (Tree::of_value(&value), Tree::read(&format!("{value:#}"), MOST_NODES));
        assert_eq!(described(&tree), described(&read));
        assert_eq!((tree.roots, tree.wide), (read.roots, read.wide));
        let is_later = |pair: &[Raw]| pair[0].start < pair[1].start;
        assert!(tree.nodes.windows(2).all(is_later));
    }
}
