//! Checks a policy file and fills in defaults. All problems are reported together.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use laststream_filter::config::{self, wire};
use laststream_filter::forwarded::{FORWARDED_PROTO, Policy as ForwardedPolicy};
use serde_json::{Value, json};

use super::file::{
    Begin, Direction, Drain, Engine, FailurePolicy, File, Finish, Gate, GateSecret, Job, LongLived,
    Placement, Retries,
};
use super::{
    ForwardedProto, PeerInfo, Policy, PolicyProblem, Sizing, module_json, sizing, warnings,
};
use crate::time_span::TimeSpan;

pub(super) fn check(file: File) -> Result<Policy, Vec<PolicyProblem>> {
    let mut found = Checker(Vec::new());
    let policy = found.policy(file);
    if found.0.is_empty() { Ok(policy) } else { Err(found.0) }
}

/// The problems so far. What is wrong is replaced by something harmless in the result, which is
/// then not used.
struct Checker(Vec<PolicyProblem>);

/// Ports of a pod that Istio's own listeners have.
const ISTIO_PORTS: &[u16] = &[15000, 15001, 15004, 15006, 15008, 15009, 15020, 15021, 15053, 15090];
const GATE_PORT: u16 = 15091;
const OF_THE_GATE: &str = "is the gate's, and there is none: take it out";

impl Checker {
    fn problem(&mut self, path: &str, message: impl Into<String>) {
        self.0.push(PolicyProblem::new(path, message));
    }

    fn policy(&mut self, file: File) -> Policy {
        let name = file.name.unwrap_or_else(|| "laststream".into());
        self.dns_label("name", &name);
        self.labels("labels", &file.labels);
        let placement = self.placement(file.placement, &name);
        let has_namespace = file.namespace.is_some();
        let namespace = self.namespace(file.namespace, &placement);
        if let Some(secret) = &file.pull_secret {
            self.dns_label("pull_secret", secret);
        }
        let in_istio = is_istio(&placement);
        let has_gate = matches!(
            placement,
            Placement::Gateway(_) | Placement::Sidecar(_) | Placement::Envoy(_)
        );
        let gate_port = self.gate_port(file.gate.enabled, file.gate.port, has_gate, in_istio);
        self.gate_access(&file.gate, has_gate);
        let sizing = self.drain(&file.drain, gate_port.is_some(), in_istio);
        let forwarded_proto = self.forwarded_proto(file.forwarded_proto, &placement);
        let retries = file.retries.map(|retries| self.retries(retries, sizing.longest_request));
        if let Some(job) = &file.job {
            self.job(job);
        }
        let mut policy = Policy {
            name,
            namespace,
            labels: file.labels,
            placement,
            pull_secret: file.pull_secret,
            failure_policy: file
                .failure_policy
                .unwrap_or_else(|| usual_failure_policy(file.module.as_deref())),
            count: file.count,
            forwarded_proto,
            engine: file.engine.unwrap_or(Engine::Auto),
            gate_port,
            gate_secret: file.gate.secret,
            gate_hosts: file.gate.hosts,
            begin: file.drain.begin.unwrap_or(Begin::DrainListeners),
            finish: file.drain.finish.unwrap_or(if in_istio {
                Finish::DrainAgent
            } else {
                Finish::Nothing
            }),
            long_lived: file.drain.long_lived.unwrap_or(LongLived::Wait),
            long_lived_after: file.drain.long_lived_after,
            app: file.drain.wait_for_app,
            sizing,
            exit_on_zero: file.drain.exit_on_zero,
            retries,
            job: file.job,
            warnings: Vec::new(),
            module: file.module,
            digest: file.digest,
        };
        policy.warnings = warnings::of(&policy, has_namespace);
        self.module(&mut policy);
        policy
    }

    /// A field without effect is an error.
    fn drain(&mut self, drain: &Drain, has_gate: bool, in_istio: bool) -> Sizing {
        const OF_ISTIO: &str = "is Istio's, which is not there: take it out";
        for (field, is_written, works, why) in [
            ("drain.begin", drain.begin.is_some(), has_gate, OF_THE_GATE),
            ("drain.finish", drain.finish.is_some(), has_gate, OF_THE_GATE),
            ("drain.long_lived", drain.long_lived.is_some(), has_gate, OF_THE_GATE),
            ("drain.long_lived_after", drain.long_lived_after.is_some(), has_gate, OF_THE_GATE),
            ("drain.wait_for_app", drain.wait_for_app.is_some(), has_gate, OF_THE_GATE),
            ("drain.agent", drain.agent.is_some(), in_istio, OF_ISTIO),
            ("drain.exit_on_zero", drain.exit_on_zero, in_istio, OF_ISTIO),
        ] {
            if is_written && !works {
                self.problem(field, why);
            }
        }
        if drain.finish == Some(Finish::DrainAgent) && has_gate && !in_istio {
            self.problem(
                "drain.finish",
                "`drain_agent` tells Istio's agent, which is not there: write `nothing` or `quit`",
            );
        }
        sizing::fit(drain, in_istio).unwrap_or_else(|problem| {
            self.0.push(problem);
            harmless()
        })
    }

