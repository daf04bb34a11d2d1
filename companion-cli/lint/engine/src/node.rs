//! Navigation of nodes: by key, by index, to parents, and their positions. Aliases and merge keys
//! are followed.

use std::cell::Cell;
use std::hash::{Hash, Hasher};

use crate::plain::Meaning;
use crate::template::variable;
use crate::{Texts, number};
use manifest_text::time_span::milliseconds;
use manifest_text::yaml::tree::{NONE, NodeKind, Position, Raw, Style, Tree};

/// The key whose value is merged into the map around it.
pub const MERGE: &str = "<<";
/// The greatest depth of merge keys within merge keys.
const DEEPEST_MERGE: u8 = 3;
/// Maps that one merge key may take in: more than real manifests have, few enough for a linear
/// search.
const MOST_MERGED: usize = 8;

thread_local! {
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

/// The looks at nodes in this thread so far: a measure of the work, whatever the machine.
pub fn looks() -> u64 {
    LOOKS.get()
}

#[derive(Clone, Copy)]
pub struct Node<'g> {
    pub texts: &'g Texts,
    pub tree: u32,
    pub id: u32,
}

impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.tree, self.id) == (other.tree, other.id)
    }
}

impl Eq for Node<'_> {}

impl Hash for Node<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.tree, self.id).hash(state);
    }
}

