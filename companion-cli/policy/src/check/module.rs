//! Checks the module's configuration with the module's own parser.

use laststream_base::time_span::TimeSpan;
use laststream_filter::config::{self, Problem, wire};
use laststream_filter::forwarded::{FORWARDED_PROTO, SchemePolicy};
use serde_json::{Value, json};

use crate::checker::Checker;
use crate::module_json;
use crate::placement::Facts;
use crate::policy::{ForwardedProto, PeerInfo, Policy};

impl Checker {
    pub(super) fn forwarded_proto(
        &mut self,
        json: Option<Value>,
        facts: &Facts<'_>,
    ) -> Option<ForwardedProto> {
        let json = json?;
        if let Some(why) = facts.no_forwarded_proto {
            self.problem("forwarded_proto", why);
        }
        let text = json!({ "forwarded_proto": &json }).to_string();
        let wire = config::read_wire(text.as_bytes())
            .ok()
            .and_then(|wire| wire.forwarded_proto)
            .unwrap_or_default();
        let config = config::parse(text.as_bytes()).ok();
        let rules = config.as_ref().and_then(config::Config::forwarded_proto);
        let forgets = ![wire.fallback, wire.silent].contains(&wire::Fallback::Keep);
        let (json, original) =
            saved_original(json, wire.original_header.to_ascii_lowercase(), forgets);
        let saved_in = rules.is_some_and(SchemePolicy::looks_at_original).then_some(original);
        let headers = rules.is_some_and(SchemePolicy::looks_only_at_peer_info).then(|| {
            let saved_in = saved_in.clone().unwrap_or_default();
            [FORWARDED_PROTO.into(), saved_in, "x-forwarded-port".into()]
        });
        let addresses = rules.is_some_and(|rules| rules.reads_destination);
        if let Some(why) = facts.no_nlb.filter(|_| addresses) {
            self.problem("forwarded_proto.presets", why);
        }
        if let Some(why) = facts.no_identities.filter(|_| !wire.trust.identities.is_empty()) {
            self.problem("forwarded_proto.trust.identities", why);
        }
        let peers = wire.trust.peers;
        let peer_info = PeerInfo { key: wire.trust.peer_key, addresses, headers };
        Some(ForwardedProto {
            json,
            saved_in,
            forgets,
            peer_info: (!peers.is_empty()).then_some(peer_info),
            peers,
            destination_ports: addresses.then_some(wire.ports),
        })
    }

    /// Checks the rendered configuration with the module's own parser.
    pub(super) fn module(&mut self, policy: &mut Policy) {
        for (field, value) in [
            ("count", policy.count.as_ref()),
            ("forwarded_proto", policy.forwarded_proto.as_ref().map(|proto| &proto.json)),
        ] {
            if let Some(fraction) = value.and_then(fraction) {
                self.problem(field, format!("{fraction} is no whole number"));
                return;
            }
        }
        for (scope, with_proto) in policy.placement.facts().scopes {
            let stream = module_json::stream(policy, scope, with_proto).to_string();
            match config::parse(stream.as_bytes()) {
                Ok(config) => policy.warnings.extend(config.warnings()),
                Err(refused) => {
                    let problems = refused.0.into_iter();
                    self.problems_of_module(problems.map(|of| (of.path, of.message)));
                    break; // the other directions have the same problems
                }
            }
        }
        if policy.gate_port.is_some()
            && let Err(refused) = config::parse(module_json::gate(policy).to_string().as_bytes())
        {
            let problems = refused.0.iter();
            self.problems_of_module(problems.map(|of| (of_drain(&of.path), of_policy(of))));
        }
    }

    /// Adds what the module's parser refuses. A field that is refused already needs no second
    /// reason, and without a part that is refused `forwarded_proto` is another one.
    fn problems_of_module(&mut self, problems: impl Iterator<Item = (String, String)>) {
        let refused: Vec<String> = self.0.iter().map(|problem| problem.path.clone()).collect();
        let is_known = |path: &str| {
            refused.iter().any(|at| at == path || [at, path].iter().all(|at| at.starts_with(PROTO)))
        };
        let problems: Vec<_> = problems.filter(|(path, _)| !is_known(path)).collect();
        // A preset that is not known leaves no header, too.
        let has_unknown = problems.iter().any(|(path, _)| path.starts_with(PRESETS));
        for (path, message) in problems {
            if !(has_unknown && path == SOURCES) {
                self.problem(&path, with_example(&path, message));
            }
        }
    }
}

