//! The references of the module's configuration and of the policy file, from their JSON schemas: a
//! section for each object, with a row for each of its fields.

use laststream_filter::config::schema;
use laststream_policy::Policy;
use serde_json::Value;

use super::links::anchor;
use kit::{Outcome, ensure};

/// Fields that few configurations need; they have a separate table below the others.
const RARE: [&str; 12] = [
    "forwarded_proto.trust.peer_key",
    "forwarded_proto.sources[].form",
    "forwarded_proto.sources[].element",
    "forwarded_proto.decision",
    "forwarded_proto.original_header",
    "forwarded_proto.ports",
    "forwarded_proto.write_scheme",
    "forwarded_proto.write_port",
    "gate.linger_ms",
    "gate.open_ms",
    "gate.assumed_after_ms",
    "gate.admin",
];
const RARE_IN_POLICY: [&str; 11] = [
    "name",
    "labels",
    "pull_secret",
    "program_image",
    "failure_policy",
    "gate.hosts",
    "drain.agent",
    "drain.begin",
    "drain.finish",
    "drain.drain_timeout_jitter",
    "drain.exit_on_zero",
];
/// Fields that a policy passes to the module unchanged.
const OF_THE_MODULE: [&str; 2] = ["count", "forwarded_proto"];

pub(super) fn configuration() -> Outcome<String> {
    Reference { rare: &RARE, elsewhere: &[] }.write(&schema::schema())
}

pub(super) fn policy() -> Outcome<String> {
    Reference { rare: &RARE_IN_POLICY, elsewhere: &OF_THE_MODULE }.write(&Policy::schema())
}

struct Reference {
    rare: &'static [&'static str],
    /// Objects whose fields are documented in configuration.md.
    elsewhere: &'static [&'static str],
}

/// An object, with the description above the table of its fields.
struct Section {
    path: String,
    about: String,
    fields: Vec<Field>,
}

struct Field {
    path: String,
    row: String,
}

impl Reference {
    fn write(&self, schema: &Value) -> Outcome<String> {
        let mut sections = Vec::new();
        self.collect("", &plain(schema), &mut sections);
        let known = |path: &&str| {
            sections.iter().flat_map(|section| &section.fields).any(|field| field.path == *path)
        };
        ensure!(self.rare.iter().all(known), "a field of {:?} is not there", self.rare);
        Ok(sections.iter().map(|section| self.section(section)).collect())
    }

    /// This object's section, and then those of the objects in it.
    fn collect(&self, path: &str, schema: &Value, sections: &mut Vec<Section>) {
        let about = schema["description"].as_str().unwrap_or_default().to_owned();
        let mut fields = Vec::new();
        let mut inner = Vec::new();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            let field = plain(field);
            let object = object_in(&field).filter(|_| !self.elsewhere.contains(&path.as_str()));
            let place =
                object.map(|(suffix, _)| format!("#{}", anchor(&format!("{path}{suffix}"))));
            let place = place.or_else(|| {
                self.elsewhere
                    .contains(&path.as_str())
                    .then(|| format!("configuration.md#{}", anchor(&path)))
            });
            let is_required = schema["required"]
                .as_array()
                .is_some_and(|required| required.iter().any(|other| other == name));
            let shown = place.map_or(format!("`{name}`"), |place| format!("[`{name}`]({place})"));
            let row = format!(
                "| {shown} | {} | {} | {} |\n",
                kind(&field),
                default(&field, is_required),
                meaning(&field)
            );
            inner
                .extend(object.map(|(suffix, object)| (format!("{path}{suffix}"), object.clone())));
            fields.push(Field { path, row });
        }
        sections.push(Section { path: path.to_owned(), about, fields });
        for (path, object) in inner {
            self.collect(&path, &object, sections);
        }
    }

    fn section(&self, section: &Section) -> String {
        let mut text = String::new();
        if !section.path.is_empty() {
            text.push_str(&format!("\n### `{}`\n\n{}\n\n", section.path, section.about));
        }
        let (rare, common): (Vec<&Field>, Vec<&Field>) =
            section.fields.iter().partition(|field| self.rare.contains(&field.path.as_str()));
        text.push_str(&table(&common));
        if !rare.is_empty() {
            text.push_str(&format!("\nRarely needed:\n\n{}", table(&rare)));
        }
        text
    }
}

