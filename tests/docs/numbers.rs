//! The configuration's schema and its parser accept the same numbers.

use kit::prelude::*;
use laststream_filter::config::{self, schema};

/// Every number is tried at its bounds, beyond them, and as a value that is not a whole number.
pub(super) fn schema_and_module_take_the_same() -> Outcome {
    let schema = schema::schema();
    let validator = jsonschema::draft202012::new(&schema).context("the schema")?;
    let mut numbers = Vec::new();
    collect(&schema, &[], &mut numbers);
    ensure!(numbers.len() >= 7, "few numbers: {numbers:?}");
    for (path, minimum, maximum) in numbers {
        for (text, fits) in [
            (minimum.to_string(), true),
            (maximum.to_string(), true),
            ((minimum - 1).to_string(), false),
            ((maximum + 1).to_string(), false),
            ("-1".into(), false),
            ("1.5".into(), false),
            ("18446744073709551616".into(), false),
            ("\"1000\"".into(), false),
        ] {
            let whole = wrapped(&path, &text);
            let value: Value = serde_json::from_str(&whole).context("a configuration")?;
            ensure_eq!(validator.is_valid(&value), fits, "the schema, of {whole}");
            ensure_eq!(config::read_wire(whole.as_bytes()).is_ok(), fits, "the module, of {whole}");
        }
        // A JSON schema accepts these as integers, too; the module requires digits, and its error
        // says so.
        for text in ["1e3", "1000.0"] {
            let whole = wrapped(&path, text);
            let refused =
                config::read_wire(whole.as_bytes()).err().with_context(|| whole.clone())?;
            ensure!(refused.to_string().contains("digits alone"), "{refused}");
        }
    }
    Ok(())
}

/// A field (`[]` is the item of a list), and the fields that the object around it requires, which
/// are all texts.
type Step = (String, Vec<String>);

/// The path of every number, with its bounds.
fn collect(schema: &Value, path: &[Step], numbers: &mut Vec<(Vec<Step>, i128, i128)>) {
    if schema["type"] == "integer" {
        let bound = |name: &str| schema[name].as_i64().map(i128::from);
        numbers.extend(
            bound("minimum")
                .zip(bound("maximum"))
                .map(|(minimum, maximum)| (path.to_vec(), minimum, maximum)),
        );
    }
    let required: Vec<String> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|name| Some(name.as_str()?.to_owned()))
        .collect();
    let inner = |name: &str| [path, &[(name.to_owned(), required.clone())]].concat();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        collect(field, &inner(name), numbers);
    }
    if schema["items"].is_object() {
        collect(&schema["items"], &inner("[]"), numbers);
    }
}

fn wrapped(path: &[Step], text: &str) -> String {
    path.iter().rev().fold(text.to_owned(), |inside, (name, required)| match name.as_str() {
        "[]" => format!("[{inside}]"),
        name => {
            let others = required.iter().filter(|other| *other != name);
            let others: String = others.map(|other| format!(", {}: \"/\"", json!(other))).collect();
            format!("{{{}: {inside}{others}}}", json!(name))
        }
    })
}