    fn placement(&mut self, placement: Option<Placement>, name: &str) -> Placement {
        let mut placement =
            placement.unwrap_or_else(|| Placement::Gateway(super::file::Gateways::default()));
        match &mut placement {
            Placement::Gateway(gateway) => {
                self.labels("placement.gateway.selector", &gateway.selector);
                if let Some(name) = &gateway.name {
                    self.dns_label("placement.gateway.name", name);
                    if !gateway.selector.is_empty() {
                        self.problem(
                            "placement.gateway",
                            "has both `name` and `selector`: keep one",
                        );
                    }
                } else if gateway.selector.is_empty() {
                    gateway.selector = BTreeMap::from([("istio".into(), "ingressgateway".into())]);
                }
            }
            Placement::Sidecar(sidecar) => {
                self.labels("placement.sidecar.selector", &sidecar.selector);
                self.directions(&mut sidecar.directions);
                self.dns_label(
                    "placement.sidecar.workload",
                    sidecar.workload.get_or_insert_with(|| name.to_owned()),
                );
            }
            Placement::Waypoint(waypoint) => {
                self.dns_label("placement.waypoint.gateway", &waypoint.gateway)
            }
            Placement::EnvoyGateway(gateway) => {
                self.dns_label("placement.envoy_gateway.gateway", &gateway.gateway);
                if gateway.listeners.is_empty() {
                    gateway.listeners = vec!["http".into()];
                }
                for (index, listener) in gateway.listeners.iter().enumerate() {
                    self.dns_label(
                        &format!("placement.envoy_gateway.listeners[{index}]"),
                        listener,
                    );
                }
            }
            Placement::Envoy(envoy) => {
                self.address(
                    "placement.envoy.listen",
                    envoy.listen.get_or_insert_with(|| "127.0.0.1:10000".into()),
                );
                self.address(
                    "placement.envoy.app",
                    envoy.app.get_or_insert_with(|| "127.0.0.1:8080".into()),
                );
                self.address(
                    "placement.envoy.admin",
                    envoy.admin.get_or_insert_with(|| "127.0.0.1:9901".into()),
                );
            }
        }
        placement
    }

    fn directions(&mut self, directions: &mut Vec<Direction>) {
        if directions.is_empty() {
            *directions = vec![Direction::Inbound, Direction::Outbound];
        }
        let twice = |direction: Direction| {
            directions.iter().filter(|other| **other == direction).count() > 1
        };
        if twice(Direction::Inbound) || twice(Direction::Outbound) {
            self.problem(
                "placement.sidecar.directions",
                "names a direction twice: its streams would be counted twice",
            );
        }
    }

    fn namespace(&mut self, namespace: Option<String>, placement: &Placement) -> Option<String> {
        let namespace = match (namespace, placement) {
            (None, Placement::Gateway(gateway)) if gateway.name.is_none() => {
                Some("istio-system".into())
            }
            (
                None,
                Placement::Gateway(_)
                | Placement::Sidecar(_)
                | Placement::Waypoint(_)
                | Placement::EnvoyGateway(_),
            ) => {
                self.problem(
                    "namespace",
                    "is required: the namespace of the proxies, where the resources must be, too",
                );
                None
            }
            (namespace, _) => namespace,
        };
        if let Some(namespace) = &namespace {
            self.dns_label("namespace", namespace);
        }
        namespace
    }

    fn gate_port(
        &mut self,
        enabled: Option<bool>,
        port: Option<u16>,
        has_gate: bool,
        in_istio: bool,
    ) -> Option<u16> {
        if !has_gate {
            if enabled == Some(true) || port.is_some() {
                self.problem(
                    "gate",
                    "can be had on Istio's gateways and sidecars and on a plain Envoy only: \
                        elsewhere no listener can be added for it",
                );
            }
            return None;
        }
        let port = port.unwrap_or(GATE_PORT);
        if port == 0 {
            self.problem("gate.port", "0 stands for any free port, but hooks must name the port");
        } else if in_istio && ISTIO_PORTS.contains(&port) {
            self.problem(
                "gate.port",
                format!(
                    "{port} is one of Istio's own ports: take another one, such as {GATE_PORT}"
                ),
            );
        }
        enabled.unwrap_or(true).then_some(port)
    }

