//! Everything that was given, read: the texts, the texts within texts (module configurations, annotations, ConfigMaps), and what is
//! found in them by key. Rules look at all files at once through it.

use std::cell::OnceCell;
use std::collections::HashMap;

use super::modules::Known;
use super::node::Node;
use super::reach::Reach;
use super::sources::Source;
use crate::yaml::tree::{Kind, MOST_NODES, NONE, Position, Style, Tree};

/// Texts within texts within texts.
const DEEPEST_TEXT: u8 = 3;
/// Annotations whose text is YAML or JSON.
const ANNOTATIONS: [&str; 2] = ["proxy.istio.io/config", "proxy.istio.io/overrides"];
/// Keys of Istio's own ConfigMaps that have no ending.
const CONFIG_KEYS: [&str; 4] = ["mesh", "meshNetworks", "values", "config"];

/// A text, and where it comes from.
#[derive(Debug)]
struct Text {
    tree: Tree,
    file: u32,
    /// The scalar that holds it, and how its positions become the file's.
    carrier: Option<(u32, u32, Mapping)>,
    depth: u8,
}

/// Where an embedded text's lines are.
#[derive(Debug, Clone, Copy)]
enum Mapping {
    /// Each line is a line of the text around it, further right.
    Lines(Position),
    /// It is one line.
    Inline(Position),
    /// Its lines cannot be told apart.
    Point(Position),
}

impl Mapping {
    fn outwards(self, inner: Position) -> Position {
        match self {
            Self::Lines(first) => {
                Position { line: first.line.saturating_add(inner.line - 1), column: first.column.saturating_add(inner.column - 1) }
            }
            Self::Inline(first) => Position { column: first.column.saturating_add(inner.column - 1), ..first },
            Self::Point(first) => first,
        }
    }
}

/// What the caller knows about the mesh.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Assume {
    /// Istio's version, as minor and patch do not matter: major and minor.
    pub istio: Option<(u32, u32)>,
}

/// Filters by the name of the configuration that they wait for.
type Waiting = HashMap<String, Vec<(u32, u32, Reach)>>;

/// What the rules look at.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) sources: Vec<Source>,
    pub(super) assume: Assume,
    texts: Vec<Text>,
    embedded: HashMap<(u32, u32), u32>,
    /// Values by the text of their key.
    keyed: HashMap<Box<str>, Vec<(u32, u32)>>,
    /// How many more nodes there may be.
    left: usize,
    /// The Wasm filters, once somebody asks.
    known: OnceCell<Vec<Known>>,
    /// The filters that wait for a configuration, by its name.
    waiting: OnceCell<Waiting>,
}

impl Given {
    pub(super) fn read(sources: Vec<Source>, assume: Assume) -> Self {
        let mut left = MOST_NODES;
        let mut texts = Vec::with_capacity(sources.len());
        for (file, source) in sources.iter().enumerate() {
            let tree = source.text.as_deref().map(|text| Tree::read(text, left)).unwrap_or_default();
            left = left.saturating_sub(tree.nodes.len());
            texts.push(Text { tree, file: number(file), carrier: None, depth: 0 });
        }
        let mut given = Self {
            sources,
            assume,
            texts,
            embedded: HashMap::new(),
            keyed: HashMap::new(),
            left,
            known: OnceCell::new(),
            waiting: OnceCell::new(),
        };
        let mut next = 0;
        while next < given.texts.len() {
            given.index(next);
            given.read_within(next);
            next += 1;
        }
        given
    }

