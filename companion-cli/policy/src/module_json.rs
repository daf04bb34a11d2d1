//! The module's configuration as JSON: the policy's own values, without defaults.

use std::fmt::Write as _;

use laststream_filter::config::wire::{self, Scope};
use laststream_filter::gate::access::SECRET_KEY;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::check::end::kinds;
use crate::file::{Begin, End, EndKind, Notify, RetryAfter, Starts};
use crate::policy::Policy;
use laststream_base::time_span::TimeSpan;

/// The filter state key from which the module takes the text that a listing shows of a request.
pub const REQUEST_KEY: &str = "laststream.request";

/// The cluster by which the gate notices the stop of Istio's agent. Istio's own has connections
/// that go on answering after it.
pub const AGENT_CLUSTER: &str = "laststream_agent";

/// The scopes that are counted, and whether `x-forwarded-proto` is restored there.
pub fn scopes(policy: &Policy) -> Vec<(Scope, bool)> {
    policy.placement.facts().scopes
}

pub fn stream(policy: &Policy, scope: Scope, with_proto: bool) -> Value {
    let proto = policy.forwarded_proto.as_ref().filter(|_| with_proto);
    written([
        ("scope", Some(json!(scope))),
        ("count", policy.count.clone()),
        ("forwarded_proto", proto.map(|proto| proto.json.clone())),
    ])
    .into()
}

pub fn gate(policy: &Policy) -> Value {
    let (sizing, file, facts) = (&policy.sizing, &policy.file, policy.placement.facts());
    let mut admin = facts.admin;
    if policy.starts == Starts::Agent {
        admin.agent_cluster = AGENT_CLUSTER.into();
    }
    let scopes: Vec<Scope> = facts.scopes.into_iter().map(|(scope, _)| scope).collect();
    // At a sidecar the app's own calls must go on. A gateway's listeners are outbound.
    let inbound_only = facts.has_app_calls && policy.begin == Begin::DrainListeners;
    let begin = wire::Begin { call: policy.begin, inbound_only, delay_ms: sizing.delay.millis() };
    let gate = written([
        ("scopes", Some(json!(scopes))),
        ("quiet_ms", Some(millis(sizing.quiet))),
        ("deadline_ms", Some(millis(sizing.deadline))),
        ("evaluate_every_ms", file.gate.evaluate_every.map(millis)),
        ("long_lived", unless_usual(policy.long_lived)),
        ("long_lived_after_ms", file.drain.long_lived_after.map(millis)),
        ("end", file.end.as_ref().and_then(end)),
        ("count", policy.by_envoy.then(|| json!(wire::GateCount::Envoy))),
        ("tcp", (!policy.tcp.is_empty()).then(|| true.into())),
        ("starts", unless_usual(policy.starts)),
        ("begin", unusual_members(&begin)),
        ("finish", unless_usual(policy.finish)),
        ("admin", unusual_members(&admin)),
        ("secret_key", file.gate.secret.is_some().then(|| SECRET_KEY.into())),
        ("hosts", unless_usual(file.gate.hosts.as_slice())),
        ("app", file.drain.wait_for_app.as_ref().map(|app| json!(app))),
        ("notify", file.gate.notify.as_ref().map(notify)),
    ]);
    json!({ "role": "gate", "gate": gate })
}

/// The fields that have a value.
fn written<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    let has_value = |(name, value): (&str, Option<Value>)| Some((name.to_owned(), value?));
    fields.into_iter().filter_map(has_value).collect()
}

fn millis(span: TimeSpan) -> Value {
    span.millis().into()
}

/// `None` for the module's own default.
fn unless_usual<T: Default + PartialEq + Serialize>(value: T) -> Option<Value> {
    (value != T::default()).then(|| json!(value))
}

/// The members that are not the module's own defaults; `None` if all are.
fn unusual_members<T: Default + Serialize>(section: &T) -> Option<Value> {
    let (mut json, usual) = (json!(section), json!(T::default()));
    let members = json.as_object_mut()?;
    members.retain(|name, value| *value != usual[name]);
    (!members.is_empty()).then_some(json)
}

fn notify(Notify { cluster, path, timeout }: &Notify) -> Value {
    let (cluster, path) = (Some(json!(cluster)), Some(json!(path)));
    let timeout = timeout.map(millis);
    written([("cluster", cluster), ("path", path), ("timeout_ms", timeout)]).into()
}

/// `None` if the section has nothing for the gate.
fn end(end: &End) -> Option<Value> {
    let ends = |kind| (kind == Some(EndKind::End)).then(|| "end".into());
    let mut json = written(kinds(end).map(|(name, kind, _)| (name, ends(kind))));
    let range =
        |RetryAfter { from, to }| json!({ "from": from.whole_seconds(), "to": to.whole_seconds() });
    json.extend(written([
        ("over_ms", end.over.map(millis)),
        ("before_deadline_ms", end.before_deadline.map(millis)),
        ("at_age_ms", end.at_age.map(millis)),
        ("websocket_grace_ms", end.websocket_grace.map(millis)),
        ("changing", end.changing.then_some(true.into())),
        ("retry_after_s", end.retry_after.map(range)),
    ]));
    (!json.is_empty()).then(|| json.into())
}

/// The longest line before an object is written over several.
const WIDTH: usize = 90;

/// JSON for readers: a value that fits on a line is written on one. All characters are printable,
/// so that any block of YAML can hold it.
pub fn text(value: &Value) -> String {
    indented(value, 0)
}

fn indented(value: &Value, indent: usize) -> String {
    let line = on_a_line(value);
    let items = items(value);
    if items.is_empty() || indent + line.chars().count() <= WIDTH {
        return line;
    }
    let margin = " ".repeat(indent);
    let item = |(name, value): (String, &Value)| {
        format!("{margin}  {name}{}", indented(value, indent + 2))
    };
    let items: Vec<String> = items.into_iter().map(item).collect();
    between(value, &format!("\n{}\n{margin}", items.join(",\n")))
}

fn on_a_line(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => {
            let item = |(name, value): (String, &Value)| name + &on_a_line(value);
            let items: Vec<String> = items(value).into_iter().map(item).collect();
            between(value, &items.join(", "))
        }
        Value::String(text) => quoted(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// The items of an array or object, those of an object with their names.
fn items(value: &Value) -> Vec<(String, &Value)> {
    match value {
        Value::Array(items) => items.iter().map(|item| (String::new(), item)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (quoted(name) + ": ", value)).collect()
        }
        _ => Vec::new(),
    }
}

fn between(value: &Value, items: &str) -> String {
    if value.is_array() { format!("[{items}]") } else { format!("{{{items}}}") }
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            ' '..='~' => out.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out + "\""
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::text;

    #[test]
    fn short_values_stay_on_one_line_and_all_text_is_printable() {
        assert_eq!(
            text(&json!({ "a": [1, "é\u{85}🦀\"\\"], "b": {} })),
            r#"{"a": [1, "\u00e9\u0085\ud83e\udd80\"\\"], "b": {}}"#
        );
        let long =
            json!({ "first": { "some": "x".repeat(40), "more": "y".repeat(40) }, "second": ["z"] });
        let lines = text(&long);
        assert!(lines.lines().count() > 3 && lines.lines().all(|line| line.len() < 100), "{lines}");
        assert_eq!(serde_json::from_str::<Value>(&lines).expect("JSON"), long);
    }
}