    fn gate_access(&mut self, gate: &Gate, has_gate: bool) {
        if !has_gate || gate.enabled == Some(false) {
            for (field, is_written) in
                [("gate.secret", gate.secret.is_some()), ("gate.hosts", !gate.hosts.is_empty())]
            {
                if is_written {
                    self.problem(field, OF_THE_GATE);
                }
            }
        }
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        match &gate.secret {
            Some(GateSecret::Environment(name))
                if name.is_empty() || !name.bytes().all(is_word) =>
            {
                let message = format!(
                    "`{name}` is not the name of an environment variable, such as \
                        `LASTSTREAM_SECRET`"
                );
                self.problem("gate.secret.environment", message);
            }
            Some(GateSecret::Environment(name)) if name.starts_with("ISTIO_META") => {
                let message = format!(
                    "`{name}` would be shown: Istio's agent puts such variables into the proxy's \
                        metadata"
                );
                self.problem("gate.secret.environment", message);
            }
            Some(GateSecret::Sds(path))
                if !path.starts_with('/') || path.chars().any(char::is_control) =>
            {
                self.problem(
                    "gate.secret.sds",
                    format!(
                        "`{path}` is not an absolute path in the proxy, such as \
                        `/etc/laststream/sds.yaml`"
                    ),
                );
            }
            _ => {}
        }
    }

    fn forwarded_proto(
        &mut self,
        json: Option<Value>,
        placement: &Placement,
    ) -> Option<ForwardedProto> {
        let json = json?;
        if matches!(placement, Placement::Waypoint(_)) {
            self.problem(
                "forwarded_proto",
                "is nothing for a waypoint, which never meets the load \
                balancer: restore it at the gateway",
            );
        }
        if matches!(placement, Placement::Sidecar(sidecar) if !sidecar.directions.contains(&Direction::Inbound))
        {
            self.problem(
                "forwarded_proto",
                "is about requests to the app, which \
                `placement.sidecar.directions` leaves out: add `inbound`",
            );
        }
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
            checked.is_some_and(ForwardedPolicy::looks_only_at_told_headers).then(told_headers);
        let peer_info = (!wire.trust.peers.is_empty())
            .then_some(PeerInfo { key: wire.trust.peer_key, headers });
        Some(ForwardedProto {
            json,
            saved_in,
            forgets,
            peer_info: peer_info,
            peers: wire.trust.peers,
        })
    }

    fn retries(&mut self, retries: Retries, longest: TimeSpan) -> Retries {
        self.host("retries.host", &retries.host);
        let attempts = retries.attempts.unwrap_or(2);
        if !(1..=10).contains(&attempts) {
            self.problem("retries.attempts", format!("{attempts} is not from 1 to 10"));
        }
        let retry_on = retries.retry_on.unwrap_or_else(|| "connect-failure,refused-stream".into());
        let is_list =
            retry_on.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-,".contains(&byte));
        if retry_on.is_empty() || !is_list {
            self.problem(
                "retries.retry_on",
                format!(
                    "`{retry_on}` is not a list of Envoy's conditions with commas between them"
                ),
            );
        }
        let per_try_timeout = Some(retries.per_try_timeout.unwrap_or(longest));
        Retries {
            host: retries.host,
            attempts: Some(attempts),
            per_try_timeout,
            retry_on: Some(retry_on),
        }
    }

    fn job(&mut self, job: &Job) {
        if let Some(name) = &job.name {
            self.dns_label("job.name", name);
        }
        self.dns_label("job.container", &job.container);
        if job.command.is_empty() {
            self.problem(
                "job.command",
                "is empty: write the container's own command, which is run \
                behind `laststream exec --`",
            );
        }
        let wrong = |text: &str| {
            text.is_empty()
                || text
                    .contains(|character: char| character.is_whitespace() || character.is_control())
        };
        if wrong(&job.program_image) {
            self.problem(
                "job.program_image",
                format!("`{}` is not the name of an image", job.program_image),
            );
        }
        if job.program.as_ref().is_some_and(|program| !program.starts_with('/') || wrong(program)) {
            self.problem("job.program", "is not an absolute path, such as `/laststream`");
        }
    }

