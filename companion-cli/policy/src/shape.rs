//! The YAML text as a [`File`], and the parser's errors in words that a reader of the policy knows.

use serde_json::Value;
use serde_saphyr::{Error, UserMessageFormatter};

use super::file::File;
use super::{Policy, PolicyProblem};

/// Parses the YAML text. A text of comments alone is a policy with all defaults.
pub(super) fn shape(text: &str) -> Result<File, PolicyProblem> {
    if super::is_empty(text.as_bytes()) {
        return Ok(File::default());
    }
    serde_saphyr::from_str(text).map_err(|error| {
        let place = error
            .location()
            .filter(|place| place.line() > 0)
            .map(|place| (place.line(), place.column()));
        PolicyProblem { path: String::new(), message: message(error.without_snippet()), place }
    })
}

fn message(error: &Error) -> String {
    match error {
        Error::SerdeUnknownField { field, expected, .. } => unknown_field(field, expected),
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            format!("`{variant}` is not known here: write {}", one_of(expected))
        }
        Error::SerdeMissingField { field, .. } => format!("the field `{field}` is missing"),
        Error::SerdeInvalidValue { unexpected, expected, .. }
        | Error::SerdeInvalidType { unexpected, expected, .. } => {
            format!("{} is here, but this must be {}", plain(unexpected), plain(expected))
        }
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().map_or("a field".to_owned(), |key| format!("`{key}`"));
            format!("{key} is written twice: keep one")
        }
        Error::ExpectedMappingEndAfterEnumVariantValue { .. } => {
            "only one of these fields is allowed: keep one".to_owned()
        }
        Error::ExternallyTaggedEnumExpectedScalarOrMapping { .. } => {
            "a list is here, but this must be a word, or one field with its value".to_owned()
        }
        Error::UnexpectedValueForUnitEnumVariant { .. } => {
            "this word takes no value: write it alone".to_owned()
        }
        Error::Unexpected { expected, .. } => format!("this must be {}", plain(expected)),
        Error::InvalidScalar { ty, .. } => format!("this must be {}", plain(ty)),
        other => of_the_parser(other),
    }
}

/// The parser's message without the position behind it.
fn of_the_parser(error: &Error) -> String {
    let words = error.render_with_formatter(&UserMessageFormatter);
    let end = words.find(" at line ").or_else(|| words.find('\n')).unwrap_or(words.len());
    words.get(..end).unwrap_or(&words).trim_end_matches([',', ':']).to_owned()
}

/// A type without Rust's words.
fn plain(words: &str) -> String {
    match words {
        "unit variant" | "newtype variant" | "struct variant" => "a single word".to_owned(),
        "map" | "mapping start" => "a section with fields".to_owned(),
        "sequence" | "sequence start" => "a list".to_owned(),
        "unit" | "null" => "nothing".to_owned(),
        "scalar" | "string scalar" => "a text".to_owned(),
        "bool" | "boolean" => "`true` or `false`".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "i64" => "a whole number, not too large".to_owned(),
        _ if words.starts_with("struct ") => "a section with fields".to_owned(),
        _ if words.starts_with("enum ") => "a word, or one field with its value".to_owned(),
        _ => words.to_owned(),
    }
}

fn one_of(expected: &[&str]) -> String {
    let names: Vec<String> = expected.iter().map(|name| format!("`{name}`")).collect();
    // The words of these lists are fields, which take a value.
    let example = match expected {
        ["environment", ..] => ", as in `{environment: LASTSTREAM_SECRET}`",
        ["gateway", ..] => ", as in `{gateway: {}}`",
        _ => "",
    };
    format!("one of {}{example}", names.join(", "))
}

/// The sections whose fields are mistaken for each other's.
const SECTIONS: [&str; 3] = ["drain", "gate", "end"];

/// Names the section to which the field belongs, if it is one of another section.
fn unknown_field(field: &str, expected: &[&str]) -> String {
    let schema = Policy::schema();
    let has_it = |section: &&&str| fields(&schema["properties"][section]).any(|name| name == field);
    match SECTIONS.iter().find(has_it) {
        Some(section) => format!(
            "there is no field `{field}` here: it belongs to `{section}`, as in `{section}: \
                {{{field}: …}}`"
        ),
        None if schema["properties"].get(field).is_some() => {
            format!("there is no field `{field}` here: it belongs to the top of the policy")
        }
        None => format!("there is no field `{field}`: write {}", one_of(expected)),
    }
}

/// The names of a section's fields in the schema; an optional section is one of two choices there.
fn fields(section: &Value) -> impl Iterator<Item = &String> {
    let choices = section["anyOf"].as_array().into_iter().flatten();
    let sections = std::iter::once(section).chain(choices);
    sections
        .filter_map(|section| section["properties"].as_object())
        .flat_map(|fields| fields.keys())
}
