//! One YAML or JSON text as an arena of nodes, each with its place in the text. Aliases stay
//! references: nothing is ever expanded, so a small text cannot become a large tree.

use std::collections::HashMap;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span, options};

pub const NONE: u32 = u32::MAX;
/// The deepest nesting that is read; no manifest is deeper.
const DEEPEST: usize = 128;
/// The most nodes of all files together: more than any set of manifests has, and a bound for the
/// memory.
pub const MOST_NODES: usize = 2_000_000;
/// The most errors of one file. More would not help the user.
const MOST_ERRORS: usize = 20;
/// The number of nodes, with aliases written out, from which readers of Kubernetes refuse documents
/// that consist mostly of aliases.
const MOST_EXPANDED: u64 = 400_000;

/// Maps with more keys get an index instead of a linear search.
pub(super) const NARROW: usize = 64;

/// A position: line and column from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

/// How a scalar is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Plain,
    Quoted,
    /// After `|`: its lines are lines of the file.
    Literal,
    /// After `>`, or with a tag that says what it is.
    Other,
}

#[derive(Debug)]
pub enum NodeKind {
    /// A text.
    Scalar(Box<str>, Style),
    /// The nodes of its items.
    List(Vec<u32>),
    /// The nodes of its keys and values.
    Map(Vec<(u32, u32)>),
    /// The node for which it stands.
    Alias(u32),
}

#[derive(Debug)]
pub struct Raw {
    pub kind: NodeKind,
    pub parent: u32,
    /// Its key's node, if the parent is a map.
    pub key: u32,
    /// Its position in the parent, if that is a list.
    pub index: u32,
    pub start: Position,
    /// The range of bytes in the text.
    pub bytes: (u32, u32),
    /// The number of nodes with all aliases written out.
    pub(super) expanded: u64,
}

/// A syntax error and its place.
#[derive(Debug)]
pub struct Slip {
    /// Where the text is no YAML.
    pub position: Position,
    /// Why it is none.
    pub message: String,
}

#[derive(Debug, Default)]
pub struct Tree {
    pub nodes: Vec<Raw>,
    pub roots: Vec<u32>,
    pub errors: Vec<Slip>,
    /// The values of maps with many keys, by their keys; others are looked through.
    pub wide: HashMap<u32, HashMap<Box<str>, u32>>,
    /// Keys that a map already has, each with its first occurrence.
    pub twice: Vec<(u32, u32)>,
    /// Documents that aliases make too large.
    pub inflated: Vec<u32>,
    /// Comments: the line, whether text precedes them on it, and the text after `#`.
    pub comments: Vec<(u32, bool, Box<str>)>,
}

impl Tree {
    /// Reads a text. Syntax errors are in `errors`; the documents around them are read
    /// nevertheless. `most`: the number of nodes that are left for this text.
    pub fn read(text: &str, most: usize) -> Self {
        let mut builder = Builder {
            tree: Self::default(),
            open: Vec::new(),
            anchors: HashMap::new(),
            text,
            most,
        };
        let mut parser = Parser::new_from_str_with_options(
            text,
            options! { max_buffered_comment_events: 100_000 },
        );
        loop {
            let slip = match parser.next_event() {
                None => break,
                Some(Ok((event, span))) => builder.take(event, span),
                Some(Err(error)) => Some(Slip {
                    position: position(*error.marker()),
                    message: error.info().clone(),
                }),
            };
            if let Some(slip) = slip {
                builder.tree.errors.push(slip);
                builder.give_up();
                let full =
                    builder.tree.nodes.len() >= most || builder.tree.errors.len() >= MOST_ERRORS;
                if full || !matches!(parser.proceed_next_document(), Ok(true)) {
                    break;
                }
            }
        }
        builder.tree
    }

    /// The position of the field with a path such as `a.b[3].c`, or of the innermost existing value
    /// around it.
    pub fn place_of(&self, path: &str) -> Option<Position> {
        let (node, _) = self.innermost(path)?;
        self.nodes.get(node as usize).map(|raw| raw.start)
    }

    /// The value of the field with a path such as `a.b[3].c`.
    pub fn node_of(&self, path: &str) -> Option<u32> {
        self.innermost(path).filter(|(_, is_whole)| *is_whole).map(|(node, _)| node)
    }

    /// The innermost value on a path, and whether it is at its end.
    fn innermost(&self, path: &str) -> Option<(u32, bool)> {
        let mut here = *self.roots.first().filter(|_| self.errors.is_empty())?;
        for step in path.split(['.', '[', ']']).filter(|step| !step.is_empty()) {
            match self.child(here, step) {
                Some(inner) => here = inner,
                None => return Some((here, false)),
            }
        }
        Some((here, true))
    }

    /// The value of a key, or the item at an index.
    fn child(&self, id: u32, step: &str) -> Option<u32> {
        match &self.nodes.get(self.resolve(id) as usize)?.kind {
            NodeKind::Map(entries) => entries
                .iter()
                .find(|(key, _)| self.text(*key) == Some(step))
                .map(|(_, value)| *value),
            NodeKind::List(items) => items.get(step.parse::<usize>().ok()?).copied(),
            _ => None,
        }
    }

