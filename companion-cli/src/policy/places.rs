//! Where a field stands in the text, for errors about values that are well-formed and still wrong.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// YAML of any shape, of which only the places matter.
enum Tree {
    Leaf,
    List(Vec<Spanned<Tree>>),
    Map(Vec<(String, Spanned<Tree>)>),
}

/// Line and column of the field, or of the innermost one around it that is there.
pub(super) fn find(text: &str, path: &str) -> Option<(u64, u64)> {
    let root: Spanned<Tree> = serde_saphyr::from_str(text).ok()?;
    let mut here = &root;
    for step in steps(path) {
        let inner = match &here.value {
            Tree::Map(entries) => entries.iter().find(|(key, _)| key == step).map(|(_, value)| value),
            Tree::List(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
            Tree::Leaf => None,
        };
        match inner {
            Some(inner) => here = inner,
            None => break,
        }
    }
    let place = here.referenced;
    (place.line() > 0).then(|| (place.line(), place.column()))
}

/// `a.b[3].c` → a, b, 3, c
fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split(['.', '[', ']']).filter(|step| !step.is_empty())
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Shape)
    }
}

struct Shape;

impl<'de> Visitor<'de> for Shape {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_str<E>(self, _: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Tree::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn finds_fields_and_what_is_around_those_that_are_missing() {
        let text = "name: x\nforwarded_proto:\n  trust:\n    peers: [10.0.0.0/8,\n      10.0.0.1/8]\n  presets:\n  - gcp\n";
        assert_eq!(find(text, "name"), Some((1, 7)));
        assert_eq!(find(text, "forwarded_proto.trust.peers[1]"), Some((5, 7)));
        assert_eq!(find(text, "forwarded_proto.presets[0]"), Some((7, 5)));
        assert_eq!(find(text, "forwarded_proto.trust.identities[0]"), Some((4, 5)));
        assert_eq!(find("[", "a"), None);
    }
}
