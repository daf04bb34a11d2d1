//! JSON as `serde_json` reads it, kept as it is written: `serde_json::Value` would drop members that come twice.

use std::fmt;

use laststream_filter::config::json::Value;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// How deep the module's own reader goes.
const DEEPEST: usize = 32;

/// A JSON value.
#[derive(Debug)]
pub enum Tree {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number that fits, or any other.
    Number(Option<i64>),
    /// `-0`, or `-0.0` and the like: serde_json does not tell which.
    MinusZero,
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Self>),
    /// An object; twins stay.
    Object(Vec<(String, Self)>),
}

impl Tree {
    /// Reads a text; `None` when it is not JSON.
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// Whether the module's reader, which knows whole numbers only and goes so deep only, has to take it.
    pub fn is_for_us(&self) -> bool {
        self.has_whole_numbers() && self.depth() <= DEEPEST
    }

    /// Whether the module's reader found the same.
    pub fn is(&self, ours: &Value<'_>) -> bool {
        match (self, ours) {
            (Self::Null, Value::Null) => true,
            (Self::Bool(theirs), Value::Bool(ours)) => theirs == ours,
            (Self::Number(theirs), Value::Number(ours)) => *theirs == Some(*ours),
            (Self::MinusZero, Value::Number(ours)) => *ours == 0,
            (Self::Text(theirs), Value::Text(ours)) => theirs == ours,
            (Self::List(theirs), Value::List(ours)) => {
                theirs.len() == ours.len() && theirs.iter().zip(ours).all(|(theirs, ours)| theirs.is(ours))
            }
            (Self::Object(theirs), Value::Object(ours)) => {
                let same = |((their_name, theirs), (our_name, ours)): (&(String, Self), &(_, Value<'_>))| {
                    their_name == our_name && theirs.is(ours)
                };
                theirs.len() == ours.len() && theirs.iter().zip(ours).all(same)
            }
            _ => false,
        }
    }

    /// The first member of this name.
    pub fn member(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        members.iter().find(|(other, _)| other == name).map(|(_, value)| value)
    }

    /// The item at this place.
    pub fn item(&self, index: &str) -> Option<&Self> {
        let Self::List(items) = self else { return None };
        items.get(index.parse::<usize>().ok()?)
    }

    fn children(&self) -> Box<dyn Iterator<Item = &Self> + '_> {
        match self {
            Self::List(items) => Box::new(items.iter()),
            Self::Object(members) => Box::new(members.iter().map(|(_, value)| value)),
            _ => Box::new(std::iter::empty()),
        }
    }

    fn depth(&self) -> usize {
        1 + self.children().map(Self::depth).max().unwrap_or_default()
    }

    fn has_whole_numbers(&self) -> bool {
        !matches!(self, Self::Number(None) | Self::MinusZero) && self.children().all(Self::has_whole_numbers)
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Tree, E> {
        Ok(Tree::Number(Some(number)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Tree, E> {
        Ok(Tree::Number(number.try_into().ok()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Tree, E> {
        Ok(if number == 0.0 && number.is_sign_negative() { Tree::MinusZero } else { Tree::Number(None) })
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Tree::Object(members))
    }
}
