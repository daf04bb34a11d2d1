//! From what was written to what is meant. Every problem is found before any is reported.

use super::Config;
use super::error::{Problem, Refused};
use super::object::Wire as _;
use super::wire::{
    BeginCall, Configuration, Count, Fallback, ForwardedProto, Gate, HeaderMatch, Role, Source as WireSource, TextMatch, Trust as WireTrust,
};
use crate::forwarded::{FORWARDED_PROTO, Peers, Policy as ForwardedPolicy, Ports, Range, Source, Trust, form_of, sources_of};
use crate::gate::policy::Policy;
use crate::pieces::text;
use crate::rules::Rule;
use crate::text::Text;

pub(super) fn check(mut wire: Configuration) -> Result<Config, Refused> {
    let mut found = Found(Vec::new());
    let gate = found.gate(&mut wire);
    let (exclude, long_lived) = found.count(wire.count.unwrap_or_else(Count::unwritten));
    let forwarded_proto = wire.forwarded_proto.map(|wire| found.forwarded_proto(wire));
    if found.0.is_empty() {
        Ok(Config { scope: wire.scope, exclude, long_lived, forwarded_proto, gate, fingerprint: 0 })
    } else {
        Err(Refused(found.0))
    }
}

/// The problems found so far. What is wrong is left out of the result, which is then not used.
struct Found(Vec<Problem>);

impl Found {
    fn problem(&mut self, path: &str, message: impl Into<String>) {
        self.0.push(Problem::new(path, message));
    }

    /// One role for each instance: what belongs to the other one would silently do nothing.
    fn gate(&mut self, wire: &mut Configuration) -> Option<Policy> {
        if wire.role == Role::Stream {
            if wire.gate.is_some() {
                self.problem("gate", "belongs to an instance with `\"role\": \"gate\"`");
            }
            return None;
        }
        if wire.forwarded_proto.is_some() {
            self.problem("forwarded_proto", "belongs to an instance with `\"role\": \"stream\"`");
        }
        if wire.count.is_some() {
            self.problem("count", "belongs to an instance with `\"role\": \"stream\"`");
        }
        let gate = wire.gate.take().unwrap_or_else(Gate::unwritten);
        self.check_gate(&gate);
        Some(Policy::new(gate))
    }

    fn check_gate(&mut self, gate: &Gate) {
        if gate.scopes.is_empty() {
            self.problem("gate.scopes", "names no scope: the gate would be open at once");
        }
        if gate.quiet_ms < 200 {
            self.problem("gate.quiet_ms", text![gate.quiet_ms, " is less than two looks: take 200 or more"]);
        }
        if gate.deadline_ms <= gate.quiet_ms.saturating_add(gate.begin.delay_ms) {
            let message =
                text![gate.deadline_ms, " is over before ", gate.begin.delay_ms, " of delay and ", gate.quiet_ms, " of quiet are"];
            self.problem("gate.deadline_ms", message);
        }
        if gate.begin.inbound_only && gate.begin.call == BeginCall::FailHealthChecks {
            self.problem("gate.begin.inbound_only", "`fail_health_checks` knows no directions");
        }
        if !(50..=60_000).contains(&gate.admin.timeout_ms) {
            self.problem("gate.admin.timeout_ms", text![gate.admin.timeout_ms, " is not a time from 50 to 60000"]);
        }
        if gate.secret.as_ref().is_some_and(|secret| secret.len() < 16) {
            self.problem("gate.secret", "is shorter than 16 characters");
        }
        if gate.app.as_ref().is_some_and(|app| !app.path.starts_with('/')) {
            self.problem("gate.app.path", "does not begin with `/`");
        }
    }

    fn count(&mut self, wire: Count) -> (Vec<Rule>, Vec<Rule>) {
        let mut exclude = self.paths("count.exclude.paths", wire.exclude.paths);
        exclude.extend(self.headers("count.exclude.headers", wire.exclude.headers));
        exclude.extend(wire.exclude.health_checks.then_some(Rule::HealthCheck));
        let long = wire.long_lived;
        let mut long_lived = self.paths("count.long_lived.paths", long.paths);
        long_lived.extend(self.headers("count.long_lived.headers", long.headers));
        long_lived.extend(long.upgrades.then_some(Rule::Upgrade));
        long_lived.extend(long.grpc.then_some(Rule::Grpc));
        long_lived.extend(long.event_streams.then_some(Rule::EventStream));
        long_lived.extend(self.texts("count.long_lived.routes", long.routes, |_| None).into_iter().map(Rule::Route));
        (exclude, long_lived)
    }

    fn paths(&mut self, path: &str, wire: Vec<TextMatch>) -> Vec<Rule> {
        self.texts(path, wire, wrong_path).into_iter().map(Rule::Path).collect()
    }

    fn headers(&mut self, path: &str, wire: Vec<HeaderMatch>) -> Vec<Rule> {
        wire.into_iter()
            .enumerate()
            .map(|(index, header)| {
                let path = item(path, index);
                let name = self.header_name(&path, "name", &header.name);
                let text = match (header.exact, header.prefix) {
                    (None, None) => None,
                    (Some(text), None) => Some(Text::Exact(text)),
                    (None, Some(text)) => Some(Text::Prefix(text)),
                    (Some(_), Some(_)) => {
                        self.problem(&path, "has both `exact` and `prefix`: keep one");
                        None
                    }
                };
                Rule::Header(name, text)
            })
            .collect()
    }

