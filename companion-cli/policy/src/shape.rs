//! The YAML text as a [`File`], and the parser's errors in words that a reader of the policy knows.

use serde_json::Value;
use serde_saphyr::Error;

use crate::error::PolicyProblem;
use crate::file::{self, File};
use laststream_base::parse_error::{ParseError, one_of, plain};

/// Parses the YAML text. A text of comments alone is a policy with all defaults.
pub(super) fn shape(text: &str) -> Result<File, PolicyProblem> {
    if is_empty(text.as_bytes()) {
        return Ok(File::default());
    }
    serde_saphyr::from_str(text).map_err(|error| {
        let ParseError { place, message: usual } = ParseError::from(&error);
        let message = message(&error).unwrap_or(usual);
        PolicyProblem { path: String::new(), message, place }
    })
}

/// Whether a text has comments at most, as a file that was truncated before it is written again.
pub fn is_empty(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .all(|line| line.is_empty() || line.starts_with(b"#") || line == b"---")
}

/// The message of an error that names what the policy says; `None` if there is nothing to name.
fn message(error: &Error) -> Option<String> {
    Some(match error.without_snippet() {
        Error::SerdeUnknownField { field, expected, .. } => unknown_field(field, expected),
        Error::SerdeUnknownVariant { variant, expected, .. } => unknown_word(variant, expected),
        Error::SerdeInvalidValue { unexpected, expected, .. }
        | Error::SerdeInvalidType { unexpected, expected, .. } => {
            format!("{} is here, but this must be {}", plain(unexpected), plain(expected))
        }
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            format!("`{key}` is written twice: keep one")
        }
        Error::Message { msg, .. } => msg.clone(),
        _ => return None,
    })
}

/// Names the word, except at `gate.secret`: the secret itself may stand there by mistake.
fn unknown_word(word: &str, expected: &[&str]) -> String {
    let words = one_of(expected);
    // The words of these lists are fields, which take a value.
    match expected {
        ["environment", ..] => format!(
            "this word is not known here: write {words}, as in `{{environment: LASTSTREAM_SECRET}}`"
        ),
        ["gateway", ..] => {
            format!("`{word}` is not known here: write {words}, as in `{{gateway: {{}}}}`")
        }
        _ => format!("`{word}` is not known here: write {words}"),
    }
}

/// The sections whose fields are mistaken for each other's.
const SECTIONS: [&str; 3] = ["drain", "gate", "end"];

/// Names the section to which the field belongs, if it is one of another section.
fn unknown_field(field: &str, expected: &[&str]) -> String {
    let schema = file::schema();
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
