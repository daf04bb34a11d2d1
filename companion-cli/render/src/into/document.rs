//! A bootstrap as its author wrote it: its values, and their places in the text. Aliases are
//! followed, merge keys (`<<`) are not.

use laststream_base::yaml::tree::{MOST_NODES, NONE, NodeKind, Tree};

use super::error::MergeError;

/// A text of one document, and its nodes.
pub(super) struct Document<'t> {
    pub(super) text: &'t str,
    tree: Tree,
}

/// The number of a node.
pub(super) type Id = u32;

impl<'t> Document<'t> {
    pub(super) fn read(text: &'t str) -> Result<Self, MergeError> {
        let tree = Tree::read(text, MOST_NODES);
        if let Some(slip) = tree.errors.first() {
            let message = format!("cannot be read: {}", slip.message);
            return Err(MergeError { line: Some(slip.position.line), message });
        }
        if !tree.inflated.is_empty() {
            return Err(MergeError::of("has aliases that make it too large"));
        }
        let document = Self { text, tree };
        match document.tree.roots.as_slice() {
            [root] if matches!(document.kind(*root), Some(NodeKind::Map(_))) => Ok(document),
            [_] => Err(MergeError::of("is no bootstrap of Envoy: it is not a map")),
            [] => Err(MergeError::of("is empty: `laststream render envoy` writes a whole file")),
            roots => Err(MergeError::of(format!(
                "holds {} documents: name a file with one",
                roots.len()
            ))),
        }
    }

    pub(super) fn root(&self) -> Id {
        self.tree.roots.first().copied().unwrap_or(NONE)
    }

    pub(super) fn kind(&self, id: Id) -> Option<&NodeKind> {
        self.tree.nodes.get(self.tree.resolve(id) as usize).map(|raw| &raw.kind)
    }

    pub(super) fn items(&self, id: Id) -> &[Id] {
        match self.kind(id) {
            Some(NodeKind::List(items)) => items,
            _ => &[],
        }
    }

    pub(super) fn entries(&self, id: Id) -> &[(Id, Id)] {
        match self.kind(id) {
            Some(NodeKind::Map(entries)) => entries,
            _ => &[],
        }
    }

    pub(super) fn scalar(&self, id: Id) -> Option<&str> {
        match self.kind(id) {
            Some(NodeKind::Scalar(text, _)) => Some(text),
            _ => None,
        }
    }

    /// The value at the end of a path of protobuf fields, each `like_this` or `likeThis`. An alias
    /// is followed.
    pub(super) fn field(&self, id: Id, path: &str) -> Option<Id> {
        path.split('.').try_fold(id, |id, name| {
            let camel = camel(name);
            let is_named =
                |key: Id| self.scalar(key).is_some_and(|key| key == name || key == camel);
            let (_, value) = self.entries(id).iter().find(|(key, _)| is_named(*key))?;
            Some(self.tree.resolve(*value))
        })
    }

    pub(super) fn text_of(&self, id: Id, path: &str) -> Option<&str> {
        self.scalar(self.field(id, path)?)
    }

    /// Visits a node and all nodes in it. What an alias stands for is visited with its anchor.
    pub(super) fn descend(&self, id: Id, visit: &mut dyn FnMut(Id)) {
        visit(id);
        match self.tree.nodes.get(id as usize).map(|raw| &raw.kind) {
            Some(NodeKind::List(items)) => items.iter().for_each(|item| self.descend(*item, visit)),
            Some(NodeKind::Map(entries)) => {
                entries.iter().for_each(|(_, value)| self.descend(*value, visit));
            }
            _ => {}
        }
    }

    pub(super) fn line(&self, id: Id) -> u32 {
        self.tree.nodes.get(id as usize).map_or(1, |raw| raw.start.line)
    }

    /// The column, from 0, of the dashes of a list or the keys of a map in block style: that of
    /// the line with the first one.
    pub(super) fn indent(&self, id: Id) -> usize {
        let first = self.first(id).unwrap_or(id);
        let line = self.text.get(self.line_start(first)..).unwrap_or_default();
        let spaces = line.len() - line.trim_start_matches(' ').len();
        match self.kind(id) {
            Some(NodeKind::List(_)) => spaces,
            _ => self.start(first) - self.line_start(first),
        }
    }

    fn first(&self, id: Id) -> Option<Id> {
        let key = self.entries(id).first().map(|(key, _)| *key);
        key.or_else(|| self.items(id).first().copied())
    }

    /// Where the text of a node begins.
    pub(super) fn start(&self, id: Id) -> usize {
        self.tree.nodes.get(id as usize).map_or(0, |raw| raw.bytes.0 as usize)
    }

    /// Whether a list or map is written in brackets or braces. In block style it begins where its
    /// first item or key does, which may be in brackets.
    pub(super) fn is_flow(&self, id: Id) -> bool {
        let has_bracket =
            self.text.get(self.start(id)..).is_some_and(|text| text.starts_with(['[', '{']));
        has_bracket && self.first(id).is_none_or(|first| self.start(first) != self.start(id))
    }

    pub(super) fn line_start(&self, id: Id) -> usize {
        let before = self.text.get(..self.start(id)).unwrap_or_default();
        before.rfind('\n').map_or(0, |end| end + 1)
    }

    /// The beginning of the line below the key of a node.
    pub(super) fn below_key(&self, id: Id) -> usize {
        let key = self.tree.nodes.get(id as usize).map_or(id, |raw| raw.key);
        let start = self.start(if key == NONE { id } else { key });
        let rest = self.text.get(start..).unwrap_or_default();
        rest.find('\n').map_or(self.text.len(), |end| start + end + 1)
    }

    /// The beginning of the line after the last line of a node in block style: that of the next
    /// value, without blank lines and comments before it.
    pub(super) fn end(&self, id: Id) -> usize {
        let mut end = self.next(id).map_or(self.text.len(), |next| self.line_start(next));
        loop {
            let before = self.text.get(..end).unwrap_or_default();
            let lines = before.strip_suffix('\n').unwrap_or(before);
            let start = lines.rfind('\n').map_or(0, |end| end + 1);
            let line = before.get(start..).unwrap_or_default().trim();
            if start == end || !(line.is_empty() || line.starts_with('#')) {
                return end;
            }
            end = start;
        }
    }

    /// The first node behind a node that is not in it.
    fn next(&self, id: Id) -> Option<Id> {
        let raw = self.tree.nodes.get(id as usize)?;
        let sibling = match &self.tree.nodes.get(raw.parent as usize)?.kind {
            NodeKind::List(items) => items.get(raw.index as usize + 1).copied(),
            NodeKind::Map(entries) => {
                let place = entries.iter().position(|(_, value)| *value == id)?;
                entries.get(place + 1).map(|(key, _)| *key)
            }
            _ => None,
        };
        sibling.or_else(|| self.next(raw.parent))
    }
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |camel, word| {
        let (head, tail) = word.split_at_checked(1).unwrap_or((word, ""));
        camel + &head.to_ascii_uppercase() + tail
    })
}
