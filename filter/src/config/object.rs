//! Types that read themselves from a JSON tree, and describe themselves.
//!
//! Serde and schemars do this for everybody; here their generated code would be more than half of the module. Reading is by name
//! tables instead, and every problem carries the path of the value it is about.

use alloc::string::String;
use alloc::vec::Vec;

use super::error::{Fault, fault};
use super::json::{Value, quoted};
use crate::pieces::{Piece as _, text};

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
    fn of(value: &Value<'_>) -> Result<Self, Fault> {
        let mut read = Self::unwritten();
        read.read(value, &ANY)?;
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
    fn read(&mut self, value: &Value<'_>, bounds: &Bounds) -> Result<(), Fault>;
}

/// The lowest and the highest number that there may be.
pub type Bounds = (u64, u64);

/// Where nothing else is said.
pub(crate) const ANY: Bounds = (0, i64::MAX as u64);

/// What is known of a field beside its type.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    /// If it is a number.
    pub(crate) bounds: &'static Bounds,
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
        $( $(#[doc = $doc:literal])* $field:ident: $type:ty $(= $default:expr $(=> $low:literal..=$high:expr)?)?, )*
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
                $crate::config::schema::object(&[$( $about ),*], alloc::vec![$( $crate::config::schema::Field {
                    name: stringify!($field),
                    about: &[$( $doc ),*],
                    schema: object!(@schema $type $($(, $low, $high)?)?),
                    required: object!(@required $type $(= $default)?),
                    default: $crate::config::object::Written::to_text(&unwritten.$field),
                } ),*])
            }
        }

        impl $name {
            const FIELDS: &[$crate::config::object::Field] = &[$( $crate::config::object::Field {
                name: stringify!($field),
                required: object!(@required $type $(= $default)?),
                bounds: object!(@bounds $($($low, $high)?)?),
            } ),*];
        }

        impl $crate::config::object::Readable for $name {
            fn read(&mut self, value: &$crate::config::json::Value<'_>, _: &$crate::config::object::Bounds) -> Result<(), $crate::config::Fault> {
                $crate::config::object::read_members(value, Self::FIELDS, &mut [$( &mut self.$field ),*])
            }
        }

        impl $crate::config::object::Written for $name {
            fn write(&self, text: &mut String) {
                $crate::config::object::write_members(text, Self::FIELDS, &[$( &self.$field ),*]);
            }
        }
    };
    (@unwritten $type:ty = $default:expr) => { $default };
    (@unwritten $type:ty) => { <$type as $crate::config::object::Wire>::unwritten() };
    (@bounds) => { &$crate::config::object::ANY };
    (@bounds $low:literal, $high:expr) => { &($low, $high) };
    (@schema $type:ty) => { <$type as $crate::config::object::Wire>::schema() };
    (@schema $type:ty, $low:literal, $high:expr) => { $crate::config::schema::whole($low..=$high) };
    (@required $type:ty = $default:expr) => { false };
    (@required $type:ty) => { <$type as $crate::config::object::Wire>::REQUIRED };
}

