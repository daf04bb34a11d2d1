//! The gate's OpenAPI file: its schemas are made from the types of the bodies, and its examples fit
//! them. `cases/gate/interface.rs` checks the real gate against the file.

use std::collections::BTreeSet;

use laststream_filter::config::schema;
use laststream_filter::gate::replies::{
    Outcome as Answer, ScopeStatus, Status, StreamStatus, Streams,
};
use serde_json::{Map, Value, json};

use super::{compare, read};
use kit::openapi::{Document, members};
use kit::prelude::*;

const FILE: &str = "filter/gate.openapi.yaml";
const HEADING: &str = "  schemas: # from the types; `cargo bless` writes them anew\n";
/// The longest line; a longer object or list is broken into lines.
const WIDTH: usize = 140;

/// The types of the bodies.
fn bodies() -> [(&'static str, Value); 5] {
    [
        ("Status", schema::answer::<Status>()),
        ("ScopeStatus", schema::answer::<ScopeStatus>()),
        ("Streams", schema::answer::<Streams>()),
        ("StreamStatus", schema::answer::<StreamStatus>()),
        ("Outcome", schema::answer::<Answer>()),
    ]
}

pub(super) fn is_made_from_the_code() -> Outcome {
    let text = read(FILE)?;
    let document = Document::read(&text)?;
    ensure_eq!(
        document.root()["info"]["version"].as_str(),
        Some(env!("CARGO_PKG_VERSION")),
        "info.version in {FILE}"
    );
    let start =
        text.find(HEADING).with_context(|| format!("{FILE} has no line `{}`", HEADING.trim()))?
            + HEADING.len();
    let mut made = String::new();
    block(&schemas(), 4, &mut made);
    let end = text.len();
    compare(FILE, "schemas", text, start..end, &made)
}

/// Each schema, with references where one contains another.
fn schemas() -> Value {
    let mut schemas: Map<String, Value> =
        bodies().into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    let known = schemas.clone();
    for schema in schemas.values_mut() {
        for field in fields(schema) {
            refer(field, &known);
        }
    }
    schemas.into()
}

/// The schemas of an object's members and of a list's items.
fn fields(schema: &mut Value) -> Vec<&mut Value> {
    let Value::Object(parts) = schema else { return Vec::new() };
    parts
        .iter_mut()
        .flat_map(|(name, part)| match (name.as_str(), part) {
            ("properties", Value::Object(fields)) => fields.values_mut().collect(),
            ("items", items) => vec![items],
            _ => Vec::new(),
        })
        .collect()
}

fn refer(schema: &mut Value, known: &Map<String, Value>) {
    match known.iter().find(|(_, other)| *other == schema) {
        Some((name, _)) => *schema = json!({ "$ref": format!("#/components/schemas/{name}") }),
        None => fields(schema).into_iter().for_each(|field| refer(field, known)),
    }
}

/// Block YAML. A value that fits into [`WIDTH`] is on one line.
fn block(value: &Value, indent: usize, text: &mut String) {
    let lines: Vec<(String, &Value)> = match value {
        Value::Object(members) => {
            members.iter().map(|(name, value)| (format!("{name}:"), value)).collect()
        }
        Value::Array(items) => items.iter().map(|item| ("-".into(), item)).collect(),
        _ => Vec::new(),
    };
    for (start, value) in lines {
        let line = format!("{:indent$}{start} {}\n", "", flow(value));
        if line.len() <= WIDTH || !(value.is_object() || value.is_array()) {
            text.push_str(&line);
        } else {
            text.push_str(&format!("{:indent$}{start}\n", ""));
            block(value, indent + 2, text);
        }
    }
}

fn flow(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: Vec<String> =
                members.iter().map(|(name, value)| format!("{name}: {}", flow(value))).collect();
            format!("{{ {} }}", members.join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Every operation, parameter and response has a description; every body and parameter has an
/// example that its schema allows; every component is used.
pub(super) fn is_whole() -> Outcome {
    let document = Document::read(&read(FILE)?)?;
    let mut names = BTreeSet::new();
    for operation in document.operations() {
        let told = format!("{} {}", operation.method, operation.path);
        let name = operation.node["operationId"]
            .as_str()
            .with_context(|| format!("{told} has no name"))?;
        ensure!(names.insert(name), "two operations are {name}");
        for field in ["summary", "description"] {
            ensure!(operation.node[field].is_string(), "{told} has no {field}");
        }
        for parameter in operation.node["parameters"].as_array().into_iter().flatten() {
            has_examples(
                &document,
                document.resolve(parameter)?,
                &format!("a parameter of {told}"),
            )?;
        }
        for (status, response) in members(&operation.node["responses"]) {
            response_is_whole(
                &document,
                document.resolve(response)?,
                &format!("{told}: {status}"),
            )?;
        }
    }
    for (name, response) in members(&document.root()["components"]["responses"]) {
        response_is_whole(&document, response, name)?;
    }
    let whole = document.root().to_string();
    for (kind, components) in members(&document.root()["components"]) {
        for (name, _) in members(components) {
            let used = whole.contains(&format!("\"#/components/{kind}/{name}\""))
                || UNASKED.contains(&name.as_str());
            ensure!(used || kind == "securitySchemes", "nothing uses {kind}/{name}");
        }
    }
    Ok(())
}

/// Responses to requests that the file does not describe, so no operation refers to them.
const UNASKED: [&str; 2] = ["NotFound", "WrongMethod"];

fn response_is_whole(document: &Document, response: &Value, told: &str) -> Outcome {
    ensure!(response["description"].is_string(), "{told} has no description");
    for (name, header) in members(&response["headers"]) {
        has_examples(document, document.resolve(header)?, &format!("{told}: {name}"))?;
    }
    for (kind, content) in members(&response["content"]) {
        examples_fit(document, content, &format!("{told}: {kind}"))?;
    }
    Ok(())
}

fn has_examples(document: &Document, described: &Value, told: &str) -> Outcome {
    ensure!(described["description"].is_string(), "{told} has no description");
    examples_fit(document, described, told)
}

fn examples_fit(document: &Document, described: &Value, told: &str) -> Outcome {
    let several = members(&described["examples"]).map(|(_, example)| &example["value"]);
    let examples: Vec<&Value> = described.get("example").into_iter().chain(several).collect();
    ensure!(!examples.is_empty(), "{told} has no example");
    for example in examples {
        document
            .check(&described["schema"], example)
            .with_context(|| format!("the example of {told}"))?;
    }
    Ok(())
}