    /// The text of a scalar.
    pub fn text(&self, id: u32) -> Option<&str> {
        match &self.nodes.get(self.resolve(id) as usize)?.kind {
            NodeKind::Scalar(text, _) => Some(text),
            _ => None,
        }
    }

    /// The target of an alias, or the node itself.
    pub fn resolve(&self, id: u32) -> u32 {
        match self.nodes.get(id as usize).map(|raw| &raw.kind) {
            Some(NodeKind::Alias(target)) => *target,
            _ => id,
        }
    }
}

/// A list or map whose end has not come yet.
struct Open {
    id: u32,
    /// The key that waits for its value.
    key: u32,
    anchor: usize,
    keys: HashMap<Box<str>, u32>,
}

struct Builder<'t> {
    tree: Tree,
    open: Vec<Open>,
    anchors: HashMap<usize, u32>,
    text: &'t str,
    most: usize,
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Option<Slip> {
        match event {
            Event::DocumentStart(..) => {
                self.anchors.clear();
                None
            }
            Event::Scalar(text, style, anchor, tag) => {
                let style = match style {
                    _ if tag.is_some() => Style::Other,
                    ScalarStyle::Plain => Style::Plain,
                    ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Style::Quoted,
                    ScalarStyle::Literal => Style::Literal,
                    ScalarStyle::Folded => Style::Other,
                };
                if style == Style::Plain && text.starts_with(':') && self.is_in_flow(span) {
                    let message = "Kubernetes does not read a colon here: put it in quotes";
                    return Some(slip(span, message));
                }
                self.leaf(NodeKind::Scalar(text.into(), style), anchor, span, 1)
            }
            Event::Alias(anchor) => match self.anchors.get(&anchor).copied() {
                Some(target) => {
                    let expanded =
                        self.tree.nodes.get(target as usize).map_or(1, |raw| raw.expanded);
                    self.leaf(NodeKind::Alias(target), 0, span, expanded)
                }
                None => Some(slip(span, "the alias stands within what it stands for")),
            },
            Event::SequenceStart(_, anchor, _) => {
                self.begin(NodeKind::List(Vec::new()), anchor, span)
            }
            Event::MappingStart(_, anchor, _) => {
                self.begin(NodeKind::Map(Vec::new()), anchor, span)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.end();
                None
            }
            Event::Comment(text, _) => self.add_comment(&text, span),
            _ => None,
        }
    }

    /// Whether what is at this place is within brackets or braces. A list or map in block style
    /// begins where its first item or key does, which may be in brackets.
    fn is_in_flow(&self, span: Span) -> bool {
        let Some(open) = self.open.last() else { return false };
        let start = |id: u32| self.tree.nodes.get(id as usize).map(|raw| raw.bytes.0);
        let here = span.byte_range().map(|range| number(range.start));
        let first = start(open.id.saturating_add(1)).or(here);
        let text = start(open.id).and_then(|start| self.text.get(start as usize..));
        text.is_some_and(|text| text.starts_with(['[', '{'])) && first != start(open.id)
    }

    fn add_comment(&mut self, text: &str, span: Span) -> Option<Slip> {
        let before =
            span.byte_range().and_then(|range| self.text.get(..range.start)).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        let trails = !line.trim().is_empty();
        self.tree.comments.push((position(span.start).line, trails, text.into()));
        let is_tabbed = !trails && line.contains('\t') && !self.is_in_flow(span);
        is_tabbed.then(|| slip(span, "Kubernetes does not read a tab before a comment"))
    }

    fn leaf(&mut self, kind: NodeKind, anchor: usize, span: Span, expanded: u64) -> Option<Slip> {
        let id = self.add(kind, span, expanded);
        if anchor > 0 {
            self.anchors.insert(anchor, id);
        }
        self.hang(id);
        self.too_much(span)
    }

    fn begin(&mut self, kind: NodeKind, anchor: usize, span: Span) -> Option<Slip> {
        if self.open.len() >= DEEPEST {
            return Some(slip(span, format!("nested deeper than {DEEPEST} levels")));
        }
        let id = self.add(kind, span, 1);
        self.open.push(Open { id, key: NONE, anchor, keys: HashMap::new() });
        self.too_much(span)
    }

    /// Closes a list or map. Only from here on may an alias refer to it: earlier, it would contain
    /// itself.
    fn end(&mut self) {
        let Some(open) = self.open.pop() else { return };
        self.join_address(open.id);
        if open.anchor > 0 {
            self.anchors.insert(open.anchor, open.id);
        }
        if open.keys.len() > NARROW {
            self.note_wide(open.id);
        }
        self.hang(open.id);
    }

    /// Kubernetes reads `[2001:db8::]` as a text; to YAML 1.2 it is a map without a value.
    fn join_address(&mut self, map: u32) {
        let nodes = &self.tree.nodes;
        let Some(Raw { kind: NodeKind::Map(entries), bytes, .. }) = nodes.get(map as usize) else {
            return;
        };
        let [(key, value)] = entries[..] else { return };
        let is_empty = nodes.get(value as usize).is_some_and(|raw| raw.bytes.0 == raw.bytes.1);
        let begin = bytes.0 as usize;
        let Some(NodeKind::Scalar(key, Style::Plain)) =
            nodes.get(key as usize).map(|raw| &raw.kind)
        else {
            return;
        };
        let address = format!("{key}:");
        let rest = self.text.get(begin..).and_then(|text| text.strip_prefix(&address));
        if is_empty
            && rest.is_some_and(|rest| rest.starts_with([',', ']', '}']))
            && let Some(raw) = self.tree.nodes.get_mut(map as usize)
        {
            raw.bytes.1 = number(begin + address.len());
            raw.kind = NodeKind::Scalar(address.into(), Style::Plain);
        }
    }

    fn note_wide(&mut self, map: u32) {
        let tree = &self.tree;
        let Some(NodeKind::Map(entries)) = tree.nodes.get(map as usize).map(|raw| &raw.kind) else {
            return;
        };
        let by_key = entries
            .iter()
            .filter_map(|(key, value)| Some((tree.text(*key)?.into(), *value)))
            .collect();
        self.tree.wide.insert(map, by_key);
    }

    fn add(&mut self, kind: NodeKind, span: Span, expanded: u64) -> u32 {
        let range = span.byte_range().unwrap_or_default();
        let id = number(self.tree.nodes.len());
        let bytes = (number(range.start), number(range.end));
        self.tree.nodes.push(Raw {
            kind,
            parent: NONE,
            key: NONE,
            index: 0,
            start: position(span.start),
            bytes,
            expanded,
        });
        id
    }

    /// Gives a finished node to the list, map or document that it belongs to.
    fn hang(&mut self, id: u32) {
        let expanded = self.tree.nodes.get(id as usize).map_or(1, |raw| raw.expanded);
        let Some(open) = self.open.last_mut() else {
            if expanded > MOST_EXPANDED && expanded / 10 > self.tree.nodes.len() as u64 {
                self.tree.inflated.push(id);
            }
            self.tree.roots.push(id);
            return;
        };
        let (parent, mut key, mut index) = (open.id, NONE, 0);
        let Some(raw) = self.tree.nodes.get_mut(parent as usize) else { return };
        raw.expanded = raw.expanded.saturating_add(expanded);
        match &mut raw.kind {
            NodeKind::List(items) => {
                index = number(items.len());
                items.push(id);
            }
            NodeKind::Map(_) if open.key == NONE => open.key = id,
            NodeKind::Map(entries) => {
                key = std::mem::replace(&mut open.key, NONE);
                entries.push((key, id));
            }
            NodeKind::Scalar(..) | NodeKind::Alias(_) => {}
        }
        if key != NONE {
            self.note_key(key);
        }
        if let Some(raw) = self.tree.nodes.get_mut(id as usize) {
            (raw.parent, raw.key, raw.index) = (parent, key, index);
        }
    }

    fn note_key(&mut self, key: u32) {
        let (Some(open), Some(raw)) =
            (self.open.last_mut(), self.tree.nodes.get(self.tree.resolve(key) as usize))
        else {
            return;
        };
        let NodeKind::Scalar(text, _) = &raw.kind else { return };
        match open.keys.get(text) {
            Some(first) => self.tree.twice.push((key, *first)),
            None => {
                open.keys.insert(text.clone(), key);
            }
        }
    }

    fn too_much(&self, span: Span) -> Option<Slip> {
        (self.tree.nodes.len() >= self.most).then(|| {
            slip(span, format!("the files hold more than {MOST_NODES} values: name fewer of them"))
        })
    }

    /// A truncated document is still checked: open lists and maps are closed at its end.
    fn give_up(&mut self) {
        while !self.open.is_empty() {
            self.end();
        }
    }
}

