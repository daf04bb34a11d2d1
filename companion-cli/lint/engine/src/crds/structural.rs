//! Kubernetes' structural schemas in the terms of JSON Schema, so that a validator of JSON Schema
//! can be used; and the defaults that the API server fills in before it validates.

use jsonschema::{Keyword, ValidationError, Validator};
use regex::bytes::Regex;
use serde_json::{Map, Value, json};

use super::go_pattern;

const KEEPS_UNKNOWN: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// JSON Schema's `pattern` is ECMAScript's, without flags such as `(?i)`; Kubernetes' is Go's.
const PATTERN: &str = "go-pattern";

struct Pattern {
    text: String,
    regex: Regex,
}

impl<'i> Keyword<'i> for Pattern {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        if self.is_valid(value) {
            return Ok(());
        }
        Err(ValidationError::custom(format!("must match `{}`", self.text)))
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        value.as_str().is_none_or(|text| self.regex.is_match(text.as_bytes()))
    }
}

/// The validator for a schema that [`json_schema`] has made.
pub(super) fn compiled(schema: &Value) -> Result<Validator, String> {
    let options = jsonschema::draft4::options().with_keyword(PATTERN, |_, pattern, _| {
        let text = pattern.as_str().unwrap_or_default().to_owned();
        let regex = Regex::new(&go_pattern::translated(&text));
        let regex = regex.map_err(|error| ValidationError::custom(error.to_string()))?;
        Ok(Box::new(Pattern { text, regex }))
    });
    options.build(schema).map_err(|error| error.to_string())
}

/// The schema of a whole object: `apiVersion`, `kind` and `metadata` are the API server's own.
pub(super) fn json_schema(root: &Value) -> Value {
    let mut schema = closed(root);
    let top = json!({ "apiVersion": {}, "kind": {}, "metadata": { "type": "object" } });
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    if let (Some(properties), Value::Object(top)) = (properties, top) {
        properties.extend(top);
    }
    schema
}

/// The schema with `additionalProperties: false` wherever strict validation reports unknown fields.
fn closed(schema: &Value) -> Value {
    let Some(members) = schema.as_object() else { return schema.clone() };
    let is_set = |name: &str| members.get(name) == Some(&Value::Bool(true));
    let mut result = Map::new();
    for (name, value) in members {
        let value = match (name.as_str(), value) {
            ("properties", Value::Object(fields)) => {
                fields.iter().map(|(name, field)| (name.clone(), closed(field))).collect()
            }
            ("items" | "additionalProperties" | "not", _) => closed(value),
            ("allOf" | "anyOf" | "oneOf", Value::Array(forms)) => {
                forms.iter().map(closed).collect()
            }
            ("default" | "format" | "nullable", _) => continue,
            (name, _) if name.starts_with("x-") => continue,
            _ => value.clone(),
        };
        let name = if name == "pattern" { PATTERN } else { name };
        result.insert(name.to_owned(), value);
    }
    if is_set(INT_OR_STRING) {
        result.insert("type".into(), json!(["integer", "string"]));
    }
    let is_object = members.get("type").is_some_and(|kind| kind == "object");
    if is_object && !is_set(KEEPS_UNKNOWN) && !members.contains_key("additionalProperties") {
        result.insert("additionalProperties".into(), false.into());
        if is_set(EMBEDDED) {
            let top = json!({ "apiVersion": {}, "kind": {}, "metadata": {} });
            let mut fields = result.remove("properties").unwrap_or_else(|| json!({}));
            if let (Some(fields), Value::Object(top)) = (fields.as_object_mut(), top) {
                fields.extend(top);
            }
            result.insert("properties".into(), fields);
        }
    }
    if members.get("x-kubernetes-list-type").is_some_and(|kind| kind == "set") {
        result.insert("uniqueItems".into(), true.into());
    }
    if is_set("nullable")
        && let Some(kind) = result.get("type").filter(|kind| kind.is_string()).cloned()
    {
        result.insert("type".into(), json!([kind, "null"]));
    }
    result.into()
}

/// Whether the API server drops this field if it is null.
fn drops_null(schema: &Value, name: &str) -> bool {
    let each = || schema.get("additionalProperties").filter(|each| each.is_object());
    let field = schema["properties"].get(name).or_else(each);
    field.is_some_and(|field| field["nullable"] != true && field.get("default").is_none())
}

