//! Checks the module's configuration with the module's own parser.

use laststream_base::time_span::TimeSpan;
use laststream_filter::config::{self, Problem, wire};
use laststream_filter::forwarded::{FORWARDED_PROTO, Policy as ForwardedPolicy};
use serde_json::{Value, json};

use super::Checker;
use crate::file::{Direction, Placement};
use crate::{ForwardedProto, PeerInfo, Policy, module_json};

/// The rendered patches do not reach listeners with TLS, whose filter chains have another path.
const IDENTITIES_AT_ENVOY_GATEWAY: &str = "do not work in Envoy Gateway: a certificate needs TLS, \
    the rendered patches are for listeners without, and without them any client may write the \
    header in which the original one is saved. Name address ranges in `peers`";

impl Checker {
    pub(super) fn forwarded_proto(
        &mut self,
        json: Option<Value>,
        placement: &Placement,
    ) -> Option<ForwardedProto> {
        let json = json?;
        self.forwarded_proto_place(placement);
        let text = json!({ "forwarded_proto": &json }).to_string();
        let wire = config::read_wire(text.as_bytes())
            .ok()
            .and_then(|wire| wire.forwarded_proto)
            .unwrap_or_default();
        let checked = config::parse(text.as_bytes()).ok();
        let checked = checked.as_ref().and_then(config::Config::forwarded_proto);
        let forgets = ![wire.fallback, wire.silent].contains(&wire::Fallback::Keep);
        let (json, original) =
            saved_original(json, wire.original_header.to_ascii_lowercase(), forgets);
        let saved_in = checked.is_some_and(ForwardedPolicy::looks_at_original).then_some(original);
        let told_headers = || {
            [
                FORWARDED_PROTO.into(),
                saved_in.clone().unwrap_or_default(),
                "x-forwarded-port".into(),
            ]
        };
        let headers =
            checked.is_some_and(ForwardedPolicy::looks_only_at_peer_info).then(told_headers);
        let addresses = checked.is_some_and(|policy| policy.reads_destination);
        if addresses && matches!(placement, Placement::Sidecar(_)) {
            self.problem("forwarded_proto.presets", NLB_AT_SIDECAR);
        }
        let peer_info = (!wire.trust.peers.is_empty()).then_some(PeerInfo {
            key: wire.trust.peer_key,
            addresses,
            headers,
        });
        let destination_ports = addresses.then_some(wire.ports);
        if matches!(placement, Placement::EnvoyGateway(_)) && !wire.trust.identities.is_empty() {
            self.problem("forwarded_proto.trust.identities", IDENTITIES_AT_ENVOY_GATEWAY);
        }
        let peers = wire.trust.peers;
        Some(ForwardedProto { json, saved_in, forgets, peer_info, peers, destination_ports })
    }

    fn forwarded_proto_place(&mut self, placement: &Placement) {
        if matches!(placement, Placement::Waypoint(_)) {
            self.problem(
                "forwarded_proto",
                "does not work at a waypoint, because the load balancer never connects to it: \
                restore the header at the gateway",
            );
        }
        let is_outbound_only = matches!(placement, Placement::Sidecar(sidecar)
            if !sidecar.directions.contains(&Direction::Inbound));
        if is_outbound_only {
            self.problem(
                "forwarded_proto",
                "is about requests to the app, which \
                `placement.sidecar.directions` leaves out: add `inbound`",
            );
        }
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
        for (scope, with_proto) in module_json::scopes(policy) {
            let stream = module_json::stream(policy, scope, with_proto).to_string();
            match config::parse(stream.as_bytes()) {
                Ok(config) => policy.warnings.extend(config.warnings()),
                Err(refused) => {
                    for problem in refused.0 {
                        self.problem(&problem.path, problem.message);
                    }
                    break; // the other directions have the same problems
                }
            }
        }
        if policy.gate_port.is_some()
            && let Err(refused) = config::parse(module_json::gate(policy).to_string().as_bytes())
        {
            for problem in refused.0 {
                self.problem(&of_drain(&problem.path), of_policy(&problem));
            }
        }
    }
}

/// Redirection by iptables also replaces the local address.
const NLB_AT_SIDECAR: &str = "`nlb` does not work at a sidecar: its connections are redirected, \
    so the app's own port would pass for the load balancer's. Restore the header at the gateway";

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
const RENAMED: [(&str, &str); 12] = [
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
    let renamed = RENAMED
        .iter()
        .find_map(|(theirs, ours)| path.strip_prefix(theirs).map(|rest| format!("{ours}{rest}")));
    renamed.unwrap_or_else(|| path.to_owned())
}

/// The message with the policy's names and units: the module counts milliseconds.
fn of_policy(problem: &Problem) -> String {
    let renamed = RENAMED.iter().fold(problem.message.clone(), |message, (theirs, ours)| {
        message.replace(&format!("`{theirs}`"), &format!("`{ours}`"))
    });
    if !problem.path.ends_with("_ms") {
        return renamed;
    }
    let words = renamed.replace(" ms", "");
    let word = |word: &str| {
        let number = word.trim_end_matches([',', ':', '.', ';']);
        let time = number.parse().ok().map(TimeSpan::of_millis);
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
