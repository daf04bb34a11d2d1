//! Types that read themselves from a JSON tree, and describe themselves.
//!
//! Serde and schemars do this for everybody; here their generated code would be more than half of the module. Reading is by name
//! tables instead, and every problem carries the path of the value it is about.

use std::ops::RangeInclusive;

use super::error::Problem;
use super::json::Value;

/// A type of the configuration.
pub trait Wire: Sized {
    /// Whether it must be written.
    const REQUIRED: bool;

    /// What it is where nothing is written.
    fn unwritten() -> Self;

    /// Reads it.
    ///
    /// # Errors
    /// What is wrong, with the path from here on.
    fn read(value: &Value<'_>) -> Result<Self, Problem>;

    /// How it is written.
    fn write(&self) -> Value<'static>;

    /// The JSON schema of what may be written.
    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value;
}

/// Defines a struct that is written as an object. `= value` gives a field's default where its type has none, or another one;
/// `=> low..=high` gives a number's bounds.
macro_rules! object {
    ($(#[doc = $about:literal])* $name:ident {
        $( $(#[doc = $doc:literal])* $field:ident: $type:ty $(= $default:expr $(=> $bounds:expr)?)?, )*
    }) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $( $(#[doc = $doc])* pub $field: $type, )* }

        impl $crate::config::object::Wire for $name {
            const REQUIRED: bool = false;

            fn unwritten() -> Self {
                Self { $( $field: object!(@unwritten $type $(= $default)?), )* }
            }

            fn read(value: &$crate::config::json::Value<'_>) -> Result<Self, $crate::config::Problem> {
                const FIELDS: &[(&str, bool)] = &[$( (stringify!($field), object!(@required $type $(= $default)?)) ),*];
                let mut object = Self::unwritten();
                $crate::config::object::members(value, FIELDS, &mut |name, value| {
                    match name {
                        $( stringify!($field) => object.$field = object!(@read value $($($bounds)?)?)?, )*
                        _ => {}
                    }
                    Ok(())
                })?;
                Ok(object)
            }

            fn write(&self) -> $crate::config::json::Value<'static> {
                $crate::config::object::object_of(vec![$( (stringify!($field), $crate::config::object::Wire::write(&self.$field)) ),*])
            }

            #[cfg(feature = "schema")]
            fn schema() -> serde_json::Value {
                let unwritten = Self::unwritten();
                $crate::config::schema::object(&[$( $about ),*], vec![$( $crate::config::schema::Field {
                    name: stringify!($field),
                    about: &[$( $doc ),*],
                    schema: object!(@schema $type $($(, $bounds)?)?),
                    required: object!(@required $type $(= $default)?),
                    default: $crate::config::object::Wire::write(&unwritten.$field).to_string(),
                } ),*])
            }
        }
    };
    (@unwritten $type:ty = $default:expr) => { $default };
    (@unwritten $type:ty) => { <$type as $crate::config::object::Wire>::unwritten() };
    (@read $value:ident) => { $crate::config::object::Wire::read($value) };
    (@read $value:ident $bounds:expr) => { $crate::config::object::whole($value, $bounds) };
    (@schema $type:ty) => { <$type as $crate::config::object::Wire>::schema() };
    (@schema $type:ty, $bounds:expr) => { $crate::config::schema::whole($bounds) };
    (@required $type:ty = $default:expr) => { false };
    (@required $type:ty) => { <$type as $crate::config::object::Wire>::REQUIRED };
}

/// Defines an enum that is written as one of several words: the first where nothing is written, unless it is `required`.
macro_rules! words {
    ($(#[doc = $about:literal])* $name:ident, $presence:ident => { $( $(#[doc = $doc:literal])* $variant:ident = $word:literal, )* }) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $( $(#[doc = $doc])* $variant, )* }

        impl $name {
            /// All of them, in this order.
            pub const ALL: &[Self] = &[$( Self::$variant ),*];

            /// The word.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $word, )* }
            }
        }

        impl $crate::config::object::Wire for $name {
            const REQUIRED: bool = words!(@$presence);

            fn unwritten() -> Self {
                Self::ALL[0]
            }

            fn read(value: &$crate::config::json::Value<'_>) -> Result<Self, $crate::config::Problem> {
                let index = $crate::config::object::word(value, &[$( $word ),*])?;
                Ok(Self::ALL.get(index).copied().unwrap_or_else(Self::unwritten))
            }

            fn write(&self) -> $crate::config::json::Value<'static> {
                $crate::config::json::Value::Text(self.name().into())
            }

            #[cfg(feature = "schema")]
            fn schema() -> serde_json::Value {
                $crate::config::schema::words(&[$( $about ),*], &[$( ($word, &[$( $doc ),*]) ),*])
            }
        }
    };
    (@optional) => { false };
    (@required) => { true };
}

pub(crate) use {object, words};

/// Members that say nothing are left out.
pub(crate) fn object_of(members: Vec<(&'static str, Value<'static>)>) -> Value<'static> {
    let telling = members.into_iter().filter(|(_, value)| *value != Value::Null);
    Value::Object(telling.map(|(name, value)| (name.into(), value)).collect())
}

/// Hands over the members of an object by name. None comes twice, none is unknown, and all that are required (`true`) are there.
pub(crate) fn members(
    value: &Value<'_>,
    fields: &[(&'static str, bool)],
    take: &mut dyn FnMut(&'static str, &Value<'_>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let Value::Object(members) = value else { return Err(unfit(value, "an object")) };
    for (index, (name, value)) in members.iter().enumerate() {
        let Some((field, _)) = fields.iter().find(|(field, _)| field == name) else {
            let known: Vec<&str> = fields.iter().map(|(field, _)| *field).collect();
            return Err(Problem::new(name.as_ref(), unknown("there is no such field", name, &known)));
        };
        if members.iter().take(index).any(|(other, _)| other == name) {
            return Err(Problem::new(*field, "is there twice"));
        }
        take(field, value).map_err(|problem| problem.within(field))?;
    }
    let missing = |(field, required): &&(&str, bool)| *required && !members.iter().any(|(name, _)| name == field);
    match fields.iter().find(missing) {
        Some((field, _)) => Err(Problem::new(*field, "is required")),
        None => Ok(()),
    }
}

/// Hands over the items of a list.
fn items(value: &Value<'_>, take: &mut dyn FnMut(&Value<'_>) -> Result<(), Problem>) -> Result<(), Problem> {
    let Value::List(items) = value else { return Err(unfit(value, "a list")) };
    for (index, item) in items.iter().enumerate() {
        take(item).map_err(|problem| problem.within(&format!("[{index}]")))?;
    }
    Ok(())
}

/// Finds which of the words it is.
pub(crate) fn word(value: &Value<'_>, known: &[&str]) -> Result<usize, Problem> {
    let Value::Text(given) = value else { return Err(unfit(value, "a word in quotes")) };
    let index = known.iter().position(|known| known == given);
    index.ok_or_else(|| Problem::new("", unknown(&["`", given, "` is not known"].concat(), given, known)))
}

/// A whole number within bounds.
pub(crate) fn whole(value: &Value<'_>, bounds: RangeInclusive<u64>) -> Result<u64, Problem> {
    let number = if let Value::Number(number) = value { u64::try_from(*number).ok() } else { None };
    let fits = number.filter(|number| bounds.contains(number));
    fits.ok_or_else(|| unfit(value, &["a whole number from ", &bounds.start().to_string(), " to ", &bounds.end().to_string()].concat()))
}

fn unfit(value: &Value<'_>, wanted: &str) -> Problem {
    let given = match value {
        Value::Null => "null".into(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::Text(value) => ["the text `", value, "`"].concat(),
        Value::List(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
    };
    Problem::new("", [&given, " is not what is expected here: ", wanted].concat())
}

fn unknown(what: &str, given: &str, known: &[&str]) -> String {
    let near = known.iter().find(|name| is_near(name, given));
    let hint = near.map_or(String::new(), |near| ["; did you mean `", near, "`?"].concat());
    [what, &hint, "; known: ", &known.join(", ")].concat()
}

/// Whether two names are one slip apart: a letter too much, too few, or another; or differ in case, `-` and `_` only.
fn is_near(one: &str, other: &str) -> bool {
    let plain = |name: &str| -> Vec<u8> { name.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| byte.to_ascii_lowercase()).collect() };
    let (one, other) = (plain(one), plain(other));
    let same_start = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let (one, other) = (one.get(same_start..).unwrap_or_default(), other.get(same_start..).unwrap_or_default());
    let same_end = one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count();
    one.len() - same_end <= 1 && other.len() - same_end <= 1
}

impl Wire for bool {
    const REQUIRED: bool = false;

    fn unwritten() -> Self {
        false
    }

    fn read(value: &Value<'_>) -> Result<Self, Problem> {
        if let Value::Bool(value) = value { Ok(*value) } else { Err(unfit(value, "true or false")) }
    }

    fn write(&self) -> Value<'static> {
        Value::Bool(*self)
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "boolean" })
    }
}

/// The largest number there is; more is written as this much.
const LARGEST: u64 = i64::MAX as u64;

impl Wire for u16 {
    const REQUIRED: bool = true;