fn table(fields: &[&Field]) -> String {
    let rows: String = fields.iter().map(|field| field.row.as_str()).collect();
    format!("| field | type | default | meaning |\n|---|---|---|---|\n{rows}")
}

/// The schema without `null` as an alternative, with the variants of `oneOf` merged into one
/// object, and with its description on one line.
fn plain(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let is_null = |kind: &Value| kind == "null" || kind["type"] == "null";
    if let Some(kinds) = schema["type"].as_array() {
        schema["type"] = kinds.iter().find(|kind| !is_null(kind)).cloned().unwrap_or_default();
    }
    if let Some(inner) = schema["anyOf"]
        .as_array()
        .and_then(|either| either.iter().find(|kind| !is_null(kind)))
        .cloned()
    {
        for (name, part) in
            inner.as_object().into_iter().flatten().filter(|(name, _)| *name != "description")
        {
            schema[name] = part.clone();
        }
    }
    let either = schema["oneOf"].as_array().cloned().unwrap_or_default();
    for one in &either {
        for (name, field) in one["properties"].as_object().into_iter().flatten() {
            let mut field = field.clone();
            // The description of a variant is beside its only property.
            if field["description"].is_null() {
                field["description"] = one["description"].clone();
            }
            schema["properties"][name] = field;
            schema["type"] = "one of the fields".into();
        }
    }
    if let Some(text) = schema["description"].as_str() {
        schema["description"] = one_line(text).into();
    }
    schema
}

/// The object in a field or in a list's items that needs a separate section.
fn object_in(field: &Value) -> Option<(&'static str, &Value)> {
    let (suffix, schema) =
        if field["items"].is_object() { ("[]", &field["items"]) } else { ("", field) };
    (schema["properties"].is_object() && matcher(schema).is_none()).then_some((suffix, schema))
}

/// The type, in words for the reader.
fn kind(field: &Value) -> String {
    if field["properties"].is_object() {
        return field["type"].as_str().unwrap_or("object").into();
    }
    if field["oneOf"].is_array() {
        return "one of".into();
    }
    match field["type"].as_str() {
        Some("array") if !words(field).is_empty() => "list of".into(),
        Some("array") => {
            let items = plain(&field["items"]);
            matcher(&items).map_or_else(
                || format!("list of {}", kind(&items)),
                |matcher| format!("list of {matcher}"),
            )
        }
        Some("object") if field["additionalProperties"]["type"] == "string" => {
            "map of strings".into()
        }
        Some("object") => "object".into(),
        Some("integer") => number(field),
        Some(_) if field["pattern"].is_string() => "a time with its unit: `500ms`, `60s`".into(),
        Some(other) => other.into(),
        None => "?".into(),
    }
}

fn number(field: &Value) -> String {
    let from = format!("number from {}", field["minimum"]);
    if field["maximum"].is_null() { from } else { format!("{from} to {}", field["maximum"]) }
}

/// How the table shows a matcher of values or of headers, because many fields have these objects.
fn matcher(schema: &Value) -> Option<&'static str> {
    let properties = schema["properties"].as_object()?;
    let has = |name: &str| properties.contains_key(name);
    match (has("exact") && has("prefix"), has("name")) {
        (true, true) => Some("`{\"name\": …}`, with `exact` or `prefix` if wanted"),
        (true, false) => Some("`{\"exact\": …}` or `{\"prefix\": …}`"),
        _ => None,
    }
}

fn default(field: &Value, is_required: bool) -> String {
    match &field["default"] {
        _ if is_required => "required".into(),
        Value::Null | Value::Object(_) => String::new(),
        value => format!("`{value}`"),
    }
}

/// The values of an enum, or of a list of enums, with their descriptions.
fn words(field: &Value) -> Vec<(String, &str)> {
    let words = field["oneOf"].as_array().or_else(|| field["items"]["oneOf"].as_array());
    let word = |word: &'_ Value| word["const"].as_str().map(str::to_owned);
    words
        .into_iter()
        .flatten()
        .filter_map(|each| Some((word(each)?, each["description"].as_str().unwrap_or_default())))
        .collect()
}

fn meaning(field: &Value) -> String {
    let mut text = field["description"].as_str().unwrap_or_default().to_owned();
    for (word, about) in words(field) {
        text.push_str(&format!("<br>• `{word}`: {}", one_line(about)));
    }
    // a line break would end the row
    text.replace('|', "\\|").replace('\n', " ")
}

/// The lines of a doc comment as one, because a table's row is one line.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