/// Defines an enum that is written as one of several words: the first where nothing is written, unless it is `required`.
macro_rules! words {
    ($(#[doc = $about:literal])* $name:ident, $presence:ident => { $( $(#[doc = $doc:literal])* $variant:ident = $word:literal, )* }) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $( $(#[doc = $doc])* $variant, )* }

        impl $name {
            /// All of them, in this order.
            pub const ALL: &[Self] = &[$( Self::$variant ),*];

            /// Their words.
            const WORDS: &[&str] = &[$( $word ),*];

            /// The word.
            pub const fn name(self) -> &'static str {
                Self::WORDS[self as usize]
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
            fn read(&mut self, value: &$crate::config::json::Value<'_>, _: &$crate::config::object::Bounds) -> Result<(), $crate::config::Fault> {
                let index = $crate::config::object::word(value, Self::WORDS)?;
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
pub(crate) fn write_members(text: &mut String, fields: &[Field], values: &[&dyn Written]) {
    let mut joint = "{";
    for (field, value) in fields.iter().zip(values).filter(|(_, value)| !value.says_nothing()) {
        joint.add(text);
        quoted(field.name, text);
        ": ".add(text);
        value.write(text);
        joint = ", ";
    }
    if joint == "{" { "{}" } else { "}" }.add(text);
}

/// Reads the members of an object by name. None comes twice, none is unknown, and all that are required are there.
pub(crate) fn read_members(value: &Value<'_>, fields: &[Field], places: &mut [&mut dyn Readable]) -> Result<(), Fault> {
    let Value::Object(members) = value else { return Err(unfit(value, "an object")) };
    for (index, (name, value)) in members.iter().enumerate() {
        let Some((field, place)) = fields.iter().zip(&mut *places).find(|(field, _)| field.name == name) else {
            let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
            return Err(fault(name, &unknown("there is no such field", name, &known)));
        };
        if members.iter().take(index).any(|(other, _)| other == name) {
            return Err(fault(name, "is there twice"));
        }
        inside(place.read(value, field.bounds), name)?;
    }
    match fields.iter().find(|field| field.required && !members.iter().any(|(name, _)| name == field.name)) {
        Some(field) => Err(fault(field.name, "is required")),
        None => Ok(()),
    }
}

/// A problem of a part is one of the whole, further in.
pub(crate) fn inside(read: Result<(), Fault>, part: &str) -> Result<(), Fault> {
    read.map_err(|mut problem| {
        problem.within(part);
        problem
    })
}

/// Finds which of the words it is.
pub(crate) fn word(value: &Value<'_>, known: &[&str]) -> Result<usize, Fault> {
    let Value::Text(given) = value else { return Err(unfit(value, "a word in quotes")) };
    let index = known.iter().position(|known| known == given);
    index.ok_or_else(|| fault("", &unknown(&text!["`", given.as_ref(), "` is not known"], given, known)))
}

/// A whole number within bounds.
pub(crate) fn whole(value: &Value<'_>, &(low, high): &Bounds) -> Result<u64, Fault> {
    let number = if let Value::Number(number) = value { u64::try_from(*number).ok() } else { None };
    let fits = number.filter(|&number| low <= number && number <= high);
    fits.ok_or_else(|| unfit(value, &text!["a whole number from ", low, " to ", high]))
}

pub(crate) fn unfit(value: &Value<'_>, wanted: &str) -> Fault {
    let given = match value {
        Value::Text(value) => text!["the text `", value.as_ref(), "`"],
        Value::List(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        Value::Bool(value) => value.to_text(),
        Value::Number(value) => text![if *value < 0 { "-" } else { "" }, value.unsigned_abs()],
        Value::Null => "null".into(),
    };
    fault("", &text![given, " is not what is expected here: ", wanted])
}

fn unknown(what: &str, given: &str, known: &[&str]) -> String {
    let near = known.iter().find(|name| is_near(name, given));
    let mut text: String = what.into();
    if let Some(near) = near {
        text = text![text, "; did you mean `", *near, "`?"];
    }
    let mut joint = "; known: ";
    for name in known {
        joint.add(&mut text);
        name.add(&mut text);
        joint = ", ";
    }
    text
}

/// Whether two names are one slip apart: a letter too much, too few, or another; or differ in case, `-` and `_` only.
fn is_near(one: &str, other: &str) -> bool {
    let (one, other) = (plain(one), plain(other));
    let same_start = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let (one, other) = (one.get(same_start..).unwrap_or_default(), other.get(same_start..).unwrap_or_default());
    let same_end = one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count();
    one.len() - same_end <= 1 && other.len() - same_end <= 1
}

fn plain(name: &str) -> Vec<u8> {
    let mut plain = Vec::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() {
            plain.push(byte.to_ascii_lowercase());
        }
    }
    plain
}