    fn unwritten() -> Self {
        0
    }

    fn read(value: &Value<'_>) -> Result<Self, Problem> {
        whole(value, 0..=Self::MAX.into()).map(|number| number as Self)
    }

    fn write(&self) -> Value<'static> {
        Value::Number((*self).into())
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        super::schema::whole(0..=Self::MAX.into())
    }
}

impl Wire for u64 {
    const REQUIRED: bool = true;

    fn unwritten() -> Self {
        0
    }

    fn read(value: &Value<'_>) -> Result<Self, Problem> {
        whole(value, 0..=LARGEST)
    }

    fn write(&self) -> Value<'static> {
        Value::Number((*self).min(LARGEST) as i64)
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "integer", "format": "int64", "minimum": 0 })
    }
}

impl Wire for String {
    const REQUIRED: bool = true;

    fn unwritten() -> Self {
        Self::new()
    }

    fn read(value: &Value<'_>) -> Result<Self, Problem> {
        if let Value::Text(text) = value { Ok(text.clone().into_owned()) } else { Err(unfit(value, "a text in quotes")) }
    }

    fn write(&self) -> Value<'static> {
        Value::Text(self.clone().into())
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "string" })
    }
}

impl<T: Wire> Wire for Vec<T> {
    const REQUIRED: bool = false;

    fn unwritten() -> Self {
        Self::new()
    }

    fn read(value: &Value<'_>) -> Result<Self, Problem> {
        let mut list = Self::new();
        items(value, &mut |item| {
            list.push(T::read(item)?);
            Ok(())
        })?;
        Ok(list)
    }

    fn write(&self) -> Value<'static> {
        Value::List(self.iter().map(T::write).collect())
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "array", "items": T::schema() })
    }
}

/// Something that may be left out; `null` says the same.
impl<T: Wire> Wire for Option<T> {
    const REQUIRED: bool = false;

    fn unwritten() -> Self {
        None
    }

    fn read(value: &Value<'_>) -> Result<Self, Problem> {
        if *value == Value::Null { Ok(None) } else { T::read(value).map(Some) }
    }

    fn write(&self) -> Value<'static> {
        self.as_ref().map_or(Value::Null, T::write)
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        T::schema()
    }
}