impl<'g> Node<'g> {
    pub fn of_tree(self) -> &'g Tree {
        self.texts.tree(self.tree)
    }

    fn with(self, id: u32) -> Option<Self> {
        (id != NONE).then_some(Self { id, ..self })
    }

    pub fn raw(self) -> Option<&'g Raw> {
        self.of_tree().nodes.get(self.id as usize)
    }

    /// The kind of the node, with aliases resolved.
    fn kind(self) -> Option<&'g NodeKind> {
        LOOKS.set(LOOKS.get() + 1);
        let tree = self.of_tree();
        tree.nodes.get(tree.resolve(self.id) as usize).map(|raw| &raw.kind)
    }

    pub fn get(self, key: &str) -> Option<Self> {
        self.find(&[key], DEEPEST_MERGE)
    }

    /// The value of a protobuf field, which may be written `like_this` or `likeThis`.
    pub fn field(self, name: &str) -> Option<Self> {
        if name.contains('_') {
            self.find(&[name, &camel(name)], DEEPEST_MERGE)
        } else {
            self.get(name)
        }
    }

    /// Goes down several fields at once: `config.vm_config.code`.
    pub fn fields(self, path: &str) -> Option<Self> {
        path.split('.').try_fold(self, Self::field)
    }

    fn find(self, names: &[&str], merges: u8) -> Option<Self> {
        let Some(NodeKind::Map(entries)) = self.kind() else { return None };
        if let Some(wide) = self.of_tree().wide.get(&self.of_tree().resolve(self.id)) {
            return names
                .iter()
                .find_map(|name| wide.get(*name))
                .and_then(|value| self.with(*value));
        }
        let text = |key: u32| self.with(key).and_then(Self::text);
        if let Some((_, value)) = entries
            .iter()
            .rev()
            .find(|(key, _)| text(*key).is_some_and(|text| names.contains(&text)))
        {
            return self.with(*value);
        }
        let merges = merges.checked_sub(1)?;
        let merged = entries
            .iter()
            .filter(|(key, _)| text(*key) == Some(MERGE))
            .filter_map(|(_, value)| self.with(*value));
        merged.flat_map(Self::one_or_more).take(MOST_MERGED).find_map(|map| map.find(names, merges))
    }

    /// The items of a list, or the node itself.
    fn one_or_more(self) -> Vec<Self> {
        if self.is_list() { self.items().take(MOST_MERGED).collect() } else { vec![self] }
    }

    /// The items of a list; none of anything else.
    pub fn items(self) -> impl DoubleEndedIterator<Item = Self> + 'g {
        let items = match self.kind() {
            Some(NodeKind::List(items)) => items.as_slice(),
            _ => &[],
        };
        items.iter().filter_map(move |&id| self.with(id))
    }

    /// The keys and values of a map, without those of merge keys.
    pub fn entries(self) -> impl Iterator<Item = (&'g str, Self)> + 'g {
        let entries = match self.kind() {
            Some(NodeKind::Map(entries)) => entries.as_slice(),
            _ => &[],
        };
        entries
            .iter()
            .filter_map(move |&(key, value)| Some((self.with(key)?.text()?, self.with(value)?)))
    }

    pub fn is_alias(self) -> bool {
        matches!(self.raw().map(|raw| &raw.kind), Some(NodeKind::Alias(_)))
    }

    pub fn is_map(self) -> bool {
        matches!(self.kind(), Some(NodeKind::Map(_)))
    }

    pub fn is_list(self) -> bool {
        matches!(self.kind(), Some(NodeKind::List(_)))
    }

    /// A scalar's text, however it is written.
    pub fn text(self) -> Option<&'g str> {
        match self.kind() {
            Some(NodeKind::Scalar(text, _)) => Some(text),
            _ => None,
        }
    }

    /// A scalar's text; none if Kubernetes reads null.
    pub fn value(self) -> Option<&'g str> {
        self.text().filter(|_| self.meaning() != Some(Meaning::Null))
    }

    /// The type that Kubernetes reads a scalar as.
    pub fn meaning(self) -> Option<Meaning> {
        match self.kind() {
            Some(NodeKind::Scalar(text, Style::Plain)) => Some(Meaning::of(text)),
            Some(NodeKind::Scalar(..)) => Some(Meaning::Text),
            _ => None,
        }
    }

    /// Whether a scalar is `true` in any case, or `1`, as a boolean or as a text.
    pub fn is_true(self) -> bool {
        self.text().is_some_and(|text| text.eq_ignore_ascii_case("true") || text == "1")
    }

    pub fn number(self) -> Option<u64> {
        self.text()?.replace('_', "").parse().ok()
    }

    /// A span of time, in milliseconds.
    pub fn millis(self) -> Option<u64> {
        milliseconds(self.text()?)
    }

    /// The text at the end of a path of fields, such as `metadata.name`.
    pub fn text_of(self, path: &str) -> Option<&'g str> {
        self.fields(path)?.text()
    }

    /// The items of the list at the end of a path of fields; none of anything else.
    pub fn list(self, path: &str) -> impl DoubleEndedIterator<Item = Self> + use<'g> {
        self.fields(path).into_iter().flat_map(Self::items)
    }

    /// The first item of a list that has this text as the value of `key`.
    pub fn item(self, list: &str, key: &str, text: &str) -> Option<Self> {
        self.list(list).find(|item| item.text_of(key) == Some(text))
    }

    /// The nodes that a path leads to, in which `[]` stands for each item of a list, and `|` for
    /// fields of which each may be meant: `spec.containers[]|initContainers[].image`. An empty path
    /// leads to the node itself.
    pub fn all(self, path: &'static str) -> Box<dyn Iterator<Item = Self> + 'g> {
        let steps = path.split('.').filter(|step| !step.is_empty());
        let itself: Box<dyn Iterator<Item = Self> + 'g> = Box::new(std::iter::once(self));
        // The items of one node at a time are collected: aliases can stand for millions of nodes.
        steps.fold(itself, |nodes, step| Box::new(nodes.flat_map(move |node| node.step(step))))
    }

    fn step(self, names: &str) -> Vec<Self> {
        let of = |name: &str| match name.strip_suffix("[]") {
            Some(list) => self.list(list).collect::<Vec<_>>(),
            None => self.field(name).into_iter().collect(),
        };
        names.split('|').flat_map(of).collect()
    }

    /// The first variable in a scalar, or below a map or list, that is filled in later.
    pub fn variable(self) -> Option<&'g str> {
        match self.text() {
            Some(text) => variable(text),
            None if self.is_alias() => None,
            None => {
                self.entries().map(|(_, value)| value).chain(self.items()).find_map(Self::variable)
            }
        }
    }

    /// Whether Kubernetes reads null, an empty map or an empty list.
    pub fn is_empty(self) -> bool {
        match self.text() {
            Some(_) => self.value().is_none(),
            None => self.entries().next().is_none() && self.items().next().is_none(),
        }
    }

    /// The node that these keys and indices lead to, or the last existing node on the way.
    pub fn nearest(self, steps: impl Iterator<Item = impl AsRef<str>>) -> Self {
        let inner = |node: Self, step: &str| match step.parse() {
            Ok(index) if node.is_list() => node.items().nth(index),
            _ => node.get(step),
        };
        let way = steps.scan(self, |node, step| {
            *node = inner(*node, step.as_ref())?;
            Some(*node)
        });
        way.last().unwrap_or(self)
    }

    pub fn parent(self) -> Option<Self> {
        self.with(self.raw()?.parent)
    }

    /// The node itself, then its parents up to the document.
    pub fn upwards(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), |node| node.parent())
    }

    /// The node and its parents, then the scalar that holds their text and its parents, up to the
    /// file's own document.
    pub fn outwards(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self), |node| node.carrier()).flat_map(Self::upwards)
    }

    pub fn key(self) -> Option<Self> {
        self.with(self.raw()?.key)
    }

    pub fn key_text(self) -> Option<&'g str> {
        self.key().and_then(Self::text)
    }

    /// Whether these are the keys of the node and its parents, innermost first:
    /// `["lifecycle", "proxy", "global"]`.
    pub fn has_keys(self, innermost_first: &[&str]) -> bool {
        let mut keys = self.upwards().map(Self::key_text);
        innermost_first.iter().all(|wanted| keys.next().flatten() == Some(*wanted))
    }

    /// The root of the text that this scalar holds, if the text was read as YAML or JSON.
    pub fn embedded(self) -> Option<Self> {
        let id = self.of_tree().resolve(self.id);
        let tree = self.texts.embedded_in(self.tree, id)?;
        let root = self.texts.tree(tree).roots.first()?;
        Some(Self { tree, id: *root, ..self })
    }

    /// The scalar that holds the node's text; none in a file's own text.
    pub fn carrier(self) -> Option<Self> {
        let (tree, id) = self.texts.carrier_of(self.tree)?;
        Some(Self { tree, id, ..self })
    }

    /// The scalar in the file's own text that holds the node, or the node itself if it is in that
    /// text.
    pub fn outermost(self) -> Self {
        std::iter::successors(Some(self), |node| node.carrier()).last().unwrap_or(self)
    }

    /// The place to report: for a map or list its key, for a scalar itself.
    pub fn place(self) -> Self {
        match (self.raw().map(|raw| &raw.kind), self.key()) {
            (Some(NodeKind::Map(_) | NodeKind::List(_)), Some(key)) => key,
            _ => self,
        }
    }

    /// The position in the file, also of a node in an embedded text.
    pub fn position(self) -> Position {
        let start = self.raw().map_or(Position { line: 1, column: 1 }, |raw| raw.start);
        self.texts.in_file(self.tree, start)
    }

    /// The path, such as `spec.configPatches[0].patch`.
    pub fn path(self) -> String {
        let mut parts: Vec<String> = self.carrier().map(Self::path).into_iter().collect();
        let mut own = Vec::new();
        for node in self.upwards() {
            match (node.key_text(), node.raw()) {
                (Some(key), _) => own.push(joint(key)),
                (None, Some(raw)) if node.parent().is_some_and(Self::is_list) => {
                    own.push(format!("[{}]", raw.index))
                }
                _ => {}
            }
        }
        parts.extend(own.into_iter().rev());
        let path = parts.concat();
        path.strip_prefix('.').unwrap_or(&path).to_owned()
    }

    /// The position and width of a part of a literal scalar; none for other styles, whose lines are
    /// not lines of the file.
    pub fn position_of(self, part: &str) -> Option<(Position, u32)> {
        let id = self.of_tree().resolve(self.id);
        let first = self.texts.text_start(self.tree, id)?;
        let part = part.trim();
        let (before, line) =
            (0..).zip(self.text()?.lines()).find(|(_, line)| line.contains(part))?;
        let indent = line.get(..line.find(part)?)?.chars().count();
        let column = first.column + u32::try_from(indent).unwrap_or(0);
        Some((
            Position { line: first.line + before, column },
            u32::try_from(part.chars().count()).unwrap_or(1),
        ))
    }
}

