//! Types that read themselves from a JSON tree, and describe themselves.
//!
//! Serde and schemars do this for everybody; here their generated code would be more than half of the module. Reading is by name
//! tables instead, and every problem carries the path of the value it is about.

use std::ops::RangeInclusive;

use super::error::Problem;
use super::json::{Value, quoted};
use crate::pieces::text;

/// A type of the configuration.
pub trait Wire: Sized + Readable + Written {
    /// Whether it must be written.
    const REQUIRED: bool;

    /// What it is where nothing is written.
    fn unwritten() -> Self;

    /// What a value says.
    ///
    /// # Errors
    /// What is wrong, with the path from here on.
    fn of(value: &Value<'_>) -> Result<Self, Problem> {
        let mut read = Self::unwritten();
        read.read(value)?;
        Ok(read)
    }

    /// The JSON schema of what may be written.
    #[cfg(feature = "schema")]
    fn schema() -> serde_json::Value;
}

/// How a type is read, in place: a function for each type, instead of code for each field.
pub trait Readable {
    /// Becomes what the value says.
    ///
    /// # Errors
    /// What is wrong, with the path from here on.
    fn read(&mut self, value: &Value<'_>) -> Result<(), Problem>;
}

/// How a type is written.
pub trait Written {
    /// As JSON text.
    fn write(&self, text: &mut String);

    /// As a text of its own.
    fn to_text(&self) -> String
    where
        Self: Sized,
    {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    /// Whether it is left out where it is a member.
    fn says_nothing(&self) -> bool {
        false
    }
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

            #[cfg(feature = "schema")]
            fn schema() -> serde_json::Value {
                let unwritten = Self::unwritten();
                $crate::config::schema::object(&[$( $about ),*], vec![$( $crate::config::schema::Field {
                    name: stringify!($field),
                    about: &[$( $doc ),*],
                    schema: object!(@schema $type $($(, $bounds)?)?),
                    required: object!(@required $type $(= $default)?),
                    default: $crate::config::object::Written::to_text(&unwritten.$field),
                } ),*])
            }
        }

        impl $crate::config::object::Readable for $name {
            fn read(&mut self, value: &$crate::config::json::Value<'_>) -> Result<(), $crate::config::Problem> {
                $crate::config::object::read_members(value, &mut [$(
                    $crate::config::object::Member {
                        name: stringify!($field),
                        required: object!(@required $type $(= $default)?),
                        value: object!(@read self.$field $($(, $bounds)?)?),
                    }
                ),*])
            }
        }

        impl $crate::config::object::Written for $name {
            fn write(&self, text: &mut String) {
                $crate::config::object::write_members(text, &[$( (stringify!($field), &self.$field) ),*]);
            }
        }
    };
    (@unwritten $type:ty = $default:expr) => { $default };
    (@unwritten $type:ty) => { <$type as $crate::config::object::Wire>::unwritten() };
    (@read $value:expr) => { &mut $value };
    (@read $value:expr, $bounds:expr) => { &mut $crate::config::object::Bounded(&mut $value, $bounds) };
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

            #[cfg(feature = "schema")]
            fn schema() -> serde_json::Value {
                $crate::config::schema::words(&[$( $about ),*], &[$( ($word, &[$( $doc ),*]) ),*])
            }
        }

        impl $crate::config::object::Readable for $name {
            fn read(&mut self, value: &$crate::config::json::Value<'_>) -> Result<(), $crate::config::Problem> {
                let index = $crate::config::object::word(value, &[$( $word ),*])?;
                *self = Self::ALL.get(index).copied().unwrap_or(*self);
                Ok(())
            }
        }

        impl $crate::config::object::Written for $name {
            fn write(&self, text: &mut String) {
                $crate::config::json::quoted(self.name(), text);
            }
        }
    };
    (@optional) => { false };
    (@required) => { true };
}

pub(crate) use {object, words};

/// Members that say nothing are left out.
pub(crate) fn write_members(text: &mut String, members: &[(&str, &dyn Written)]) {
    let mut joint = "{";
    for (name, value) in members.iter().filter(|(_, value)| !value.says_nothing()) {
        text.push_str(joint);
        quoted(name, text);
        text.push_str(": ");
        value.write(text);
        joint = ", ";
    }
    text.push_str(if joint == "{" { "{}" } else { "}" });
}

/// A field that is to be read.
pub(crate) struct Member<'v> {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    pub(crate) value: &'v mut dyn Readable,
}

/// Reads the members of an object by name. None comes twice, none is unknown, and all that are required are there.
pub(crate) fn read_members(value: &Value<'_>, fields: &mut [Member<'_>]) -> Result<(), Problem> {
    let Value::Object(members) = value else { return Err(unfit(value, "an object")) };
    for (index, (name, value)) in members.iter().enumerate() {
        let Some(field) = fields.iter_mut().find(|field| field.name == name) else {
            let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
            return Err(Problem::new(name.as_ref(), unknown("there is no such field", name, &known)));
        };
        if members.iter().take(index).any(|(other, _)| other == name) {
            return Err(Problem::new(field.name, "is there twice"));
        }
        field.value.read(value).map_err(|problem| problem.within(field.name))?;
    }
    let missing = |field: &&mut Member<'_>| field.required && !members.iter().any(|(name, _)| name == field.name);
    match fields.iter_mut().find(missing) {
        Some(field) => Err(Problem::new(field.name, "is required")),
        None => Ok(()),
    }
}

/// Finds which of the words it is.
pub(crate) fn word(value: &Value<'_>, known: &[&str]) -> Result<usize, Problem> {
    let Value::Text(given) = value else { return Err(unfit(value, "a word in quotes")) };
    let index = known.iter().position(|known| known == given);
    index.ok_or_else(|| Problem::new("", unknown(&text!["`", given.as_ref(), "` is not known"], given, known)))
}

/// A number that must be within bounds.
pub(crate) struct Bounded<'n>(pub(crate) &'n mut u64, pub(crate) RangeInclusive<u64>);

impl Readable for Bounded<'_> {
    fn read(&mut self, value: &Value<'_>) -> Result<(), Problem> {
        *self.0 = whole(value, &self.1)?;
        Ok(())
    }
}

/// A whole number within bounds.
pub(crate) fn whole(value: &Value<'_>, bounds: &RangeInclusive<u64>) -> Result<u64, Problem> {
    let number = if let Value::Number(number) = value { u64::try_from(*number).ok() } else { None };
    let fits = number.filter(|number| bounds.contains(number));
    fits.ok_or_else(|| unfit(value, &text!["a whole number from ", *bounds.start(), " to ", *bounds.end()]))
}

pub(crate) fn unfit(value: &Value<'_>, wanted: &str) -> Problem {
    let given = match value {
        Value::Text(value) => text!["the text `", value.as_ref(), "`"],
        Value::List(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        Value::Bool(value) => value.to_text(),
        Value::Number(value) => text![if *value < 0 { "-" } else { "" }, value.unsigned_abs()],
        Value::Null => "null".into(),
    };
    Problem::new("", text![given, " is not what is expected here: ", wanted])
}

fn unknown(what: &str, given: &str, known: &[&str]) -> String {
    let near = known.iter().find(|name| is_near(name, given));
    let hint = near.map_or(String::new(), |near| text!["; did you mean `", *near, "`?"]);
    text![what, hint, "; known: ", known.join(", ")]
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