fn slip(span: Span, message: impl Into<String>) -> Slip {
    Slip { position: position(span.start), message: message.into() }
}

fn position(mark: Marker) -> Position {
    Position { line: number(mark.line()).max(1), column: number(mark.col()).saturating_add(1) }
}

/// Texts are limited to far less than 4 GB.
pub(super) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(NONE - 1)
}

#[cfg(test)]
mod tests {
    use super::{MOST_NODES, Tree};

    fn place(text: &str, path: &str) -> Option<(u32, u32)> {
        Tree::read(text, MOST_NODES).place_of(path).map(|place| (place.line, place.column))
    }

    #[test]
    fn a_missing_field_has_the_position_of_the_value_around_it() {
        let text = "name: x\nforwarded_proto:\n  trust:\n    peers: \
            [10.0.0.0/8,\n      10.0.0.1/8]\n  presets:\n  - gcp\n";
        assert_eq!(place(text, "name"), Some((1, 7)));
        assert_eq!(place(text, "forwarded_proto.trust.peers[1]"), Some((5, 7)));
        assert_eq!(place(text, "forwarded_proto.presets[0]"), Some((7, 5)));
        assert_eq!(place(text, "forwarded_proto.trust.identities[0]"), Some((4, 5)));
        assert_eq!(place("a: &x {b: 1}\nc: *x\n", "c.b"), Some((1, 11)));
        assert_eq!(place("[", "a"), None);
    }
}
