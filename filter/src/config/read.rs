//! Deserializes serde's types from a [`Value`]. Errors have the path, the value, the expected value
//! and a suggestion.
//!
//! `serde_path_to_error` around `serde_json`'s own reader makes the module larger, and has no
//! suggestions. See RATIONALE.md.

use core::fmt;
use core::slice::Iter;
use std::borrow::Cow;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, Deserialize as _, DeserializeSeed, Deserializer, Expected, IntoDeserializer as _,
    MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::error::{Fault, fault};
use super::tree::Value;

/// Reads a value of the configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'v>(pub(crate) &'v Value<'v>);

/// Kinds are checked here and not by serde's visitors, because their messages use Rust's words.
impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => visitor.visit_u64(*number),
            Value::Negative(_) | Value::Fraction => Err(unfit(self.0, &visitor)),
            Value::Text(text) => visitor.visit_str(text),
            Value::List(_) => self.deserialize_seq(visitor),
            Value::Object(_) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Value::Bool(value) = self.0 else { return Err(unfit(self.0, &"true or false")) };
        visitor.visit_bool(*value)
    }

    /// All of them are ports.
    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_u64(self.deserialize_any(Bounds { low: 1, high: u16::MAX.into() })?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_u64(self.deserialize_any(Bounds { low: 0, high: u64::MAX })?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Value::Text(text) = self.0 else { return Err(unfit(self.0, &"a text in quotes")) };
        visitor.visit_str(text)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if *self.0 == Value::Null { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    #[inline(never)] // V8 takes more memory to compile one large function than to compile its parts
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Value::List(items) = self.0 else { return Err(unfit(self.0, &"a list")) };
        visitor.visit_seq(Items { items: items.iter(), index: 0 })
    }

    #[inline(never)] // as above
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Value::Object(members) = self.0 else { return Err(unfit(self.0, &"an object")) };
        visitor.visit_map(Members { members: members.iter(), last: None })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let Value::Text(word) = self.0 else { return Err(unfit(self.0, &"a word in quotes")) };
        visitor.visit_enum(named(word))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u32 u128 f32 f64 char str bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct identifier ignored_any
    }
}

struct Items<'v> {
    items: Iter<'v, Value<'v>>,
    index: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let index = self.index;
        self.index += 1;
        seed.deserialize(Reader(item))
            .map(Some)
            .map_err(|error| within(error, &format!("[{index}]")))
    }
}

struct Members<'v> {
    members: Iter<'v, (Cow<'v, str>, Value<'v>)>,
    /// The member whose name was read last.
    last: Option<&'v (Cow<'v, str>, Value<'v>)>,
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = Fault;

    fn next_key_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        self.last = self.members.next();
        let Some((name, _)) = self.last else { return Ok(None) };
        seed.deserialize(named(name)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Fault> {
        let Some((name, value)) = self.last else {
            return Err(fault("", "has a value without a name"));
        };
        seed.deserialize(Reader(value)).map_err(|error| within(error, name))
    }
}

fn named(name: &str) -> StrDeserializer<'_, Fault> {
    name.into_deserializer()
}

/// A whole number within bounds, for `deserialize_with`.
pub(crate) fn whole<'de, const LOW: u64, const HIGH: u64, D: Deserializer<'de>>(
    reader: D,
) -> Result<u64, D::Error> {
    reader.deserialize_any(Bounds { low: LOW, high: HIGH })
}

/// Like [`whole`], but the number may be missing. `null` counts as missing, as in all other fields.
pub(crate) fn optional_whole<'de, const LOW: u64, const HIGH: u64, D: Deserializer<'de>>(
    reader: D,
) -> Result<Option<u64>, D::Error> {
    reader.deserialize_option(Optional::<LOW, HIGH>)
}

/// A text that no error shows, nor a value at its place.
pub(crate) fn secret<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(reader)
        .map_err(|_| de::Error::custom("is not what is expected here: a text in quotes"))
}

struct Optional<const LOW: u64, const HIGH: u64>;