/// Fills in defaults as the API server does: for fields that are absent, and for nulls where null
/// is not allowed. Such a null without a default counts as absent.
pub(super) fn fill_defaults(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, value| !value.is_null() || !drops_null(schema, name));
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                let is_missing = members
                    .get(name)
                    .is_none_or(|value| value.is_null() && field["nullable"] != true);
                if let Some(default) = field.get("default").filter(|_| is_missing) {
                    members.insert(name.clone(), default.clone());
                }
                if let Some(inner) = members.get_mut(name) {
                    fill_defaults(field, inner);
                }
            }
            if let Some(each) = schema.get("additionalProperties").filter(|each| each.is_object()) {
                members.values_mut().for_each(|inner| fill_defaults(each, inner));
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| fill_defaults(&schema["items"], item));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{compiled, fill_defaults, json_schema};
    use crate::crds::table::built_in;
    use serde_json::{Value, json};

    fn accepts(schema: &Value, spec: &Value) -> bool {
        let schema = json_schema(&json!({ "type": "object", "properties": { "spec": schema } }));
        let validator = compiled(&schema).expect("a schema");
        validator.is_valid(&json!({ "metadata": {}, "spec": spec }))
    }

    #[test]
    fn unknown_fields_are_refused_where_kubernetes_prunes_them() {
        let field = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
        assert!(accepts(&field, &json!({ "a": "x" })));
        assert!(!accepts(&field, &json!({ "b": "x" })));
        let mut open = field.clone();
        open["x-kubernetes-preserve-unknown-fields"] = true.into();
        assert!(accepts(&open, &json!({ "b": "x" })));
        assert!(accepts(&json!({ "x-kubernetes-preserve-unknown-fields": true }), &json!([1])));
        let map = json!({ "type": "object", "additionalProperties": field });
        assert!(accepts(&map, &json!({ "any": { "a": "x" } })));
        assert!(!accepts(&map, &json!({ "any": { "b": "x" } })));
        assert!(!accepts(&json!({ "type": "object" }), &json!({ "b": 1 })));
        let embedded = json!({ "type": "object", "x-kubernetes-embedded-resource": true });
        assert!(accepts(&embedded, &json!({ "kind": "x", "metadata": {} })));
        assert!(!accepts(&embedded, &json!({ "spec": {} })));
    }

    #[test]
    fn kubernetes_own_types_are_understood() {
        let either = json!({ "x-kubernetes-int-or-string": true });
        assert!(accepts(&either, &json!(1)) && accepts(&either, &json!("10%")));
        assert!(!accepts(&either, &json!(true)));
        let nullable = json!({ "type": "string", "nullable": true });
        assert!(accepts(&nullable, &Value::Null));
        assert!(!accepts(&json!({ "type": "string" }), &Value::Null));
        let set = json!({ "type": "array", "items": {}, "x-kubernetes-list-type": "set" });
        assert!(!accepts(&set, &json!([1, 1])));
    }

    #[test]
    fn patterns_are_those_of_go() {
        let words = json!({ "type": "string", "pattern": "^(?i)(none|some)$" });
        let nested = json!({ "type": "string", "anyOf": [{ "pattern": "(?i)^some$" }] });
        for schema in [words, nested] {
            assert!(accepts(&schema, &json!("SOME")) && !accepts(&schema, &json!("all")));
        }
        let domain = json!({ "type": "string", "pattern": r"^(\w{1,63}\.){1,253}$" });
        assert!(accepts(&domain, &json!("a.b.")), "too large with classes of Unicode");
    }

    /// A schema that does not compile would check nothing.
    #[test]
    fn every_built_in_schema_compiles() {
        let all = built_in();
        assert!(all.len() > 20, "{}", all.len());
        for definition in all {
            let made = compiled(&json_schema(&definition.schema));
            assert!(made.is_ok(), "{}/{}: {made:?}", definition.group, definition.kind);
        }
    }

    #[test]
    fn absent_fields_and_invalid_nulls_get_defaults() {
        let schema = json!({ "properties": {
            "port": { "default": 80 },
            "list": { "items": { "properties": { "kind": { "default": "Service" } } } },
            "none": { "nullable": true, "default": 1 },
        } });
        let mut value = json!({ "list": [{}], "none": null, "port": null });
        fill_defaults(&schema, &mut value);
        assert_eq!(value, json!({ "list": [{ "kind": "Service" }], "none": null, "port": 80 }));
    }
}