/// Names the fields of an object that is missing in a list.
fn with_example(path: &str, message: String) -> String {
    const EXAMPLES: [(&str, &str); 3] = [
        (".paths[", "{exact: /healthz}"),
        (".headers[", "{name: x-probe, exact: \"on\"}"),
        (".identities[", "{exact: \"spiffe://…\"}"),
    ];
    let example = EXAMPLES.iter().find(|(list, _)| path.contains(list));
    match example.filter(|_| path.ends_with(']') && message.ends_with("an object")) {
        Some((_, example)) => format!("{message}, such as `{example}`"),
        None => message,
    }
}

const PROTO: &str = "forwarded_proto";
const PRESETS: &str = "forwarded_proto.presets[";
const SOURCES: &str = "forwarded_proto.sources";

/// The rendered configuration always saves the peer's own `x-forwarded-proto` in another header. If
/// the module read the header in place, the peer's value would remain when the module fails, and a
/// missing header would look like the connection's scheme. Together with `keep` the configuration
/// stays as it is written, because the module's parser rejects it.
fn saved_original(mut json: Value, original: String, forgets: bool) -> (Value, String) {
    if original != FORWARDED_PROTO || !forgets {
        return (json, original);
    }
    if let Some(members) = json.as_object_mut() {
        members.remove("original_header");
    }
    (json, wire::ORIGINAL_HEADER.into())
}

/// Fields of the gate's configuration, and their names in the policy.
const RENAMED: [(&str, &str); 13] = [
    ("gate.notify.timeout_ms", "gate.notify.timeout"),
    ("gate.end.over_ms", "end.over"),
    ("gate.end.before_deadline_ms", "end.before_deadline"),
    ("gate.end.at_age_ms", "end.at_age"),
    ("gate.end.websocket_grace_ms", "end.websocket_grace"),
    ("gate.end.retry_after_s", "end.retry_after"),
    ("gate.end", "end"),
    ("gate.quiet_ms", "drain.quiet"),
    ("gate.deadline_ms", "drain.deadline"),
    ("gate.long_lived_after_ms", "drain.long_lived_after"),
    ("gate.app", "drain.wait_for_app"),
    ("gate.begin.delay_ms", "drain.delay"),
    ("gate.begin", "drain.begin"),
];

/// The path of a problem of the gate, with the field's name in the policy.
fn of_drain(path: &str) -> String {
    let path_of_policy = |(theirs, ours): &(&str, &str)| {
        path.strip_prefix(theirs).map(|rest| format!("{ours}{rest}"))
    };
    RENAMED.iter().find_map(path_of_policy).unwrap_or_else(|| path.to_owned())
}

/// The message with the policy's names and units: the module counts milliseconds.
fn of_policy(problem: &Problem) -> String {
    let message = RENAMED.iter().fold(problem.message.clone(), |message, (theirs, ours)| {
        message.replace(&format!("`{theirs}`"), &format!("`{ours}`"))
    });
    let time_of = match problem.path.as_str() {
        path if path.ends_with("_ms") => TimeSpan::of_millis,
        path if path.ends_with("_s") => TimeSpan::seconds,
        _ => return message,
    };
    let words = message.replace(" ms", "");
    let word = |word: &str| {
        let number = word.trim_end_matches([',', ':', '.', ';']);
        let time = number.parse().ok().map(time_of);
        time.map_or(word.to_owned(), |time| word.replacen(number, &time.to_string(), 1))
    };
    words.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// The first number that is not an `i64`, which the module's parser does not accept.
fn fraction(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) if number.as_i64().is_none() => Some(number.to_string()),
        Value::Array(items) => items.iter().find_map(fraction),
        Value::Object(members) => members.values().find_map(fraction),
        _ => None,
    }
}
