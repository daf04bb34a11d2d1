//! From what was written to what is meant. Every problem is found before any is reported.

use super::Config;
use super::error::{Problem, Refused};
use super::wire::{
    BeginCall, Configuration, Count, Element, Fallback, Form, ForwardedProto, Gate, HeaderMatch,
    Role, Scope, TextMatch, Trust as WireTrust,
};
use crate::forwarded::{
    FORWARDED_PROTO, Peers, Policy as ForwardedPolicy, Ports, Range, Source, Trust, form_of,
    headers_of, is_token,
};
use crate::gate::access::SHORTEST_SECRET;
use crate::gate::policy::Policy;
use crate::rules::Rule;
use crate::text::Text;

pub(super) fn check(mut wire: Configuration, fingerprint: u32) -> Result<Config, Refused> {
    let mut found = Found(Vec::new());
    let gate = found.gate(&mut wire);
    let (exclude, long_lived) =
        wire.count.as_ref().map_or_else(Default::default, |count| found.count(count));
    let forwarded_proto = wire.forwarded_proto.as_ref().map(|wire| found.forwarded_proto(wire));
    if found.0.is_empty() {
        Ok(Config { scope: wire.scope, exclude, long_lived, forwarded_proto, gate, fingerprint })
    } else {
        Err(Refused(found.0))
    }
}

/// The problems found so far. What is wrong is left out of the result, which is then not used.
struct Found(Vec<Problem>);

impl Found {
    fn problem(&mut self, path: &str, message: &str) {
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
        if wire.scope != Scope::default() {
            self.problem("scope", "is not the gate's: see `gate.scopes`");
        }
        if wire.count.is_some() {
            self.problem("count", "belongs to an instance with `\"role\": \"stream\"`");
        }
        let gate = wire.gate.take().unwrap_or_default();
        self.check_gate(&gate);
        Some(Policy::new(gate))
    }

    fn check_gate(&mut self, gate: &Gate) {
        if gate.scopes.is_empty() {
            self.problem(
                "gate.scopes",
                "names no scope, so the gate would be open at once: name one",
            );
        }
        if gate
            .scopes
            .iter()
            .any(|scope| gate.scopes.iter().filter(|other| *other == scope).count() > 1)
        {
            self.problem("gate.scopes", "names one twice: once will do");
        }
        self.check_times(gate);
        let begin = &gate.begin;
        if begin.inbound_only && begin.call != BeginCall::DrainListeners {
            self.problem("gate.begin.inbound_only", "only `drain_listeners` knows directions");
        }
        if begin.delay_ms > 0 && begin.call == BeginCall::Nothing {
            self.problem("gate.begin.delay_ms", "nothing comes after it: see `gate.begin.call`");
        }
        for (path, cluster) in [
            ("gate.admin.cluster", Some(&gate.admin.cluster)),
            ("gate.admin.agent_cluster", Some(&gate.admin.agent_cluster)),
            ("gate.app.cluster", gate.app.as_ref().map(|app| &app.cluster)),
        ] {
            if cluster.is_some_and(String::is_empty) {
                self.problem(path, "names no cluster");
            }
        }
        self.check_access(gate);
        if gate.app.as_ref().is_some_and(|app| !app.path.starts_with('/') || !is_visible(&app.path))
        {
            self.problem("gate.app.path", "is not `/` and visible ASCII characters");
        }
    }

    fn check_access(&mut self, gate: &Gate) {
        if gate
            .secret
            .as_ref()
            .is_some_and(|secret| secret.len() < SHORTEST_SECRET || !is_visible(secret))
        {
            self.problem(
                "gate.secret",
                "is not 16 visible ASCII characters or more, without blanks",
            );
        }
        if gate.secret_key.as_ref().is_some_and(|key| key.is_empty() || key.contains('\0')) {
            self.problem("gate.secret_key", "is not a filter state key");
        }
        if gate.secret.is_some() && gate.secret_key.is_some() {
            self.problem("gate.secret", "is there beside `secret_key`: keep one");
        }
        for (index, name) in gate.hosts.iter().enumerate() {
            if !is_host_name(name) {
                let message =
                    format!("`{name}` is not a host name: write it without scheme, port and `*`");
                self.problem(&item("gate.hosts", index), &message);
            }
        }
    }

    /// The deadline must leave time for what comes before it.
    fn check_times(&mut self, gate: &Gate) {
        let (delay, zero) = (gate.begin.delay_ms, gate.quiet_ms.max(gate.linger_ms));
        let before = delay.saturating_add(zero);
        if gate.deadline_ms <= before {
            let message = format!(
                "comes before {delay} of delay and {zero} of quiet or linger are over: take more \
                    than {before}"
            );
            self.problem("gate.deadline_ms", &message);
        }
    }

