//! LS4xx: the gate, and the VM that it runs in.

use laststream_filter::config::wire::Scope;

use crate::lint::finding::{Found, Severity};
use crate::lint::given::Given;
use crate::lint::listeners::{address, connection_manager, is_loopback, listener, uses};
use crate::lint::modules::{Module, counters, gates};
use crate::lint::node::Node;
use crate::lint::pods::stop_hooks;
use crate::lint::rule::Rule;
use crate::lint::times::milliseconds;

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "LS401",
        severity: Severity::Error,
        title: "the gate can be reached from outside, without a secret",
        why: "Whoever reaches it may begin a drain, or let the proxy be stopped while requests run. The module takes such requests on the loopback interface only, so hooks from elsewhere fail as well.",
        fix: "Bind 127.0.0.1, or set `gate.secret` and send it as x-laststream-secret.",
        check: open_gate,
    },
    Rule {
        code: "LS402",
        severity: Severity::Error,
        title: "the gate runs in the VM that counts",
        why: "Envoy shares a VM when vm_id, code and `vm_config.configuration` are equal. What kills the counter then kills the gate, which should have said that the count is lost.",
        fix: "Give the gate a `vm_config.configuration` of its own, such as the text `gate`. Keep the vm_id.",
        check: shared_vm,
    },
    Rule {
        code: "LS403",
        severity: Severity::Error,
        title: "the gate cannot talk to the counter",
        why: "Shared data and queues belong to a vm_id. With different ones the gate finds nobody who counts, says `unknown`, and holds until its deadline.",
        fix: "Give both the same `vm_id`, and different `vm_config.configuration`.",
        check: other_vm_id,
    },
    Rule {
        code: "LS404",
        severity: Severity::Error,
        title: "the gate fails open",
        why: "A gate that is gone must not say that one may go. When its VM dies or its module cannot be fetched, FAIL_OPEN passes requests by it.",
        fix: "Write `failure_policy: FAIL_RELOAD` (or FAIL_CLOSED) for the gate, whatever the counter has.",
        check: fails_open,
    },
    Rule {
        code: "LS405",
        severity: Severity::Error,
        title: "what is behind the gate does not say no",
        why: "Requests reach the route only when the gate is not there. Hooks wait for exactly 200: a route that answers 200, or an app that does, lets the proxy be stopped.",
        fix: "Make the route a `direct_response` with status 503.",
        check: open_route,
    },
    Rule {
        code: "LS406",
        severity: Severity::Error,
        title: "only inbound listeners are drained, on a gateway",
        why: "All listeners of a gateway are OUTBOUND to Envoy: with `inboundonly` nothing is drained, clients keep their connections, and a busy gateway never gets quiet.",
        fix: "Leave out `inboundonly` on gateways: `\"inbound_only\": false`.",
        check: inbound_only,
    },
    Rule {
        code: "LS407",
        severity: Severity::Warning,
        title: "the gate waits for streams that nobody counts",
        why: "For such a scope nobody answers: the gate says `unknown` and holds until its deadline, at every stop.",
        fix: "Add a counter of that scope, or take the scope out of `gate.scopes`.",
        check: uncounted_scope,
    },
    Rule {
        code: "LS408",
        severity: Severity::Warning,
        title: "Envoy ends the hook's request before the gate does",
        why: "A held request is idle to Envoy, which ends it after `stream_idle_timeout`, 5 minutes when it is not set. kubelet goes on to SIGTERM then.",
        fix: "Write `stream_idle_timeout: 0s` in the gate's connection manager.",
        check: idle_timeout,
    },
    Rule {
        code: "LS409",
        severity: Severity::Error,
        title: "the gate's listener is drained with the others",
        why: "`/drain_listeners?inboundonly` closes listeners of inbound traffic: the gate would go with them, in the middle of the drain that it holds.",
        fix: "Write `traffic_direction: OUTBOUND` for the gate's listener.",
        check: inbound_gate,
    },
    Rule {
        code: "LS410",
        severity: Severity::Warning,
        title: "the gate's own requests hold the drain",
        why: "When the gate falls back to Envoy's own count, requests to the gate itself count as well, unless their stat prefix is in `gate.admin.ignore`.",
        fix: "Give the gate's connection manager the `stat_prefix` laststream, or name its prefix in `gate.admin.ignore`.",
        check: counts_itself,
    },
    Rule {
        code: "LS411",
        severity: Severity::Error,
        title: "the gate's port is never opened",
        why: "With `bind_to_port: false` Envoy waits for connections that another listener hands over, and none does: nobody can ask the gate.",
        fix: "Remove `bind_to_port`.",
        check: unbound_gate,
    },
];

fn open_gate<'g>(given: &'g Given, found: &mut Found<'g>) {
    for (module, _) in gates(given).filter(|(_, gate)| gate.secret.is_none()) {
        for listener in uses(module).into_iter().filter_map(listener) {
            if let Some((address, _)) = address(listener).filter(|(address, _)| !is_loopback(*address)) {
                found.at(address, format!("the gate `{}` listens on `{}`", module.name(), address.text().unwrap_or_default()));
            }
        }
    }
}

fn shared_vm<'g>(given: &'g Given, found: &mut Found<'g>) {
    for (gate, _) in gates(given) {
        let shared = counters(given).find(|(counter, _)| {
            let same = |one: Module<'g>, two: Module<'g>| one.vm_id() == two.vm_id() && one.vm_configuration() == two.vm_configuration();
            gate.may_meet(*counter) && same(gate, *counter) && gate.shares_code(*counter)
        });
        if let Some((counter, _)) = shared {
            found.at(gate.vm().unwrap_or(gate.plugin), format!("`{}` and `{}` are one VM", gate.name(), counter.name()));
        }
    }
}

