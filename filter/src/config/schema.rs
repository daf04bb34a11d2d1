//! The JSON schema of the configuration, from the types themselves.

use alloc::borrow::ToOwned as _;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use serde_json::{Value, json};

use super::object::Wire as _;
use super::wire::Configuration;

/// The schema of a whole configuration (JSON Schema, draft 2020-12).
pub fn schema() -> Value {
    let mut schema = Configuration::schema();
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "laststream module configuration".into();
    schema
}

/// A field of an object.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) about: &'static [&'static str],
    pub(crate) schema: Value,
    pub(crate) required: bool,
    /// What it is where it is left out, as JSON.
    pub(crate) default: String,
}

pub(crate) fn object(about: &[&str], fields: Vec<Field>) -> Value {
    let required: Vec<_> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    let property = |mut field: Field| {
        field.schema["description"] = text(field.about).into();
        if let Ok(default) = serde_json::from_str::<Value>(&field.default)
            && !field.required
            && !default.is_null()
        {
            field.schema["default"] = default;
        }
        (field.name.to_owned(), field.schema)
    };
    let properties: serde_json::Map<_, _> = fields.into_iter().map(property).collect();
    let mut schema = json!({ "type": "object", "description": text(about), "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    schema
}

pub(crate) fn words(about: &[&str], words: &[(&str, &[&str])]) -> Value {
    let word = |(word, about): &(&str, &[&str])| json!({ "const": word, "description": text(about) });
    json!({ "description": text(about), "oneOf": words.iter().map(word).collect::<Vec<_>>() })
}

pub(crate) fn whole(bounds: RangeInclusive<u64>) -> Value {
    json!({ "type": "integer", "minimum": bounds.start(), "maximum": bounds.end() })
}

fn text(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}