    /// Checks the rendered configuration with the module's own parser.
    fn module(&mut self, policy: &mut Policy) {
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
            match config::parse(
                module_json::stream(policy, scope, with_proto).to_string().as_bytes(),
            ) {
                Ok(config) => policy.warnings.extend(config.warnings()),
                Err(refused) => {
                    self.0.extend(
                        refused
                            .0
                            .into_iter()
                            .map(|problem| PolicyProblem::new(problem.path, problem.message)),
                    );
                    break; // the other directions would say the same
                }
            }
        }
        if policy.gate_port.is_some()
            && let Err(refused) = config::parse(module_json::gate(policy).to_string().as_bytes())
        {
            self.0.extend(
                refused
                    .0
                    .into_iter()
                    .map(|problem| PolicyProblem::new(of_drain(&problem.path), problem.message)),
            );
        }
    }

    fn dns_label(&mut self, path: &str, name: &str) {
        let inside = name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if !inside
            || name.is_empty()
            || name.len() > 63
            || name.starts_with('-')
            || name.ends_with('-')
        {
            self.problem(
                path,
                format!(
                    "`{name}` is not a name in Kubernetes: small letters, \
                digits and `-` between them, 63 at most"
                ),
            );
        }
    }

    fn host(&mut self, path: &str, host: &str) {
        let part = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        if !host.split('.').all(part) || host.len() > 253 {
            self.problem(
                path,
                format!(
                    "`{host}` is not the name of a host, such as `httpbin` or \
                `httpbin.default.svc.cluster.local`"
                ),
            );
        }
    }

    fn labels(&mut self, path: &str, labels: &BTreeMap<String, String>) {
        let is_word = |text: &str| {
            let ends = text.starts_with(|c: char| c.is_ascii_alphanumeric())
                && text.ends_with(|c: char| c.is_ascii_alphanumeric());
            ends && text.len() <= 63
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        let is_prefix = |text: &str| {
            !text.is_empty()
                && text.len() <= 253
                && text.bytes().all(|byte| {
                    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte)
                })
        };
        for (key, value) in labels {
            let (prefix, name) = key
                .rsplit_once('/')
                .map_or((None, key.as_str()), |(prefix, name)| (Some(prefix), name));
            if !is_word(name) || !prefix.is_none_or(is_prefix) {
                self.problem(
                    &format!("{path}.{key}"),
                    format!("`{key}` is not the name of a label"),
                );
            } else if !value.is_empty() && !is_word(value) {
                self.problem(
                    &format!("{path}.{key}"),
                    format!("`{value}` is not the value of a label"),
                );
            }
        }
    }

    fn address(&mut self, path: &str, address: &str) {
        match address.parse::<SocketAddr>() {
            Ok(address) if address.port() != 0 => {}
            _ => self.problem(
                path,
                format!(
                    "`{address}` is not an address with a port, such as \
                `127.0.0.1:8080` or `[::1]:8080`"
                ),
            ),
        }
    }
}

/// What is rendered always saves the peer's own `x-forwarded-proto` in another header: read where
/// it is, it would be what is left when the module fails, and silence would look like the
/// connection's scheme. `keep` beside it is refused, so there it stays as it is written.
fn saved_original(mut json: Value, original: String, forgets: bool) -> (Value, String) {
    if original != FORWARDED_PROTO || !forgets {
        return (json, original);
    }
    if let Some(members) = json.as_object_mut() {
        members.remove("original_header");
    }
    (json, wire::ORIGINAL_HEADER.into())
}

/// A local file is always there; a registry is not, and must not take a gateway down.
fn usual_failure_policy(module: Option<&str>) -> FailurePolicy {
    if module.is_some_and(|module| !module.contains("://")) {
        FailurePolicy::Reload
    } else {
        FailurePolicy::Open
    }
}

fn is_istio(placement: &Placement) -> bool {
    matches!(placement, Placement::Gateway(_) | Placement::Sidecar(_) | Placement::Waypoint(_))
}

/// The gate's fields under the names that they have here.
fn of_drain(path: &str) -> String {
    let known = [
        ("gate.quiet_ms", "drain.quiet"),
        ("gate.deadline_ms", "drain.deadline"),
        ("gate.long_lived_after_ms", "drain.long_lived_after"),
        ("gate.app", "drain.wait_for_app"),
        ("gate.begin.delay_ms", "drain.delay"),
        ("gate.begin", "drain.begin"),
    ];
    let renamed = known
        .iter()
        .find_map(|(theirs, ours)| path.strip_prefix(theirs).map(|rest| format!("{ours}{rest}")));
    renamed.unwrap_or_else(|| path.to_owned())
}

/// A number that the module's reader does not know.
fn fraction(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) if number.as_i64().is_none() => Some(number.to_string()),
        Value::Array(items) => items.iter().find_map(fraction),
        Value::Object(members) => members.values().find_map(fraction),
        _ => None,
    }
}

fn harmless() -> Sizing {
    let (second, minute) = (TimeSpan::seconds(1), TimeSpan::seconds(60));
    Sizing {
        longest_request: second,
        grace_period: minute,
        deadline: minute,
        quiet: second,
        delay: TimeSpan::default(),
        agent: second,
    }
}
