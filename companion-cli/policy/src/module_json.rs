//! The module's configuration as JSON: the policy's own values, without defaults.

use std::fmt::Write as _;

use laststream_filter::config::wire::Scope;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Policy;
use super::check::end::kinds;
use super::file::{App, Begin, Direction, End, EndKind, Notify, Placement, RetryAfter};
use laststream_base::time_span::TimeSpan;

/// The cluster of the admin interface in a rendered bootstrap.
pub const ADMIN_CLUSTER: &str = "admin";

/// The stat prefix of the connection manager that terminates the HBONE tunnels of a waypoint.
pub const TUNNELS: &str = "connect_terminate";
/// Stat prefixes of connection managers whose requests do not hold the drain: those of the gate and
/// of its queries to Envoy, and Envoy Gateway's for kubelet's probes and for scrapes of the
/// metrics.
const ENVOY_GATEWAYS_OWN: [&str; 4] = ["admin", "laststream", "eg-ready-http", "eg-stats-http"];

/// The filter state key of the gate's secret.
pub const SECRET_KEY: &str = "laststream.gate_secret";

/// The filter state key from which the module takes the text that a listing shows of a request.
pub const REQUEST_KEY: &str = "laststream.request";

/// The scopes that are counted, and whether `x-forwarded-proto` is restored there.
pub fn scopes(policy: &Policy) -> Vec<(Scope, bool)> {
    match &policy.placement {
        Placement::Sidecar(sidecar) => sidecar
            .directions
            .iter()
            .map(|direction| (scope(*direction), *direction == Direction::Inbound))
            .collect(),
        Placement::Waypoint(_) => vec![(Scope::Inbound, true)],
        Placement::Gateway(_)
        | Placement::GatewayApi(_)
        | Placement::EnvoyGateway(_)
        | Placement::Envoy(_) => vec![(Scope::Gateway, true)],
    }
}

fn scope(direction: Direction) -> Scope {
    match direction {
        Direction::Inbound => Scope::Inbound,
        Direction::Outbound => Scope::Outbound,
    }
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
    let (sizing, file) = (&policy.sizing, &policy.file);
    let scopes: Vec<Scope> = scopes(policy).into_iter().map(|(scope, _)| scope).collect();
    let gate = written([
        ("scopes", Some(json!(scopes))),
        ("quiet_ms", Some(millis(sizing.quiet))),
        ("deadline_ms", Some(millis(sizing.deadline))),
        ("evaluate_every_ms", file.gate.evaluate_every.map(millis)),
        ("long_lived", unless_usual(policy.long_lived)),
        ("long_lived_after_ms", file.drain.long_lived_after.map(millis)),
        ("end", file.end.as_ref().and_then(end)),
        ("begin", begin(policy)),
        ("finish", unless_usual(policy.finish)),
        ("admin", admin(&policy.placement)),
        ("secret_key", file.gate.secret.is_some().then(|| SECRET_KEY.into())),
        ("hosts", unless_usual(file.gate.hosts.as_slice())),
        ("app", file.drain.wait_for_app.as_ref().map(app)),
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

fn admin(placement: &Placement) -> Option<Value> {
    match placement {
        Placement::Envoy(_) => Some(json!({ "cluster": ADMIN_CLUSTER })),
        Placement::Waypoint(_) => Some(json!({ "tunnels": [TUNNELS] })),
        Placement::EnvoyGateway(_) => Some(json!({ "ignore": ENVOY_GATEWAYS_OWN })),
        _ => None,
    }
}

fn app(app: &App) -> Value {
    json!({ "cluster": app.cluster, "path": app.path.as_deref().unwrap_or("/") })
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

fn begin(policy: &Policy) -> Option<Value> {
    let json = written([
        ("call", unless_usual(policy.begin)),
        ("inbound_only", drains_inbound_only(policy).then_some(true.into())),
        ("delay_ms", unless_usual(policy.sizing.delay.millis())),
    ]);
    (!json.is_empty()).then(|| json.into())
}

/// Whether only inbound listeners drain. At a sidecar the app's own calls must go on. A gateway's
/// listeners are outbound, so the option would have no effect there.
pub fn drains_inbound_only(policy: &Policy) -> bool {
    matches!(policy.placement, Placement::Sidecar(_)) && policy.begin == Begin::DrainListeners
}

/// The longest line before an object is written over several.
const WIDTH: usize = 90;

/// JSON for readers: a value that fits on a line is written on one. All characters are printable,
/// so that any block of YAML can hold it.
pub fn text(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, 0);
    out
}

fn write(out: &mut String, value: &Value, indent: usize) {
    let line = on_a_line(value);
    if indent + line.chars().count() <= WIDTH {
        out.push_str(&line);
        return;
    }
    let (open, close, items): (char, char, Vec<(Option<&String>, &Value)>) = match value {
        Value::Array(items) => ('[', ']', items.iter().map(|item| (None, item)).collect()),
        Value::Object(members) => {
            ('{', '}', members.iter().map(|(name, value)| (Some(name), value)).collect())
        }
        _ => return out.push_str(&line),
    };
    out.push(open);
    for (index, (name, value)) in items.into_iter().enumerate() {
        out.push_str(if index > 0 { ",\n" } else { "\n" });
        out.extend(std::iter::repeat_n(' ', indent + 2));
        if let Some(name) = name {
            quoted(out, name);
            out.push_str(": ");
        }
        write(out, value, indent + 2);
    }
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', indent));
    out.push(close);
}

fn on_a_line(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(on_a_line).collect();
            let _ = write!(out, "[{}]", items.join(", "));
        }
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                let mut member = String::new();
                quoted(&mut member, name);
                member + ": " + &on_a_line(value)
            };
            let members: Vec<String> = members.iter().map(member).collect();
            let _ = write!(out, "{{{}}}", members.join(", "));
        }
        Value::String(text) => quoted(&mut out, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
    out
}

fn quoted(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                out.push('\\');
                out.push(character);
            }
            ' '..='~' => out.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
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
        let written = text(&long);
        assert!(
            written.lines().count() > 3 && written.lines().all(|line| line.len() < 100),
            "{written}"
        );
        assert_eq!(serde_json::from_str::<Value>(&written).expect("JSON"), long);
    }
}