fn other_vm_id<'g>(given: &'g Given, found: &mut Found<'g>) {
    for (gate, wire) in gates(given) {
        let mut others = counters(given).filter(|(counter, scope)| wire.scopes.contains(scope) && gate.may_meet(*counter));
        let Some((counter, _)) = others.find(|(counter, _)| counter.vm_id() != gate.vm_id()) else { continue };
        let place = gate.vm().and_then(|vm| vm.field("vm_id")).or_else(|| gate.vm()).unwrap_or(gate.plugin);
        found.at(place, format!("the counter `{}` has the vm_id `{}`", counter.name(), counter.vm_id()));
    }
}

fn fails_open<'g>(given: &'g Given, found: &mut Found<'g>) {
    for (module, _) in gates(given) {
        let policy = module.plugin.field("failure_policy").filter(|policy| policy.text() == Some("FAIL_OPEN"));
        let legacy = module.plugin.field("fail_open").filter(|open| open.is_true());
        if let Some(node) = policy.or(legacy) {
            found.at(node, "a gate that has failed must not say that one may go");
        }
    }
}

fn open_route<'g>(given: &'g Given, found: &mut Found<'g>) {
    for (module, _) in gates(given) {
        for manager in uses(module).into_iter().filter_map(connection_manager) {
            let hosts = manager.fields("route_config.virtual_hosts");
            for route in hosts.into_iter().flat_map(Node::items).filter_map(|host| host.field("routes")).flat_map(Node::items) {
                let status = route.fields("direct_response.status");
                if status.and_then(Node::number) != Some(503) {
                    found.at(status.unwrap_or(route), "behind the gate there must be a direct response with 503");
                }
            }
        }
    }
}

fn inbound_only<'g>(given: &'g Given, found: &mut Found<'g>) {
    for (module, gate) in gates(given).filter(|(_, gate)| gate.begin.inbound_only && gate.scopes.contains(&Scope::Gateway)) {
        found.at(
            in_begin(module),
            format!(
                "the gate waits for {} streams, and drains inbound listeners only",
                gate.scopes.first().map_or("gateway", |scope| scope.name())
            ),
        );
    }
    for hook in stop_hooks(given).filter(|hook| hook.pod().is_some_and(crate::lint::pods::Pod::is_gateway)) {
        if let Some(item) = hook.item_with("inboundonly") {
            found.in_text(item, "inboundonly", "a gateway has no inbound listeners");
        }
    }
}

/// Where the configuration says that only inbound listeners are drained.
fn in_begin(module: Module<'_>) -> Node<'_> {
    let text = module.text().unwrap_or(module.plugin);
    let begin = text.embedded().and_then(|root| root.get("gate")).and_then(|gate| gate.get("begin"));
    begin.and_then(|begin| begin.get("inbound_only")).unwrap_or(text)
}

fn uncounted_scope<'g>(given: &'g Given, found: &mut Found<'g>) {
    for (module, gate) in gates(given) {
        let counted: Vec<_> = counters(given).filter(|(counter, _)| module.may_meet(*counter)).map(|(_, scope)| scope).collect();
        let missing: Vec<_> = gate.scopes.iter().filter(|scope| !counted.contains(scope)).map(|scope| scope.name()).collect();
        if !missing.is_empty() {
            let text = module.text().unwrap_or(module.plugin);
            let place = text.embedded().and_then(|root| root.get("gate")).and_then(|gate| gate.get("scopes")).unwrap_or(text);
            found.at(place, format!("no filter of these files counts {} streams where this gate is", missing.join(" or ")));
        }
    }
}

/// What Envoy takes when nothing is written.
const IDLE: u64 = 300_000;

fn idle_timeout<'g>(given: &'g Given, found: &mut Found<'g>) {
    for (module, gate) in gates(given) {
        for manager in uses(module).into_iter().filter_map(connection_manager) {
            let node = manager.field("stream_idle_timeout");
            let idle = node.and_then(Node::text).and_then(milliseconds).unwrap_or(IDLE);
            if idle > 0 && idle <= gate.deadline_ms {
                found.at(
                    node.unwrap_or(manager),
                    format!("the gate holds for {} s, and Envoy for {} s", gate.deadline_ms / 1000, idle / 1000),
                );
            }
        }
    }
}

fn inbound_gate<'g>(given: &'g Given, found: &mut Found<'g>) {
    for (module, _) in gates(given) {
        for listener in uses(module).into_iter().filter_map(listener) {
            if let Some(node) = listener.field("traffic_direction").filter(|node| node.text() == Some("INBOUND")) {
                found.at(node, format!("the listener of `{}` is an inbound one", module.name()));
            }
        }
    }
}

fn unbound_gate<'g>(given: &'g Given, found: &mut Found<'g>) {
    for (module, _) in gates(given) {
        for listener in uses(module).into_iter().filter_map(listener) {
            if let Some(node) = listener.field("bind_to_port").filter(|node| node.text() == Some("false")) {
                found.at(node, format!("the listener of `{}` is not bound", module.name()));
            }
        }
    }
}

fn counts_itself<'g>(given: &'g Given, found: &mut Found<'g>) {
    for (module, gate) in gates(given) {
        for manager in uses(module).into_iter().filter_map(connection_manager) {
            let Some(node) = manager.field("stat_prefix") else { continue };
            let Some(prefix) = node.text().filter(|prefix| !gate.admin.ignore.iter().any(|ignored| ignored == prefix)) else { continue };
            found.at(node, format!("`{prefix}` is not in `gate.admin.ignore`, which is {}", gate.admin.ignore.join(", ")));
        }
    }
}