    fn count(&mut self, wire: &Count) -> (Vec<Rule>, Vec<Rule>) {
        let Count { exclude, long_lived } = wire;
        let mut excluded = Vec::new();
        self.texts("count.exclude.paths", &exclude.paths, wrong_path, &mut |text| {
            excluded.push(Rule::Path(text))
        });
        self.headers("count.exclude.headers", &exclude.headers, &mut excluded);
        add(&mut excluded, exclude.health_checks, Rule::HealthCheck);
        let mut long = Vec::new();
        self.texts("count.long_lived.paths", &long_lived.paths, wrong_path, &mut |text| {
            long.push(Rule::Path(text))
        });
        self.headers("count.long_lived.headers", &long_lived.headers, &mut long);
        add(&mut long, long_lived.upgrades, Rule::Upgrade);
        add(&mut long, long_lived.grpc, Rule::Grpc);
        add(&mut long, long_lived.event_streams, Rule::EventStream);
        self.texts("count.long_lived.routes", &long_lived.routes, |_| None, &mut |text| {
            long.push(Rule::Route(text))
        });
        (excluded, long)
    }

    fn headers(&mut self, path: &str, wire: &[HeaderMatch], rules: &mut Vec<Rule>) {
        for (index, header) in wire.iter().enumerate() {
            let path = item(path, index);
            let name = self.header_name(&path, "name", &header.name);
            let text = match (&header.exact, &header.prefix) {
                (Some(_), Some(_)) => {
                    self.problem(&path, "has both `exact` and `prefix`: keep one");
                    None
                }
                (Some(text), None) => Some(Text::Exact(text.clone())),
                (None, text) => text.clone().map(Text::Prefix),
            };
            rules.push(Rule::Header(name, text));
        }
    }

    /// `wrong` says what else is wrong with a text of this kind.
    fn texts(
        &mut self,
        path: &str,
        wire: &[TextMatch],
        wrong: fn(&Text) -> Option<String>,
        take: &mut dyn FnMut(Text),
    ) {
        for (index, wire) in wire.iter().enumerate() {
            let text = match (&wire.exact, &wire.prefix) {
                (Some(_), Some(_)) => Err("has both `exact` and `prefix`: keep one"),
                (None, None) => Err("has neither `exact` nor `prefix`: add one"),
                (Some(text), None) | (None, Some(text)) if text.is_empty() => {
                    Err("is an empty text: take it out, or write what is to match")
                }
                (Some(text), None) => Ok(Text::Exact(text.clone())),
                (None, Some(text)) => Ok(Text::Prefix(text.clone())),
            };
            match text {
                Err(message) => self.problem(&item(path, index), message),
                Ok(text) => match wrong(&text) {
                    Some(message) => self.problem(&item(path, index), &message),
                    None => take(text),
                },
            }
        }
    }

    /// Envoy keeps names in lower case; a name that no request can have is a slip.
    fn header_name(&mut self, path: &str, field: &str, name: &str) -> String {
        if name.is_empty() || !name.bytes().all(is_token) {
            self.problem(
                &format!("{path}.{field}"),
                &format!("`{name}` is not the name of a header"),
            );
        }
        name.to_ascii_lowercase()
    }

    fn forwarded_proto(&mut self, wire: &ForwardedProto) -> ForwardedPolicy {
        const HERE: &str = "forwarded_proto";
        let original = self.header_name(HERE, "original_header", &wire.original_header);
        let mut sources = Vec::new();
        for preset in &wire.presets {
            for header in headers_of(*preset) {
                self.source(&mut sources, &original, header, form_of(header), Element::Agree);
            }
        }
        for (index, source) in wire.sources.iter().enumerate() {
            let header =
                self.header_name(&item("forwarded_proto.sources", index), "header", &source.header);
            self.source(
                &mut sources,
                &original,
                &header,
                source.form.or_else(|| form_of(&header)),
                source.element,
            );
        }
        if sources.is_empty() {
            self.problem(
                "forwarded_proto.sources",
                "names no header: add one, or name your load balancer in `presets`",
            );
        }
        for (path, fallback, safe) in [
            ("forwarded_proto.fallback", wire.fallback, "connection"),
            ("forwarded_proto.silent", wire.silent, "http"),
        ] {
            if fallback == Fallback::Keep && original == FORWARDED_PROTO {
                const WHY: &str = "`keep` keeps what any client claims where the peer's own \
                    `x-forwarded-proto` is the original header: take `";
                self.problem(path, &format!("{WHY}{safe}`"));
            }
        }
        let ports = &wire.ports;
        if let Some(port) = ports.https.iter().find(|port| ports.http.contains(port)) {
            self.problem(
                "forwarded_proto.ports",
                &format!("{port} stands for both https and http"),
            );
        }
        if wire.write_port && (ports.https.is_empty() || ports.http.is_empty()) {
            self.problem(
                "forwarded_proto.ports",
                "`write_port` needs at least one port for https and one for http",
            );
        }
        ForwardedPolicy {
            trust: self.trust(&wire.trust),
            sources,
            original,
            decision: wire.decision,
            ports: Ports::new(ports.https.clone(), ports.http.clone()),
            fallback: wire.fallback,
            silent: wire.silent,
            strip: wire.strip.clone(),
            write_scheme: wire.write_scheme,
            write_port: wire.write_port,
        }
    }

