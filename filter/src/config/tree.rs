//! JSON as a tree that borrows from its text. `serde_json` parses it; `serde_json::Value` would
//! drop duplicate members.

use core::fmt;
use std::borrow::Cow;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::error::{Fault, fault};

/// A JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'t> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number, in digits alone.
    Number(u64),
    /// A whole number with a minus sign.
    Negative(i64),
    /// Any other number; the configuration has none.
    Fraction,
    /// A string.
    Text(Cow<'t, str>),
    /// An array.
    List(Vec<Value<'t>>),
    /// An object, in the order of the text.
    Object(Vec<(Cow<'t, str>, Value<'t>)>),
}

/// Parses a whole text. `serde_json` limits the depth.
///
/// # Errors
/// The line and column at which the text is not JSON.
pub fn parse(text: &str) -> Result<Value<'_>, Fault> {
    serde_json::from_str(text).map_err(|error| {
        let (line, column, message) = (error.line(), error.column(), format!("{error}"));
        // The path shows the position, so the message does not repeat it.
        let message =
            message.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&message);
        fault(&format!("line {line}, column {column}"), &format!("not JSON: {message}"))
    })
}

impl<'de> Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(Any)
    }
}

struct Any;

/// Accepts every kind of value. The messages for a rejected kind would format floating-point
/// numbers, which takes 12 kB.
impl<'de> Visitor<'de> for Any {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value<'de>, E> {
        Ok(Value::Negative(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value<'de>, E> {
        Ok(Value::Number(value))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value<'de>, E> {
        Ok(Value::Fraction)
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Owned(String::from(value))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value<'de>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value<'de>, A::Error> {
        let mut object = Vec::new();
        while let Some((name, value)) = members.next_entry::<Name<'de>, _>()? {
            object.push((name.0, value));
        }
        Ok(Value::Object(object))
    }
}

/// The name of a member, borrowed if possible; serde's own `Cow` is never borrowed.
struct Name<'t>(Cow<'t, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        match Value::deserialize(reader)? {
            Value::Text(name) => Ok(Self(name)),
            _ => Err(D::Error::custom("a name is expected")),
        }
    }
}
