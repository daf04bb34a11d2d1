//! JSON schemas, made from the types.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema};
use serde_json::Value;

use super::wire::Configuration;

/// The schema of a whole configuration (JSON Schema, draft 2020-12).
pub fn schema() -> Value {
    let mut schema = of::<Configuration>(SchemaSettings::draft2020_12());
    schema["title"] = "laststream module configuration".into();
    schema
}

/// The schema of a body of the gate's answers.
pub fn answer<T: JsonSchema>() -> Value {
    let mut schema = of::<T>(SchemaSettings::draft2020_12().for_serialize());
    if let Some(schema) = schema.as_object_mut() {
        schema.shift_remove("$schema");
        schema.shift_remove("title");
    }
    schema
}

fn of<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let settings =
        settings.with(|settings| settings.inline_subschemas = true).with_transform(Plain);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Removes `null` from optional fields: it is accepted, but need not be suggested. Joins the lines
/// of descriptions.
#[derive(Debug, Clone)]
struct Plain;

impl Transform for Plain {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(parts) = schema.as_object_mut() else { return };
        if let Some(Value::String(text)) = parts.get_mut("description") {
            *text = text.lines().collect::<Vec<_>>().join(" ");
        }
        if parts.contains_key("properties") {
            // schemars adds this only to schemas for deserializing
            parts.insert("additionalProperties".into(), false.into());
        }
        if parts.get("format").is_some_and(|format| format == "uint64") {
            // client generators take an unknown format for 32 bits
            parts.insert("format".into(), "int64".into());
        }
        if parts.get("default").is_some_and(Value::is_null) {
            parts.shift_remove("default");
        }
        let without_null =
            |kinds: &Value| kinds.as_array()?.iter().find(|kind| *kind != "null").cloned();
        if let Some(kind) = parts.get("type").and_then(without_null) {
            parts.insert("type".into(), kind);
        }
        let is_null = |schema: &Value| schema["type"] == "null";
        if let Some(Value::Array(either)) = parts.get("anyOf")
            && either.iter().any(is_null)
            && let Some(Value::Object(inner)) =
                either.iter().find(|schema| !is_null(schema)).cloned()
        {
            parts.shift_remove("anyOf");
            for (name, part) in inner {
                parts.entry(name).or_insert(part);
            }
        }
    }
}