    fn index(&mut self, text: usize) {
        let tree = &self.texts[text].tree;
        for (id, raw) in tree.nodes.iter().enumerate() {
            if let Some(Kind::Scalar(key, _)) = tree.nodes.get(tree.resolve(raw.key) as usize).map(|key| &key.kind) {
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

    /// Reads the texts that a text holds.
    fn read_within(&mut self, text: usize) {
        let (depth, file) = (self.texts[text].depth + 1, self.texts[text].file);
        if depth > DEEPEST_TEXT {
            return;
        }
        let holders: Vec<u32> = (0..number(self.texts[text].tree.nodes.len()))
            .filter(|&id| self.holds_text(Node { given: self, tree: number(text), id }))
            .collect();
        for id in holders {
            let Some(Kind::Scalar(inner, style)) = self.texts[text].tree.nodes.get(id as usize).map(|raw| &raw.kind) else { continue };
            let tree = Tree::read(inner, self.left);
            self.left = self.left.saturating_sub(tree.nodes.len());
            if !tree.errors.is_empty() {
                continue; // a template, or words; whoever wants it to be readable says so
            }
            let mapping = self.mapping(text, id, *style);
            self.embedded.insert((number(text), id), number(self.texts.len()));
            self.texts.push(Text { tree, file, carrier: Some((number(text), id, mapping)), depth });
        }
    }

    fn holds_text(&self, node: Node<'_>) -> bool {
        let (Some(raw), Some(key)) = (node.raw(), node.key_text()) else { return false };
        let Kind::Scalar(text, _) = &raw.kind else { return false };
        if key == "value" {
            return text.trim_start().starts_with('{') && node.parent().is_some_and(is_string_value);
        }
        if ANNOTATIONS.contains(&key) {
            return true;
        }
        let named = CONFIG_KEYS.contains(&key) || [".yaml", ".yml", ".json"].iter().any(|ending| key.ends_with(ending));
        let data = named.then(|| node.parent()).flatten().filter(|data| data.key_text() == Some("data"));
        data.and_then(Node::parent).and_then(|object| object.get("kind")).and_then(Node::text) == Some("ConfigMap")
    }

    fn mapping(&self, text: usize, id: u32, style: Style) -> Mapping {
        let tree = &self.texts[text].tree;
        let Some(raw) = tree.nodes.get(id as usize) else { return Mapping::Point(Position { line: 1, column: 1 }) };
        let Kind::Scalar(inner, _) = &raw.kind else { return Mapping::Point(raw.start) };
        let quote = u32::from(style == Style::Quoted);
        match style {
            Style::Literal => Mapping::Lines(first_line(raw.start, inner)),
            Style::Plain | Style::Quoted if !inner.contains('\n') => {
                Mapping::Inline(Position { column: raw.start.column + quote, ..raw.start })
            }
            _ => Mapping::Point(raw.start),
        }
    }

    pub(super) fn tree(&self, tree: u32) -> &Tree {
        // Nodes are made with the number of the text they are from.
        &self.texts[tree as usize].tree
    }

    pub(super) fn source(&self, tree: u32) -> Option<&Source> {
        self.sources.get(self.texts.get(tree as usize)?.file as usize)
    }

    pub(super) fn file_of(&self, tree: u32) -> u32 {
        self.texts.get(tree as usize).map_or(0, |text| text.file)
    }

    pub(super) fn embedded_in(&self, tree: u32, id: u32) -> Option<u32> {
        self.embedded.get(&(tree, id)).copied()
    }

    /// The scalar that holds a text.
    pub(super) fn carrier(&self, tree: u32) -> Option<Node<'_>> {
        let (tree, id, _) = self.texts.get(tree as usize)?.carrier?;
        Some(Node { given: self, tree, id })
    }

    /// A position within a text as one in its file.
    pub(super) fn in_file(&self, tree: u32, position: Position) -> Position {
        match self.texts.get(tree as usize).and_then(|text| text.carrier) {
            Some((outer, _, mapping)) => self.in_file(outer, mapping.outwards(position)),
            None => position,
        }
    }

    /// Where the first line of a literal scalar is, in the file.
    pub(super) fn text_start(&self, tree: u32, id: u32) -> Option<Position> {
        let raw = self.tree(tree).nodes.get(id as usize)?;
        let Kind::Scalar(text, Style::Literal) = &raw.kind else { return None };
        Some(self.in_file(tree, first_line(raw.start, text)))
    }

    /// The numbers of the files' own texts, which come first, then of the embedded ones.
    pub(super) fn trees(&self) -> impl Iterator<Item = u32> + '_ {
        0..number(self.texts.len())
    }

    /// The documents of all texts.
    pub(super) fn documents(&self) -> impl Iterator<Item = Node<'_>> {
        self.trees().flat_map(move |tree| self.tree(tree).roots.iter().map(move |&id| Node { given: self, tree, id }))
    }

    /// All values with this very key.
    pub(super) fn keyed<'g>(&'g self, key: &str) -> impl Iterator<Item = Node<'g>> {
        let places = self.keyed.get(key).map_or(&[][..], Vec::as_slice);
        places.iter().map(move |&(tree, id)| Node { given: self, tree, id })
    }

    /// All values of a protobuf field, in either spelling.
    pub(super) fn keyed_field<'g>(&'g self, snake: &str, camel: &str) -> impl Iterator<Item = Node<'g>> {
        let mut nodes: Vec<Node<'g>> = self.keyed(snake).chain(self.keyed(camel)).collect();
        nodes.sort_by_key(|node| (node.tree, node.id));
        nodes.into_iter()
    }

    pub(super) fn known(&self) -> &[Known] {
        self.known.get_or_init(|| Known::all(self))
    }

    /// The filters that ask for a configuration of this name, and whom they reach.
    pub(super) fn waiting_for<'g>(&'g self, name: &str) -> impl Iterator<Item = (Node<'g>, &'g Reach)> {
        let waiting = self.waiting.get_or_init(|| self.by_awaited_name());
        let places = waiting.get(name).map_or(&[][..], Vec::as_slice);
        places.iter().map(move |(tree, id, reach)| (Node { given: self, tree: *tree, id: *id }, reach))
    }

    fn by_awaited_name(&self) -> Waiting {
        let mut by_name = Waiting::new();
        let filters = self.keyed_field("config_discovery", "configDiscovery").filter_map(Node::parent);
        for (filter, name) in filters.filter_map(|filter| Some((filter, filter.text_of("name")?))) {
            by_name.entry(name.to_owned()).or_default().push((filter.tree, filter.id, Reach::of(filter)));
        }
        by_name
    }

    /// Every scalar of every file that is not itself read as a text.
    pub(super) fn scalars(&self) -> impl Iterator<Item = (Node<'_>, &str)> {
        self.trees().flat_map(move |tree| {
            self.tree(tree).nodes.iter().enumerate().filter_map(move |(id, raw)| match &raw.kind {
                Kind::Scalar(text, _) if self.embedded_in(tree, number(id)).is_none() => {
                    Some((Node { given: self, tree, id: number(id) }, text.as_ref()))
                }
                _ => None,
            })
        })
    }
}

/// Whether a map is a `google.protobuf.StringValue`.
pub(super) fn is_string_value(any: Node<'_>) -> bool {
    any.get("@type").and_then(Node::text).is_some_and(|name| name.ends_with("google.protobuf.StringValue"))
}

/// The parser gives the first line that is not blank.
fn first_line(start: Position, text: &str) -> Position {
    let blank = text.chars().take_while(|&character| character == '\n').count();
    Position { line: start.line.saturating_sub(number(blank)).max(1), ..start }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(NONE - 1)
}
