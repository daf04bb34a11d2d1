//! A parser's error in words that repeat nothing of the text. The parser's own words quote lines,
//! values and keys, and the text may hold a password, a token or a key.
//!
//! Names of fields and lists of words come from the types that are read, not from the text.

use std::fmt;

use serde_json::error::Category;
use serde_saphyr::UserMessageFormatter;
use serde_saphyr::localizer::ExternalMessageSource;

/// Where and why a text cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Line and column, from 1.
    pub place: Option<(u64, u64)>,
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.place {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl From<&serde_saphyr::Error> for ParseError {
    fn from(error: &serde_saphyr::Error) -> Self {
        let place = error.location().filter(|place| place.line() > 0);
        let place = place.map(|place| (place.line(), place.column()));
        Self { place, message: of_yaml(error) }
    }
}

impl From<&serde_json::Error> for ParseError {
    fn from(error: &serde_json::Error) -> Self {
        let place = (error.line() > 0).then_some((error.line() as u64, error.column() as u64));
        Self { place, message: of_json(error) }
    }
}

const UNEXPECTED: &str = "this is not what is expected here";

fn of_yaml(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error;
    match error {
        Error::WithSnippet { error, .. } | Error::AliasError { error, .. } => of_yaml(error),
        Error::SerdeMissingField { field, .. } => format!("the field `{field}` is missing"),
        Error::SerdeInvalidValue { unexpected, expected, .. }
        | Error::SerdeInvalidType { unexpected, expected, .. } => {
            format!("{} is here, but this must be {}", kind(unexpected), plain(expected))
        }
        Error::SerdeUnknownField { expected, .. } => {
            format!("there is no such field: write {}", one_of(expected))
        }
        Error::SerdeUnknownVariant { expected, .. } => {
            format!("this word is not known here: write {}", one_of(expected))
        }
        Error::DuplicateMappingKey { .. } => "this field is written twice: keep one".to_owned(),
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
        Error::NullIntoString { .. } => "nothing is here, but this must be a text".to_owned(),
        Error::ExternalMessage { source, .. }
            if matches!(source.as_ref(), ExternalMessageSource::Parser(_)) =>
        {
            words_of_the_parser(error)
        }
        Error::Eof { .. }
        | Error::MultipleDocuments { .. }
        | Error::InvalidUtf8Input
        | Error::UnknownAnchor { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::MergeValueNotMapOrSeqOfMaps { .. }
        | Error::Budget { .. } => words_of_the_parser(error),
        _ => UNEXPECTED.to_owned(),
    }
}

/// The message of an error whose words are the parser's alone, without the position behind it.
fn words_of_the_parser(error: &serde_saphyr::Error) -> String {
    let words = error.render_with_formatter(&UserMessageFormatter);
    let end = words.find(" at line ").or_else(|| words.find('\n')).unwrap_or(words.len());
    words.get(..end).unwrap_or(&words).trim_end_matches([',', ':']).to_owned()
}

fn of_json(error: &serde_json::Error) -> String {
    let words = error.to_string();
    let end = words.rfind(" at line ").unwrap_or(words.len());
    let words = words.get(..end).unwrap_or(&words);
    if error.classify() != Category::Data {
        return format!("not JSON: {words}");
    }
    if words.starts_with("missing field `") {
        return format!("the field{} is missing", words.trim_start_matches("missing field"));
    }
    // What is expected comes last, after what is there.
    match words.rsplit_once(", expected ") {
        Some((_, expected)) => format!("this must be {}", plain(expected)),
        None => UNEXPECTED.to_owned(),
    }
}

/// The kind of a value that serde describes, such as `string "…"`.
fn kind(value: &str) -> &'static str {
    match value.split([' ', '`']).next().unwrap_or_default() {
        "string" | "character" => "a text",
        "integer" | "floating" => "a number",
        "boolean" => "`true` or `false`",
        "map" => "a section with fields",
        "sequence" => "a list",
        "unit" | "null" | "Option" => "nothing",
        _ => "another value",
    }
}

/// A type, or a value that serde describes, without Rust's words.
pub fn plain(words: &str) -> String {
    match words {
        "unit variant" | "newtype variant" | "struct variant" => "a single word".to_owned(),
        "map" | "a map" | "mapping start" => "a section with fields".to_owned(),
        "sequence" | "a sequence" | "sequence start" => "a list".to_owned(),
        "unit" | "null" => "nothing".to_owned(),
        "scalar" | "string scalar" | "a string" => "a text".to_owned(),
        "bool" | "boolean" | "a boolean" => "`true` or `false`".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "i64" => "a whole number, not too large".to_owned(),
        _ if words.starts_with("struct ") => "a section with fields".to_owned(),
        _ if words.starts_with("enum ") => "a word, or one field with its value".to_owned(),
        _ => words.to_owned(),
    }
}

/// Words of which one is to be written.
pub fn one_of(expected: &[&str]) -> String {
    let names: Vec<String> = expected.iter().map(|name| format!("`{name}`")).collect();
    format!("one of {}", names.join(", "))
}
