//! Checks the gate's part.

use super::{Checker, item};
use crate::config::wire::{
    Admin, BeginCall, Configuration, Finish, Gate, GateCount, ISTIOS_AGENT, Role, SHORTEST_AGE,
    SHORTEST_SECRET, Scope, Starts,
};
use crate::gate::access::ADDRESS_KEY;
use crate::gate::policy::GatePolicy;

/// The stat prefix of Envoy's admin interface, in which the gate's own query is in flight.
const ADMIN: &str = "admin";

impl Checker {
    /// Each instance has one role; settings of another role would silently do nothing.
    pub(super) fn gate(&mut self, wire: &mut Configuration) -> Option<GatePolicy> {
        if wire.role != Role::Gate && wire.gate.is_some() {
            self.add_problem("gate", "belongs to an instance with `\"role\": \"gate\"`");
        }
        if wire.role == Role::Stream {
            return None;
        }
        if wire.forwarded_proto.is_some() {
            self.add_problem(
                "forwarded_proto",
                "belongs to an instance with `\"role\": \"stream\"`",
            );
        }
        if wire.scope != Scope::default() {
            self.add_problem(
                "scope",
                match wire.role {
                    Role::Gate => "is not the gate's: see `gate.scopes`",
                    _ => "belongs to an instance with `\"role\": \"stream\"`",
                },
            );
        }
        if wire.count.is_some() {
            self.add_problem("count", "belongs to an instance with `\"role\": \"stream\"`");
        }
        if wire.role == Role::Websocket {
            return None;
        }
        let gate = wire.gate.take().unwrap_or_default();
        self.check_gate(&gate);
        Some(GatePolicy::new(gate))
    }

    fn check_gate(&mut self, gate: &Gate) {
        if gate.scopes.is_empty() {
            self.add_problem(
                "gate.scopes",
                "names no scope, so the gate would be open at once: name one",
            );
        }
        if gate
            .scopes
            .iter()
            .any(|scope| gate.scopes.iter().filter(|other| *other == scope).count() > 1)
        {
            self.add_problem("gate.scopes", "names one twice: once will do");
        }
        self.check_times(gate);
        let begin = &gate.begin;
        if begin.inbound_only && begin.call != BeginCall::DrainListeners {
            self.add_problem("gate.begin.inbound_only", "only `drain_listeners` knows directions");
        }
        if begin.delay_ms > 0 && begin.call == BeginCall::Nothing {
            self.add_problem(
                "gate.begin.delay_ms",
                "nothing comes after it: see `gate.begin.call`",
            );
        }
        self.check_end(gate);
        self.check_start(gate);
        self.check_count(gate);
        self.check_clusters(gate);
        self.check_access(gate);
        for (path, value) in [
            ("gate.app.path", gate.app.as_ref().map(|app| &app.path)),
            ("gate.notify.path", gate.notify.as_ref().map(|notify| &notify.path)),
        ] {
            if value.is_some_and(|value| !value.starts_with('/') || !is_visible(value)) {
                self.add_problem(path, "is not `/` and visible ASCII characters");
            }
        }
    }

    /// The agent has told clients to leave when its port refuses, and then waits for Envoy's end.
    fn check_start(&mut self, gate: &Gate) {
        if gate.starts == Starts::Hook {
            return;
        }
        if gate.finish != Finish::Quit {
            self.add_problem(
                "gate.finish",
                "does not end Envoy, and with `\"starts\": \"agent\"` no hook does: write `quit`",
            );
        }
        if gate.begin.call == BeginCall::FailHealthChecks {
            self.add_problem(
                "gate.begin.call",
                "comes after the agent has told clients to leave: write `nothing`, or \
                 `drain_listeners` with `delay_ms`",
            );
        }
        if gate.admin.agent_cluster == ISTIOS_AGENT {
            self.add_problem(
                "gate.admin.agent_cluster",
                "is Istio's own cluster, whose old connections are answered after the agent's \
                 stop: name one for the gate alone, with `max_requests_per_connection` 1",
            );
        }
    }

    /// Envoy's count alone has no single streams.
    fn check_count(&mut self, gate: &Gate) {
        if gate.count == GateCount::Filter {
            return;
        }
        if gate.admin.cluster.is_empty() {
            self.add_problem("gate.admin.cluster", "names no cluster, so there is no count at all");
        }
        for (path, is_set) in [
            ("gate.end", gate.end.is_some()),
            ("gate.long_lived_after_ms", gate.long_lived_after_ms.is_some()),
        ] {
            if is_set {
                let why = "needs the filter, which knows each stream: `\"count\": \"filter\"`";
                self.add_problem(path, why);
            }
        }
    }

    fn check_clusters(&mut self, gate: &Gate) {
        let Gate { admin, app, notify, .. } = gate;
        for (path, cluster) in [
            ("gate.admin.agent_cluster", Some(&admin.agent_cluster)),
            ("gate.app.cluster", app.as_ref().map(|app| &app.cluster)),
            ("gate.notify.cluster", notify.as_ref().map(|notify| &notify.cluster)),
        ] {
            if cluster.is_some_and(String::is_empty) {
                self.add_problem(path, "names no cluster");
            }
        }
        let needs_admin = gate.begin.call != BeginCall::Nothing || gate.finish == Finish::Quit;
        if admin.cluster.is_empty() && needs_admin {
            self.add_problem(
                "gate.admin.cluster",
                "names no cluster, so there is no admin interface for `begin` and `finish`: name \
                 it, or write `\"begin\": {\"call\": \"nothing\"}`",
            );
        }
        if notify.as_ref().is_some_and(|notify| notify.cluster == admin.cluster) {
            self.add_problem(
                "gate.notify.cluster",
                "is the cluster of Envoy's admin interface, which can end Envoy: name the app's",
            );
        }
        self.check_ignored(admin);
    }

