//! YAML: a small document model with comments and the one way in which it is written; [`tree`]
//! reads texts with the place of each value.
//!
//! Serializers write data and lose the reasons. Here every entry may carry one, and every scalar is
//! written so that readers of YAML 1.1 (kubectl, kustomize, Helm) and 1.2 understand the same.

mod emit;
mod scalar;
pub mod tree;
mod value_tree;

#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    Null,
    Bool(bool),
    Number(i64),
    /// A text, quoted where it must be.
    Text(String),
    /// A text over several lines, written as such. Only printable text; no line begins or ends with
    /// white space that matters.
    Block(String),
    List(List),
    Map(Map),
}

/// Values in the order in which they were added, each with its comment.
#[derive(Debug, Clone, PartialEq)]
pub struct Noted<T> {
    entries: Vec<(Option<String>, T)>,
    pending: Option<String>,
}

/// An object.
pub type Map = Noted<(String, Node)>;

pub type List = Noted<Node>;

impl<T> Default for Noted<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), pending: None }
    }
}

impl<T> Noted<T> {
    pub fn new() -> Self {
        Self::default()
    }

    /// The reason for the entry that is added next.
    pub fn note(mut self, why: impl Into<String>) -> Self {
        self.pending = Some(why.into());
        self
    }

    fn push(mut self, value: T) -> Self {
        self.entries.push((self.pending.take(), value));
        self
    }
}

impl Map {
    pub fn of(key: impl Into<String>, value: impl Into<Node>) -> Self {
        Self::new().with(key, value)
    }

    pub fn with(self, key: impl Into<String>, value: impl Into<Node>) -> Self {
        self.push((key.into(), value.into()))
    }

    /// Adds an entry if there is a value; the reason before it goes with it.
    pub fn with_some(mut self, key: &str, value: Option<impl Into<Node>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => {
                self.pending = None;
                self
            }
        }
    }
}

impl List {
    pub fn of(value: impl Into<Node>) -> Self {
        Self::new().item(value)
    }

    pub fn item(self, value: impl Into<Node>) -> Self {
        self.push(value.into())
    }
}

impl<T: Into<Node>> FromIterator<T> for List {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        items.into_iter().fold(Self::new(), |list, item| list.item(item))
    }
}

impl<K: Into<String>, V: Into<Node>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        entries.into_iter().fold(Self::new(), |map, (key, value)| map.with(key, value))
    }
}

macro_rules! nodes {
    ($($type:ty: |$value:ident| $node:expr;)+) => {
        $(impl From<$type> for Node {
            fn from($value: $type) -> Self {
                $node
            }
        })+
    };
}

nodes! {
    &str: |text| Self::Text(text.into());
    String: |text| Self::Text(text);
    bool: |value| Self::Bool(value);
    u16: |number| Self::Number(number.into());
    u64: |number| Self::Number(i64::try_from(number).unwrap_or(i64::MAX));
    Map: |map| Self::Map(map);
    List: |list| Self::List(list);
}

/// JSON as YAML. Numbers that are not whole become texts, because [`Node`] has none.
impl From<&serde_json::Value> for Node {
    fn from(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(*value),
            serde_json::Value::Number(number) => {
                number.as_i64().map_or_else(|| Self::Text(number.to_string()), Self::Number)
            }
            serde_json::Value::String(text) => Self::Text(text.clone()),
            serde_json::Value::Array(items) => Self::List(items.iter().map(Self::from).collect()),
            serde_json::Value::Object(members) => Self::Map(
                members.iter().map(|(key, value)| (key.as_str(), Self::from(value))).collect(),
            ),
        }
    }
}

/// A file: comments about the whole file, and documents with `---` between them.
pub fn write(about: &[String], documents: &[Map]) -> String {
    emit::file(about, documents)
}

/// One document, without comments about the whole.
pub fn write_map(map: &Map) -> String {
    emit::file(&[], std::slice::from_ref(map))
}