impl<'de, const LOW: u64, const HIGH: u64> Visitor<'de> for Optional<LOW, HIGH> {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Bounds { low: LOW, high: HIGH }.expecting(f)
    }

    fn visit_none<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        whole::<LOW, HIGH, D>(reader).map(Some)
    }
}

/// The lowest and the highest number that are allowed.
struct Bounds {
    low: u64,
    high: u64,
}

impl Visitor<'_> for Bounds {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { low, high } = self;
        match *high {
            u64::MAX => write!(f, "a whole number from {low}"),
            _ => write!(f, "a whole number from {low} to {high}"),
        }
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        if (self.low..=self.high).contains(&number) {
            Ok(number)
        } else {
            Err(E::invalid_value(Unexpected::Unsigned(number), &self))
        }
    }
}

/// The errors of serde's derived code, in the operator's words. The trait's own default methods
/// would link the formatting of floating-point numbers.
impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        fault("", &format!("{message}"))
    }

    fn invalid_type(given: Unexpected<'_>, expected: &dyn Expected) -> Self {
        unexpected(given, expected)
    }

    fn invalid_value(given: Unexpected<'_>, expected: &dyn Expected) -> Self {
        unexpected(given, expected)
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        fault("", &format!("{length} items are not what is expected here: {expected}"))
    }

    fn unknown_variant(given: &str, known: &'static [&'static str]) -> Self {
        fault("", &unknown(&format!("`{given}` is not known"), given, known))
    }

    fn unknown_field(given: &str, known: &'static [&'static str]) -> Self {
        fault(given, &unknown("there is no such field", given, known))
    }

    fn missing_field(field: &'static str) -> Self {
        fault(field, "is required")
    }

    fn duplicate_field(field: &'static str) -> Self {
        fault(field, "is there twice")
    }
}

fn unfit(value: &Value<'_>, expected: &dyn Expected) -> Fault {
    let actual = match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(number) => Unexpected::Unsigned(*number),
        Value::Negative(number) => Unexpected::Signed(*number),
        Value::Fraction => Unexpected::Other("a number that is too large or not in digits alone"),
        Value::Text(text) => Unexpected::Str(text),
        Value::List(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    };
    unexpected(actual, expected)
}

fn unexpected(given: Unexpected<'_>, expected: &dyn Expected) -> Fault {
    let word: Cow<'_, str> = match given {
        Unexpected::Bool(true) => "true".into(),
        Unexpected::Bool(false) => "false".into(),
        Unexpected::Unsigned(number) => format!("{number}").into(),
        Unexpected::Signed(number) => format!("{number}").into(),
        Unexpected::Str(text) => format!("the text `{text}`").into(),
        Unexpected::Seq => "a list".into(),
        Unexpected::Map => "an object".into(),
        Unexpected::Other(what) => what.into(),
        _ => "null".into(),
    };
    fault("", &format!("{word} is not what is expected here: {expected}"))
}

fn within(mut fault: Fault, part: &str) -> Fault {
    fault.within(part);
    fault
}

/// A known name with this word in it is meant rather than one that differs in a letter: `aws_alb`,
/// not `nlb`, by `alb`.
fn unknown(what: &str, given: &str, known: &[&str]) -> String {
    let near = known.iter().find(|name| name.split('_').any(|word| word == given));
    let near = near.or_else(|| known.iter().find(|name| is_near(name, given)));
    let guess = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
    format!("{what}{guess}; known: {}", known.join(", "))
}

/// Whether two names differ only in case, `-` and `_`, or in one letter that is added, missing or
/// replaced.
fn is_near(one: &str, other: &str) -> bool {
    let (one, other) = (plain(one), plain(other));
    let common_start = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let (one, other) = (
        one.get(common_start..).unwrap_or_default(),
        other.get(common_start..).unwrap_or_default(),
    );
    let common_end =
        one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count();
    one.len() - common_end <= 1 && other.len() - common_end <= 1
}

fn plain(name: &str) -> Vec<u8> {
    name.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase()).collect()
}