    fn check_ignored(&mut self, Admin { ignore, tunnels, .. }: &Admin) {
        const PATH: &str = "gate.admin.ignore";
        if !ignore.iter().any(|prefix| prefix == ADMIN) {
            self.add_problem(
                PATH,
                "lacks `admin`, so the gate's own query of Envoy would hold every drain: add it",
            );
        }
        for (index, prefix) in ignore.iter().enumerate() {
            if prefix.is_empty() {
                self.add_problem(&item(PATH, index), "is no stat prefix: take it out");
            } else if tunnels.contains(prefix) {
                let message = format!(
                    "`{prefix}` is in `gate.admin.tunnels`, too: keep it there alone, because \
                     unwritten bytes hold no drain where requests are ignored"
                );
                self.add_problem(&item(PATH, index), &message);
            }
        }
    }

    fn check_access(&mut self, gate: &Gate) {
        if gate
            .secret
            .as_ref()
            .is_some_and(|secret| secret.len() < SHORTEST_SECRET || !is_visible(secret))
        {
            self.add_problem(
                "gate.secret",
                "is not 16 visible ASCII characters or more, without blanks",
            );
        }
        if gate.secret_key.as_ref().is_some_and(|key| key.is_empty() || key.contains('\0')) {
            self.add_problem("gate.secret_key", "is not a filter state key");
        }
        if gate.secret_key.as_deref() == Some(ADDRESS_KEY) {
            self.add_problem(
                "gate.secret_key",
                "holds the connection's own address, which is no secret: name another key",
            );
        }
        if gate.secret.is_some() && gate.secret_key.is_some() {
            self.add_problem("gate.secret", "is there beside `secret_key`: keep one");
        }
        for (index, name) in gate.hosts.iter().enumerate() {
            if !is_host_name(name) {
                let message =
                    format!("`{name}` is not a host name: write it without scheme, port and `*`");
                self.add_problem(&item("gate.hosts", index), &message);
            }
        }
    }

    /// Checks that the deadline comes after the delay and the quiet period or linger time, and that
    /// the age of long-lived streams does not exempt the others, too.
    fn check_times(&mut self, gate: &Gate) {
        let least = gate.quiet_ms.max(SHORTEST_AGE);
        if let Some(age) = gate.long_lived_after_ms.filter(|age| *age < least) {
            let message = format!(
                "{age} ms is the age of ordinary requests: take {least} ms at least, the longer of \
                 a second and the quiet period"
            );
            self.add_problem("gate.long_lived_after_ms", &message);
        }
        let (delay, zero) = (gate.begin.delay_ms, gate.quiet_ms.max(gate.linger_ms));
        let before = delay.saturating_add(zero);
        if gate.deadline_ms <= before {
            let message = format!(
                "comes before {delay} of delay and {zero} of quiet or linger are over: take more \
                 than {before}"
            );
            self.add_problem("gate.deadline_ms", &message);
        }
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

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use crate::config::parse;

    fn gate(inside: &str) -> String {
        format!(r#"{{"role": "gate", "gate": {{{inside}}}}}"#)
    }

    #[wasm_bindgen_test(unsupported = test)]
    fn accepts_limits_and_warns_of_settings_without_effect() {
        for (inside, warnings) in [
            ("", 0),
            (r#""quiet_ms": 200, "linger_ms": 0, "deadline_ms": 201"#, 0),
            (
                r#""quiet_ms": 200, "linger_ms": 300, "deadline_ms": 401,
                    "begin": {"delay_ms": 100}"#,
                0,
            ),
            (r#""deadline_ms": 2592000000, "admin": {"timeout_ms": 60000}"#, 0),
            (r#""long_lived_after_ms": 1000, "admin": {"timeout_ms": 200}"#, 0),
            (r#""quiet_ms": 5000, "long_lived_after_ms": 5000"#, 0),
            (r#""admin": {"ignore": ["admin"], "tunnels": ["connect_terminate"]}"#, 0),
            (r#""finish": "drain_agent", "begin": {"call": "nothing"}"#, 0),
            (r#""finish": "quit", "begin": {"call": "fail_health_checks", "delay_ms": 1}"#, 0),
            (
                r#""starts": "agent", "finish": "quit", "begin": {"call": "nothing"},
                    "admin": {"agent_cluster": "own"}"#,
                0,
            ),
            (r#""scopes": ["inbound", "outbound"], "begin": {"inbound_only": true}"#, 0),
            (r#""begin": {"inbound_only": true}"#, 1),
            (
                r#""secret_key": "laststream.gate_secret",
                    "hosts": ["gate.shop.svc.cluster.local", "A_b-c."]"#,
                0,
            ),
            (
                r#""secret": "sixteen-letters!",
                    "app": {"cluster": "app", "path": "/healthz?full"}"#,
                0,
            ),
            (r#""notify": {"cluster": "app", "path": "/drain?why=stop"}"#, 0),
            (r#""begin": {"call": "nothing"}, "admin": {"cluster": ""}"#, 0),
        ] {
            let text = gate(inside);
            assert_eq!(parse(text.as_bytes()).expect(&text).warnings().len(), warnings, "{text}");
        }
    }
}