    /// `wrong` says what else is wrong with a text of this kind.
    fn texts(&mut self, path: &str, wire: Vec<TextMatch>, wrong: fn(&Text) -> Option<String>) -> Vec<Text> {
        let mut texts = Vec::with_capacity(wire.len());
        for (index, wire) in wire.into_iter().enumerate() {
            let text = match (wire.exact, wire.prefix) {
                (Some(_), Some(_)) => Err("has both `exact` and `prefix`: keep one".into()),
                (None, None) => Err("has neither `exact` nor `prefix`: add one".into()),
                (Some(text), None) | (None, Some(text)) if text.is_empty() => {
                    Err("is an empty text: take it out, or write what is to match".into())
                }
                (Some(text), None) => Ok(Text::Exact(text)),
                (None, Some(text)) => Ok(Text::Prefix(text)),
            };
            match text.and_then(|text| wrong(&text).map_or(Ok(text), Err)) {
                Ok(text) => texts.push(text),
                Err(message) => self.problem(&item(path, index), message),
            }
        }
        texts
    }

    /// Envoy keeps names in lower case; a name that no request can have is a slip.
    fn header_name(&mut self, path: &str, field: &str, name: &str) -> String {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            self.problem(&text![path, ".", field], text!["`", name, "` is not the name of a header"]);
        }
        name.to_ascii_lowercase()
    }

    fn forwarded_proto(&mut self, wire: ForwardedProto) -> ForwardedPolicy {
        const HERE: &str = "forwarded_proto";
        let original = self.header_name(HERE, "original_header", &wire.original_header);
        let mut sources: Vec<Source> = wire.presets.into_iter().flat_map(sources_of).collect();
        for (index, source) in wire.sources.into_iter().enumerate() {
            let source = self.source(&item("forwarded_proto.sources", index), source);
            sources.push(source);
        }
        if sources.is_empty() {
            self.problem("forwarded_proto.sources", "names no header: add one, or name your load balancer in `presets`");
        }
        for source in &mut sources {
            if source.header == FORWARDED_PROTO {
                source.header.clone_from(&original);
            }
        }
        let mut kept: Vec<Source> = Vec::with_capacity(sources.len());
        for source in sources {
            match kept.iter().find(|other| other.header == source.header) {
                None => kept.push(source),
                Some(other) if *other == source => {} // two presets may share a header
                Some(_) => self.problem("forwarded_proto.sources", text!["`", source.header, "` is there twice, read in two ways"]),
            }
        }
        if wire.fallback == Fallback::Keep && original == FORWARDED_PROTO {
            let message =
                "`keep` keeps what any client claims where the peer's own `x-forwarded-proto` is the original header: take `connection`";
            self.problem("forwarded_proto.fallback", message);
        }
        let ports = wire.ports;
        if let Some(port) = ports.https.iter().find(|port| ports.http.contains(port)) {
            self.problem("forwarded_proto.ports", text![*port, " stands for both https and http"]);
        }
        if wire.write_port && (ports.https.is_empty() || ports.http.is_empty()) {
            self.problem("forwarded_proto.ports", "`write_port` needs at least one port for https and one for http");
        }
        ForwardedPolicy {
            trust: self.trust(wire.trust),
            sources: kept,
            decision: wire.decision,
            ports: Ports::new(ports.https, ports.http),
            fallback: wire.fallback,
            strip: wire.strip,
            write_scheme: wire.write_scheme,
            write_port: wire.write_port,
        }
    }

    fn source(&mut self, path: &str, wire: WireSource) -> Source {
        let header = self.header_name(path, "header", &wire.header);
        let form = wire.form.or_else(|| form_of(&header)).unwrap_or(super::wire::Form::Scheme);
        Source { header, form, element: wire.element }
    }

    fn trust(&mut self, wire: WireTrust) -> Trust {
        const HERE: &str = "forwarded_proto.trust";
        if wire.peers.is_empty() && wire.identities.is_empty() {
            self.problem(HERE, "trusts nobody: add the address range of the load balancer to `peers`, or its identity to `identities`");
        }
        if wire.peer_key.is_empty() || wire.peer_key.contains('\0') {
            self.problem("forwarded_proto.trust.peer_key", "is not a filter state key: leave it out for the usual one");
        }
        let mut ranges: Vec<Range> = Vec::with_capacity(wire.peers.len());
        for (index, text) in wire.peers.iter().enumerate() {
            match text.parse() {
                Ok(range) => ranges.push(range),
                Err(error) => self.problem(&item("forwarded_proto.trust.peers", index), text!["`", text, "` ", error.to_text()]),
            }
        }
        let identities = self.texts("forwarded_proto.trust.identities", wire.identities, wrong_identity);
        Trust::new(ranges.into_iter().collect::<Peers>(), identities, wire.peer_key)
    }
}

fn wrong_path(text: &Text) -> Option<String> {
    let (Text::Exact(path) | Text::Prefix(path)) = text;
    if !path.starts_with('/') {
        Some(text!["`", path, "` never matches: a path begins with `/`"])
    } else if path.contains(['?', '#']) {
        Some(text!["`", path, "` never matches: the query string is cut off before the path is compared"])
    } else {
        None
    }
}

fn wrong_identity(identity: &Text) -> Option<String> {
    match identity {
        Text::Prefix(prefix) if !prefix.ends_with('/') => {
            Some(text!["`", prefix, "` also begins identities that are not meant: end it with `/`, or use `exact`"])
        }
        _ => None,
    }
}

fn item(path: &str, index: usize) -> String {
    text![path, "[", index, "]"]
}