    /// One more source; two presets may share one.
    fn source(
        &mut self,
        sources: &mut Vec<Source>,
        original: &str,
        header: &str,
        form: Option<Form>,
        element: Element,
    ) {
        let header = if header == FORWARDED_PROTO { original } else { header };
        let source = Source { header: header.into(), form: form.unwrap_or(Form::Scheme), element };
        match sources.iter().find(|other| other.header == header) {
            None => sources.push(source),
            Some(other) if *other == source => {}
            Some(_) => self.problem(
                "forwarded_proto.sources",
                &format!("`{header}` is there twice, read in two ways"),
            ),
        }
    }

    fn trust(&mut self, wire: &WireTrust) -> Trust {
        const HERE: &str = "forwarded_proto.trust";
        if wire.peers.is_empty() && wire.identities.is_empty() {
            self.problem(
                HERE,
                "trusts nobody: add the address range of the load balancer to \
                `peers`, or its identity to `identities`",
            );
        }
        if wire.peer_key.is_empty() || wire.peer_key.contains('\0') {
            self.problem(
                "forwarded_proto.trust.peer_key",
                "is not a filter state key: leave it out for the usual one",
            );
        }
        let mut ranges: Vec<Range> = Vec::new();
        for (index, text) in wire.peers.iter().enumerate() {
            match text.parse() {
                Ok(range) => ranges.push(range),
                Err(error) => self.problem(
                    &item("forwarded_proto.trust.peers", index),
                    &format!("`{text}` {}", error.to_text()),
                ),
            }
        }
        let mut identities = Vec::new();
        self.texts(
            "forwarded_proto.trust.identities",
            &wire.identities,
            wrong_identity,
            &mut |text| identities.push(text),
        );
        Trust::new(Peers::from_iter(ranges), identities, wire.peer_key.clone())
    }
}

fn add(rules: &mut Vec<Rule>, wanted: bool, rule: Rule) {
    if wanted {
        rules.push(rule);
    }
}

fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    name.strip_suffix('.').unwrap_or(name).split('.').all(is_label)
}

fn wrong_path(text: &Text) -> Option<String> {
    let (Text::Exact(path) | Text::Prefix(path)) = text;
    if !path.starts_with('/') {
        Some(format!("`{path}` never matches: a path begins with `/`"))
    } else if path.contains(['?', '#']) {
        Some(format!("`{path}` never matches: paths are compared without their query"))
    } else {
        None
    }
}

fn wrong_identity(identity: &Text) -> Option<String> {
    match identity {
        Text::Prefix(prefix) if !prefix.ends_with('/') => {
            Some(format!("`{prefix}` also begins longer names: end it with `/`, or use `exact`"))
        }
        _ => None,
    }
}

