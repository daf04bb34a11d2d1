//! The README's tables, from the types they are about.

use laststream_filter::config::schema;
use laststream_filter::config::wire::Scope;
use laststream_filter::forwarded::Verdict;
use laststream_filter::gate::machine::Trust;
use laststream_filter::host::Kind;
use laststream_filter::metrics;
use serde_json::Value;
use strum::VariantArray as _;

pub(crate) fn tables() -> Vec<(&'static str, String)> {
    vec![("configuration", configuration()), ("metrics", all_metrics()), ("gate metrics", gate_metrics())]
}

fn configuration() -> String {
    let mut rows = String::from("| field | type | default | meaning |\n|---|---|---|---|\n");
    fields("", &schema::schema(), &mut rows);
    rows
}

/// A row for each field, below its object's; items of lists are `list[].field`.
fn fields(path: &str, schema: &Value, rows: &mut String) {
    let empty = serde_json::Map::new();
    for (name, field) in schema["properties"].as_object().unwrap_or(&empty) {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let (kind, inner) = kind(field);
        let required = schema["required"].as_array().is_some_and(|required| required.iter().any(|other| other == name));
        let default = match (&field["default"], required) {
            (_, true) => "required".into(),
            (Value::Null | Value::Object(_), _) => String::new(),
            (value, _) => format!("`{value}`"),
        };
        rows.push_str(&format!("| `{path}` | {kind} | {default} | {} |\n", meaning(field)));
        if let Some((suffix, inner)) = inner {
            fields(&format!("{path}{suffix}"), inner, rows);
        }
    }
}

/// What a reader calls the type, and the object inside it that needs rows of its own.
fn kind(field: &Value) -> (String, Option<(&'static str, &Value)>) {
    if let Some(words) = field["oneOf"].as_array() {
        let words: Vec<String> = words.iter().map(|word| format!("`{}`", word["const"].as_str().unwrap_or_default())).collect();
        return (words.join(", "), None);
    }
    match field["type"].as_str() {
        Some("array") => {
            let items = &field["items"];
            match matcher(items) {
                Some(matcher) => (format!("list of {matcher}"), None),
                None => {
                    let (kind, inner) = kind(items);
                    (format!("list of {kind}"), inner.map(|(_, inner)| ("[]", inner)))
                }
            }
        }
        Some("object") => ("object".into(), Some(("", field))),
        Some("integer") => (number(field), None),
        Some(other) => (other.into(), None),
        None => ("?".into(), None),
    }
}

fn number(field: &Value) -> String {
    let from = format!("number from {}", field["minimum"]);
    if field["maximum"].is_null() { from } else { format!("{from} to {}", field["maximum"]) }
}

/// The two small objects that are everywhere.
fn matcher(schema: &Value) -> Option<&'static str> {
    let properties = schema["properties"].as_object()?;
    let has = |name: &str| properties.contains_key(name);
    match (has("exact") && has("prefix"), has("name")) {
        (true, true) => Some("`{\"name\": …}`, with `exact` or `prefix` if wanted"),
        (true, false) => Some("`{\"exact\": …}` or `{\"prefix\": …}`"),
        _ => None,
    }
}

fn meaning(field: &Value) -> String {
    let mut text = field["description"].as_str().unwrap_or_default().to_owned();
    let words = field["oneOf"].as_array().or_else(|| field["items"]["oneOf"].as_array());
    for word in words.into_iter().flatten() {
        let (name, about) = (word["const"].as_str().unwrap_or_default(), word["description"].as_str().unwrap_or_default());
        text.push_str(&format!("<br>`{name}`: {about}"));
    }
    text.replace('|', "\\|")
}

fn all_metrics() -> String {
    let scope = Scope::Gateway;
    let shown = |name: String| name.replace("gateway", "SCOPE");
    let mut rows = String::from("| metric | type | counts |\n|---|---|---|\n");
    let mut row = |name: String, kind: &str, about: &str| rows.push_str(&format!("| `{}` | {kind} | {about} |\n", shown(name)));
    row(metrics::in_flight(scope), "gauge", "streams in flight, over all workers");
    row(metrics::long_lived(scope), "gauge", "those of them that are long-lived");
    row(metrics::begun(scope), "counter", "streams that were ever counted");
    row(metrics::excluded(scope), "counter", "streams that a rule under `count.exclude` left out");
    for verdict in Verdict::ALL {
        row(metrics::forwarded_proto(verdict, scope), "counter", about(verdict));
    }
    rows
}

fn gate_metrics() -> String {
    let about: [&str; metrics::GATE.len()] = [
        "0 serving, 1 draining, 2 drained, 3 expired, 4 forced",
        "how long the drain has gone on, or took",
        "streams that began after the drain did",
        "signals that were refused because of streams in flight, or because it is not known that there are none",
        "how often a leaked count was put right",
        "drains that the deadline ended",
        "how often the gate was forced open",
        "streams that the gate ended: reserved, it ends none yet and this stays 0",
    ];
    let mut rows = String::from("| metric | type | tells |\n|---|---|---|\n");
    for ((kind, name), about) in metrics::GATE.into_iter().zip(about) {
        let kind = if kind == Kind::Counter { "counter" } else { "gauge" };
        rows.push_str(&format!("| `{name}` | {kind} | {about} |\n"));
    }
    for trust in Trust::VARIANTS {
        rows.push_str(&format!(
            "| `{}` | gauge | 1 while the count is `{}`, else 0; as of the last look |\n",
            metrics::count(*trust),
            trust
        ));
    }
    rows.push_str(&format!(
        "| `{}` | gauge | until when no new stream may begin because a signal passes, in milliseconds of Envoy's monotonic clock; else 0 |\n",
        metrics::CLOSING
    ));
    rows
}

fn about(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Overridden => "trusted peer, `x-forwarded-proto` was something else and was set",
        Verdict::Kept => "trusted peer, `x-forwarded-proto` was already right",
        Verdict::Conflicting => "trusted peer whose headers contradict each other or make no sense",
        Verdict::Silent => "trusted peer that sent none of the headers",
        Verdict::Untrusted => "untrusted peer",
    }
}
