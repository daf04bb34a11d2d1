//! Types that read themselves from a JSON tree, and describe themselves.
//!
//! Serde and schemars do this for everybody; here their generated code would be more than half of the module. Reading is by name
//! tables instead, and every problem carries the path of the value it is about.

use super::error::Problem;
use super::json::Value;

/// A type of the configuration.
pub trait Wire: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong, with the path from here on.
    fn read(value: &Value<'_>) -> Result<Self, Problem>;

    /// What it is where nothing is written; `None` where something must be.
    fn absent() -> Option<Self>;

    /// How it is written.
    #[cfg(feature = "schema")]
    fn write(&self) -> serde_json::Value;

    /// The JSON schema of what may be written.
    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value;
}

/// Defines a struct that is written as an object. `= value` gives a field's default where its type has none, or another one.
macro_rules! object {
    ($(#[doc = $about:literal])* $name:ident { $( $(#[doc = $doc:literal])* $field:ident: $type:ty $(= $default:expr)?, )* }) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name { $( $(#[doc = $doc])* pub $field: $type, )* }

        impl $crate::config::object::Wire for $name {
            fn read(value: &$crate::config::json::Value<'_>) -> Result<Self, $crate::config::Problem> {
                $( let mut $field: Option<$type> = None; )*
                $crate::config::object::members(value, &[$( stringify!($field) ),*], &mut |name, value| {
                    match name {
                        $( stringify!($field) => $field = Some($crate::config::object::Wire::read(value)?), )*
                        _ => {}
                    }
                    Ok(())
                })?;
                Ok(Self { $( $field: match $field.or_else(|| object!(@absent $type $(= $default)?)) {
                    Some(value) => value,
                    None => return Err($crate::config::Problem::new(stringify!($field), "is required")),
                }, )* })
            }

            fn absent() -> Option<Self> {
                Some(Self { $( $field: object!(@absent $type $(= $default)?)?, )* })
            }

            #[cfg(feature = "schema")]
            fn write(&self) -> serde_json::Value {
                let members = [$( (stringify!($field), $crate::config::object::Wire::write(&self.$field)) ),*];
                members.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.to_owned(), value)).collect()
            }

            #[cfg(feature = "schema")]
            fn schema() -> serde_json::Value {
                $crate::config::schema::object(&[$( $about ),*], vec![$( $crate::config::schema::Field {
                    name: stringify!($field),
                    about: &[$( $doc ),*],
                    schema: <$type as $crate::config::object::Wire>::schema(),
                    default: object!(@absent $type $(= $default)?).map(|value: $type| $crate::config::object::Wire::write(&value)),
                } ),*])
            }
        }
    };
    (@absent $type:ty = $default:expr) => { Some($default) };
    (@absent $type:ty) => { <$type as $crate::config::object::Wire>::absent() };
}

/// Defines an enum that is written as one of several words.
macro_rules! words {
    ($(#[doc = $about:literal])* $name:ident, $presence:ident $($default:expr)? => { $( $(#[doc = $doc:literal])* $variant:ident = $word:literal, )* }) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $( $(#[doc = $doc])* $variant, )* }

        impl $crate::config::object::Wire for $name {
            fn read(value: &$crate::config::json::Value<'_>) -> Result<Self, $crate::config::Problem> {
                const VARIANTS: &[$name] = &[$( $name::$variant ),*];
                let index = $crate::config::object::word(value, &[$( $word ),*])?;
                VARIANTS.get(index).copied().ok_or_else(|| $crate::config::Problem::new("", "is not known"))
            }

            fn absent() -> Option<Self> {
                words!(@$presence $($default)?)
            }

            #[cfg(feature = "schema")]
            fn write(&self) -> serde_json::Value {
                match self { $( Self::$variant => $word.into(), )* }
            }

            #[cfg(feature = "schema")]
            fn schema() -> serde_json::Value {
                $crate::config::schema::words(&[$( $about ),*], &[$( ($word, &[$( $doc ),*]) ),*])
            }
        }
    };
    (@default $default:expr) => { Some($default) };
    (@required) => { None };
}

pub(super) use {object, words};

/// Hands over the members of an object by name. None comes twice, and none that is not known.
pub(super) fn members(
    value: &Value<'_>,
    known: &[&'static str],
    take: &mut dyn FnMut(&'static str, &Value<'_>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let Value::Object(members) = value else { return Err(unfit(value, "an object")) };
    for (index, (name, value)) in members.iter().enumerate() {
        let Some(known) = known.iter().find(|known| *known == name) else {
            return Err(Problem::new(name.as_ref(), unknown("there is no such field", name, known)));
        };
        if members.iter().take(index).any(|(other, _)| other == name) {
            return Err(Problem::new(*known, "is there twice"));
        }
        take(known, value).map_err(|problem| problem.within(known))?;
    }
    Ok(())
}

/// Finds which of the words it is.
pub(super) fn word(value: &Value<'_>, known: &[&str]) -> Result<usize, Problem> {
    let Value::Text(given) = value else { return Err(unfit(value, "a word in quotes")) };
    let index = known.iter().position(|known| known == given);
    index.ok_or_else(|| Problem::new("", unknown(&["`", given, "` is not known"].concat(), given, known)))
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
    fn read(value: &Value<'_>) -> Result<Self, Problem> {
        if let Value::Bool(value) = value { Ok(*value) } else { Err(unfit(value, "true or false")) }
    }

    fn absent() -> Option<Self> {
        Some(false)
    }

    #[cfg(feature = "schema")]
    fn write(&self) -> serde_json::Value {
        (*self).into()
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "boolean" })
    }
}

impl Wire for u16 {
    fn read(value: &Value<'_>) -> Result<Self, Problem> {
        let number = if let Value::Number(number) = value { Self::try_from(*number).ok() } else { None };
        number.ok_or_else(|| unfit(value, "a whole number from 0 to 65535"))
    }

    fn absent() -> Option<Self> {
        None
    }

    #[cfg(feature = "schema")]
    fn write(&self) -> serde_json::Value {
        (*self).into()
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "integer", "minimum": 0, "maximum": 65535 })
    }
}

impl Wire for String {
    fn read(value: &Value<'_>) -> Result<Self, Problem> {
        if let Value::Text(text) = value { Ok(text.clone().into_owned()) } else { Err(unfit(value, "a text in quotes")) }
    }

    fn absent() -> Option<Self> {
        None
    }

    #[cfg(feature = "schema")]
    fn write(&self) -> serde_json::Value {
        self.as_str().into()
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "string" })
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn read(value: &Value<'_>) -> Result<Self, Problem> {
        let Value::List(items) = value else { return Err(unfit(value, "a list")) };
        let read = |(index, item)| T::read(item).map_err(|problem| problem.within(&format!("[{index}]")));
        items.iter().enumerate().map(read).collect()
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }

    #[cfg(feature = "schema")]
    fn write(&self) -> serde_json::Value {
        self.iter().map(T::write).collect()
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "array", "items": T::schema() })
    }
}

/// Something that may be left out; `null` says the same.
impl<T: Wire> Wire for Option<T> {
    fn read(value: &Value<'_>) -> Result<Self, Problem> {
        if *value == Value::Null { Ok(None) } else { T::read(value).map(Some) }
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    #[cfg(feature = "schema")]
    fn write(&self) -> serde_json::Value {
        self.as_ref().map_or(serde_json::Value::Null, T::write)
    }

    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value {
        T::schema()
    }
}
