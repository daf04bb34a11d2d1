//! Configurations that follow the JSON schema, made of arbitrary bytes: their shape is valid, their
//! values need not be.

use std::sync::LazyLock;

use arbitrary::{Result, Unstructured};
use laststream_filter::config::schema::schema;
use serde_json::Value;

/// The schema, made once, because that takes longer than an input.
pub static SCHEMA: LazyLock<Value> = LazyLock::new(schema);

/// Makes a configuration.
///
/// # Errors
/// Never in practice: bytes that are missing count as zeros.
pub fn configuration(bytes: &mut Unstructured<'_>) -> Result<Value> {
    value("", &SCHEMA, bytes)
}

fn value(name: &str, schema: &Value, bytes: &mut Unstructured<'_>) -> Result<Value> {
    if let Some(words) = schema["oneOf"].as_array() {
        return Ok(bytes.choose(words)?["const"].clone());
    }
    Ok(match schema["type"].as_str() {
        Some("object") => object(schema, bytes)?,
        Some("array") => {
            let length = bytes.int_in_range(0..=4)?;
            (0..length)
                .map(|_| value(name, &schema["items"], bytes))
                .collect::<Result<Vec<_>>>()?
                .into()
        }
        Some("boolean") => bytes.arbitrary::<bool>()?.into(),
        Some("integer") => {
            let bound = |name: &str, where_none: u64| schema[name].as_u64().unwrap_or(where_none);
            bytes.int_in_range(bound("minimum", 0)..=bound("maximum", i64::MAX as u64))?.into()
        }
        Some("string") => text(name, bytes)?.into(),
        other => unreachable!("the schema has an unknown type: {other:?}"),
    })
}

fn object(schema: &Value, bytes: &mut Unstructured<'_>) -> Result<Value> {
    let required = |name: &String| {
        schema["required"].as_array().is_some_and(|names| names.iter().any(|other| other == name))
    };
    let mut members = serde_json::Map::new();
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        if required(name) || bytes.arbitrary()? {
            members.insert(name.clone(), value(name, schema, bytes)?);
        }
    }
    Ok(members.into())
}

/// Mostly plausible values for a field of this name, so that most configurations are valid.
fn text(name: &str, bytes: &mut Unstructured<'_>) -> Result<String> {
    let usual: &[&str] = match name {
        "peers" => &[
            "10.0.0.0/8",
            "192.0.2.7",
            "0.0.0.0/0",
            "::/0",
            "2001:db8::/32",
            "::ffff:10.1.0.0/112",
            "10.0.0.1/8",
        ],
        "header" | "name" | "original_header" => &[
            "x-forwarded-proto",
            "X-Forwarded-Port",
            "forwarded",
            "cf-visitor",
            "fastly-ssl",
            "x-a",
            "x-laststream-forwarded-proto",
        ],
        "ignore" => &["admin"],
        "peer_key" => &["laststream.direct_peer", "a"],
        _ => &["/", "/a", "spiffe://a/", "1", "?"],
    };
    if bytes.ratio(1, 8)? { bytes.arbitrary() } else { Ok((*bytes.choose(usual)?).into()) }
}
