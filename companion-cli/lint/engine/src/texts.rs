//! The texts of the input files, the texts embedded in them (module configurations, annotations,
//! ConfigMaps), and their positions in the files.

use std::collections::HashMap;
use std::ops::Range;

use crate::index::Index;
use crate::template;
use crate::{SourceError, SourceFile};
use manifest_text::yaml::tree::{MOST_NODES, NONE, NodeKind, Position, Style, Tree};

#[derive(Debug)]
struct Text {
    tree: Tree,
    file: u32,
    /// The scalar that holds an embedded text (tree and node), and the mapping of positions to the
    /// tree of that scalar.
    carrier: Option<(u32, u32, Mapping)>,
    depth: u8,
}

/// The mapping of positions in an embedded text to positions in the text around it.
#[derive(Debug, Clone, Copy)]
enum Mapping {
    /// Each line is a line of the text around it, further right.
    Lines(Position),
    /// The lines cannot be located: each position becomes that of the scalar.
    Point(Position),
}

impl Mapping {
    fn outwards(self, inner: Position) -> Position {
        match self {
            Self::Lines(first) => Position {
                line: first.line.saturating_add(inner.line - 1),
                column: first.column.saturating_add(inner.column - 1),
            },
            Self::Point(first) => first,
        }
    }
}

#[derive(Debug)]
pub struct Texts {
    pub sources: Vec<SourceFile>,
    texts: Vec<Text>,
    embedded: HashMap<(u32, u32), u32>,
    keyed: HashMap<Box<str>, Vec<(u32, u32)>>,
    pub(crate) objects: Index,
    /// The number of nodes that may still be read.
    left: usize,
}

impl Texts {
    /// Reads the files' own texts.
    pub fn read(mut sources: Vec<SourceFile>) -> Result<Self, SourceError> {
        let mut left = MOST_NODES;
        let mut texts = Vec::with_capacity(sources.len());
        for (file, source) in sources.iter_mut().enumerate() {
            let tree = source.tree.take().unwrap_or_else(|| {
                let text = source.text.as_deref().unwrap_or_default();
                template::left_out(text, Tree::read(text, left))
            });
            let rest = left.checked_sub(tree.nodes.len()).filter(|rest| *rest > 0);
            left = rest.ok_or(SourceError::TooManyValues)?;
            texts.push(Text { tree, file: number(file), carrier: None, depth: 0 });
        }
        let (embedded, keyed, objects) = Default::default();
        let mut read = Self { sources, texts, embedded, keyed, objects, left };
        (0..read.texts.len()).for_each(|text| read.index_keys(text));
        Ok(read)
    }

    /// Reads the text of a scalar as a separate tree. A text with syntax errors, such as a
    /// template, is left out.
    pub fn read_within(&mut self, tree: u32, id: u32) {
        let holder = &self.texts[tree as usize];
        let (depth, file) = (holder.depth + 1, holder.file);
        let Some(NodeKind::Scalar(inner, style)) =
            holder.tree.nodes.get(id as usize).map(|raw| &raw.kind)
        else {
            return;
        };
        let inner_tree = Tree::read(inner, self.left);
        let mapping = self.mapping(tree as usize, id, *style);
        self.left = self.left.saturating_sub(inner_tree.nodes.len());
        if inner_tree.errors.is_empty() {
            self.embedded.insert((tree, id), number(self.texts.len()));
            self.texts.push(Text {
                tree: inner_tree,
                file,
                carrier: Some((tree, id, mapping)),
                depth,
            });
            self.index_keys(self.texts.len() - 1);
        }
    }

    /// The number of texts around this one.
    pub fn depth(&self, tree: u32) -> u8 {
        self.texts.get(tree as usize).map_or(0, |text| text.depth)
    }

    fn index_keys(&mut self, text: usize) {
        let tree = &self.texts[text].tree;
        for (id, raw) in tree.nodes.iter().enumerate() {
            if let Some(NodeKind::Scalar(key, _)) =
                tree.nodes.get(tree.resolve(raw.key) as usize).map(|key| &key.kind)
            {
                let place = (number(text), number(id));
                match self.keyed.get_mut(key) {
                    Some(places) => places.push(place),
                    None => {
                        self.keyed.insert(key.clone(), vec![place]);
                    }
                }
            }
        }
    }

    fn mapping(&self, text: usize, id: u32, style: Style) -> Mapping {
        let tree = &self.texts[text].tree;
        let Some(raw) = tree.nodes.get(id as usize) else {
            return Mapping::Point(Position { line: 1, column: 1 });
        };
        let NodeKind::Scalar(inner, _) = &raw.kind else { return Mapping::Point(raw.start) };
        let quote = u32::from(style == Style::Quoted);
        match style {
            Style::Literal => Mapping::Lines(first_line(raw.start, inner)),
            Style::Plain | Style::Quoted if !inner.contains(['\n', '\r']) => {
                Mapping::Lines(Position { column: raw.start.column + quote, ..raw.start })
            }
            _ => Mapping::Point(raw.start),
        }
    }

    pub fn tree(&self, tree: u32) -> &Tree {
        // The index is in range, because nodes are made with the number of their own text.
        &self.texts[tree as usize].tree
    }

    pub fn source(&self, tree: u32) -> Option<&SourceFile> {
        self.sources.get(self.texts.get(tree as usize)?.file as usize)
    }

    pub fn file_of(&self, tree: u32) -> u32 {
        self.texts.get(tree as usize).map_or(0, |text| text.file)
    }

    pub fn embedded_in(&self, tree: u32, id: u32) -> Option<u32> {
        self.embedded.get(&(tree, id)).copied()
    }

    /// The scalar that holds a text: its tree, and its number there.
    pub fn carrier_of(&self, tree: u32) -> Option<(u32, u32)> {
        self.texts.get(tree as usize)?.carrier.map(|(tree, id, _)| (tree, id))
    }

    /// The values with exactly this key: tree and node.
    pub fn places_of(&self, key: &str) -> &[(u32, u32)] {
        self.keyed.get(key).map_or(&[][..], Vec::as_slice)
    }

    pub fn in_file(&self, tree: u32, position: Position) -> Position {
        match self.texts.get(tree as usize).and_then(|text| text.carrier) {
            Some((outer, _, mapping)) => self.in_file(outer, mapping.outwards(position)),
            None => position,
        }
    }

    /// The position in the file of the first line of a literal scalar.
    pub fn text_start(&self, tree: u32, id: u32) -> Option<Position> {
        let raw = self.tree(tree).nodes.get(id as usize)?;
        let NodeKind::Scalar(text, Style::Literal) = &raw.kind else { return None };
        Some(self.in_file(tree, first_line(raw.start, text)))
    }

    /// The numbers of the files' own texts, which come first, then of the embedded ones.
    pub fn trees(&self) -> Range<u32> {
        0..number(self.texts.len())
    }
}

/// The position of a literal scalar's first line, from the start that the parser gives: that of the
/// first line that is not blank.
fn first_line(start: Position, text: &str) -> Position {
    let blank = text.chars().take_while(|&character| character == '\n').count();
    Position { line: start.line.saturating_sub(number(blank)).max(1), ..start }
}

pub fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(NONE - 1)
}