fn item(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use crate::config::parse;

    fn gate(inside: &str) -> String {
        format!(r#"{{"role": "gate", "gate": {{{inside}}}}}"#)
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn refuses_gates_that_make_no_sense() {
        for (inside, path, message) in [
            (
                r#""deadline_ms": 0"#,
                "deadline_ms",
                "0 is not what is expected here: a whole number from 201",
            ),
            (r#""deadline_ms": 2592000001"#, "deadline_ms", "to 2592000000"),
            (
                r#""deadline_ms": 5000, "quiet_ms": 5000"#,
                "deadline_ms",
                "0 of delay and 5000 of quiet or linger are over: take more than 5000",
            ),
            (r#""deadline_ms": 5000, "linger_ms": 6000"#, "deadline_ms", "take more than 6000"),
            (
                r#""deadline_ms": 5000, "begin": {"delay_ms": 4000}"#,
                "deadline_ms",
                "4000 of delay and 1000",
            ),
            (r#""quiet_ms": 199"#, "quiet_ms", "from 200 to"),
            (r#""quiet_ms": -1"#, "quiet_ms", "from 200 to"),
            (r#""admin": {"timeout_ms": 49}"#, "admin.timeout_ms", "from 50 to 60000"),
            (r#""admin": {"cluster": ""}"#, "admin.cluster", "no cluster"),
            (r#""admin": {"agent_cluster": ""}"#, "admin.agent_cluster", "no cluster"),
            (r#""scopes": []"#, "scopes", "names no scope"),
            (r#""scopes": ["inbond"]"#, "scopes[0]", "did you mean `inbound`?"),
            (r#""scopes": ["inbound", "outbound", "inbound"]"#, "scopes", "names one twice"),
            (
                r#""begin": {"call": "fail_health_checks", "inbound_only": true}"#,
                "begin.inbound_only",
                "only `drain_listeners`",
            ),
            (
                r#""begin": {"call": "nothing", "inbound_only": true}"#,
                "begin.inbound_only",
                "only `drain_listeners`",
            ),
            (
                r#""begin": {"call": "nothing", "delay_ms": 1}"#,
                "begin.delay_ms",
                "nothing comes after it",
            ),
            (r#""app": {}"#, "app.cluster", "is required"),
            (r#""app": {"cluster": ""}"#, "app.cluster", "no cluster"),
            (r#""app": {"cluster": "app", "path": "healthz"}"#, "app.path", "is not `/`"),
            (r#""app": {"cluster": "app", "path": "/a\r\nb: c"}"#, "app.path", "visible"),
            (r#""secret": """#, "secret", "16 visible ASCII characters"),
            (r#""secret": "fifteen-letters""#, "secret", "16 visible ASCII characters"),
            (r#""secret": "sixteen-letters-\n""#, "secret", "visible"),
            (r#""secret": "sixteen letters, blank""#, "secret", "without blanks"),
            (r#""secret": "sixteen-letters!", "secret_key": "k""#, "secret", "keep one"),
            (r#""secret_key": """#, "secret_key", "filter state key"),
            (r#""hosts": [""]"#, "hosts[0]", "not a host name"),
            (
                r#""hosts": ["a.example", "*.example"]"#,
                "hosts[1]",
                "`*.example` is not a host name",
            ),
            (r#""hosts": ["http://a.example"]"#, "hosts[0]", "without scheme"),
            (r#""hosts": ["a.example:80"]"#, "hosts[0]", "port"),
            (r#""hosts": ["a..example"]"#, "hosts[0]", "not a host name"),
            (r#""secret": "sésame-ouvre-toi-letters""#, "secret", "ASCII"),
        ] {
            let text = gate(inside);
            let refused = parse(text.as_bytes()).map(|_| ()).expect_err(&text);
            assert_eq!(refused.0.len(), 1, "{refused}");
            assert_eq!(refused.0[0].path, format!("gate.{path}"), "{refused}");
            assert!(refused.0[0].message.contains(message), "{refused}");
            assert!(
                path != "secret" || !refused.to_string().contains("letters"),
                "the secret was told: {refused}"
            );
        }
        for (text, message) in [
            (
                r#"{"role": "gate", "scope": "inbound"}"#,
                "scope: is not the gate's: see `gate.scopes`",
            ),
            (
                r#"{"role": "gate", "count": {"exclude": {"health_checks": true}}}"#,
                "count: belongs to an instance with `\"role\": \"stream\"`",
            ),
        ] {
            let refused = parse(text.as_bytes()).map(|_| ()).expect_err(text);
            assert_eq!(refused.to_string(), message);
        }
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn takes_gates_at_the_limits_and_warns_of_what_does_nothing() {
        for (inside, warnings) in [
            ("", 0),
            (r#""quiet_ms": 200, "linger_ms": 0, "deadline_ms": 201"#, 0),
            (
                r#""quiet_ms": 200, "linger_ms": 300, "begin": {"delay_ms": 100}, "deadline_ms": 401"#,
                0,
            ),
            (r#""deadline_ms": 2592000000, "admin": {"timeout_ms": 60000}"#, 0),
            (r#""finish": "drain_agent", "begin": {"call": "nothing"}"#, 0),
            (r#""finish": "quit", "begin": {"call": "fail_health_checks", "delay_ms": 1}"#, 0),
            (r#""scopes": ["inbound", "outbound"], "begin": {"inbound_only": true}"#, 0),
            (r#""begin": {"inbound_only": true}"#, 1),
            (
                r#""secret_key": "laststream.gate_secret", "hosts": ["gate.shop.svc.cluster.local", "A_b-c."]"#,
                0,
            ),
            (
                r#""secret": "sixteen-letters!", "app": {"cluster": "app", "path": "/healthz?full"}"#,
                0,
            ),
        ] {
            let text = gate(inside);
            assert_eq!(parse(text.as_bytes()).expect(&text).warnings().len(), warnings, "{text}");
        }
    }
}