/// Look-ups of nodes in all texts.
impl Texts {
    pub fn node(&self, tree: u32, id: u32) -> Node<'_> {
        Node { texts: self, tree, id }
    }

    pub fn documents(&self) -> impl Iterator<Item = Node<'_>> {
        self.trees()
            .flat_map(move |tree| self.tree(tree).roots.iter().map(move |&id| self.node(tree, id)))
    }

    pub fn keyed<'g>(&'g self, key: &str) -> impl Iterator<Item = Node<'g>> {
        self.places_of(key).iter().map(|&(tree, id)| self.node(tree, id))
    }

    /// All values of a protobuf field, in either spelling.
    pub fn keyed_field<'g>(&'g self, name: &str) -> impl Iterator<Item = Node<'g>> {
        let mut nodes: Vec<Node<'g>> = self.keyed(name).chain(self.keyed(&camel(name))).collect();
        nodes.sort_by_key(|node| (node.tree, node.id));
        nodes.into_iter()
    }

    /// Every scalar of every text, except those that are read as texts of their own.
    pub fn scalars(&self) -> impl Iterator<Item = (Node<'_>, &str)> {
        self.trees().flat_map(move |tree| {
            self.tree(tree).nodes.iter().enumerate().filter_map(move |(id, raw)| match &raw.kind {
                NodeKind::Scalar(text, _) if self.embedded_in(tree, number(id)).is_none() => {
                    Some((self.node(tree, number(id)), text.as_ref()))
                }
                _ => None,
            })
        })
    }
}

/// Whether a map is a `google.protobuf.StringValue`.
pub fn is_string_value(any: Node<'_>) -> bool {
    any.text_of("@type").is_some_and(|name| name.ends_with("google.protobuf.StringValue"))
}

/// A key as a step of a path: in brackets if it is empty or contains `.`, `[` or `/`.
fn joint(key: &str) -> String {
    if key.contains(['.', '[', '/']) || key.is_empty() {
        format!("[\"{key}\"]")
    } else {
        format!(".{key}")
    }
}

/// A protobuf field's name in lowerCamelCase.
pub fn camel(field: &str) -> String {
    let mut name = String::with_capacity(field.len());
    let mut parts = field.split('_');
    name.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let mut letters = part.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::camel;

    #[test]
    fn fields_are_spelled_as_protobuf_does() {
        assert_eq!(
            (camel("stream_idle_timeout"), camel("vm_id")),
            ("streamIdleTimeout".into(), "vmId".into())
        );
    }
}
