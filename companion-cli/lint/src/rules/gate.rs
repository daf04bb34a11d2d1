//! LS4xx: the gate, and the VM that it runs in.

mod clusters;
mod neighbours;

use laststream_filter::config::wire::{Gate, Scope};
use laststream_filter::gate::access::ADDRESS_KEY;

use crate::finding::Rule;
use crate::finding::{Findings, Severity};
use crate::inputs::Inputs;
use crate::listeners::{address, connection_manager, is_loopback, listener, routes, uses};
use crate::modules::{Module, gates};
use crate::node::Node;
use crate::pods::stop_hooks;
use clusters::missing_cluster;
use laststream_base::time_span::milliseconds;
use neighbours::{other_vm_id, shared_vm, two_gates, uncounted_scope};

pub(super) const RULES: &[Rule] = &[
    Rule {
        code: "LS401",
        severity: Severity::Error,
        title: "the gate can be reached from outside, without a secret",
        why: "A client that reaches it may begin a drain, or let the proxy be stopped while \
            requests run. The module takes such requests on the loopback interface only, so \
            hooks from elsewhere fail as well.",
        fix: "Bind 127.0.0.1, or give the gate a secret (`gate.secret_key`) and send it as \
            x-laststream-secret.",
        check: open_gate,
    },
    Rule {
        code: "LS402",
        severity: Severity::Error,
        title: "the gate runs in the VM that counts",
        why: "Envoy shares a VM when vm_id, code and `vm_config.configuration` are equal. If \
            the counter then fails, the gate fails with it, and cannot report that the count is \
            lost.",
        fix: "Give the gate another `vm_config.configuration`, such as the text `gate`. Keep \
            the vm_id.",
        check: shared_vm,
    },
    Rule {
        code: "LS403",
        severity: Severity::Error,
        title: "the gate cannot talk to the counter",
        why: "Shared data and queues belong to a vm_id. With different ones the gate finds no \
            counter, says `unknown`, and holds until its deadline.",
        fix: "Give both the same `vm_id`, and different `vm_config.configuration`.",
        check: other_vm_id,
    },
    Rule {
        code: "LS404",
        severity: Severity::Error,
        title: "the gate fails open",
        why: "Only the gate may answer a stop hook. If its VM dies or its module cannot be \
            fetched, FAIL_OPEN passes the request to the route behind it.",
        fix: "Write `failure_policy: FAIL_RELOAD` (or FAIL_CLOSED) for the gate, whatever the \
            counter has.",
        check: fails_open,
    },
    Rule {
        code: "LS405",
        severity: Severity::Error,
        title: "the route behind the gate does not answer 503",
        why: "Requests reach the route only if the gate has failed or is not loaded. Stop hooks \
            wait for exactly 200: a route or an app that answers 200 releases the proxy.",
        fix: "Make the route a `direct_response` with status 503.",
        check: open_route,
    },
    Rule {
        code: "LS406",
        severity: Severity::Error,
        title: "only inbound listeners are drained, on a gateway",
        why: "All listeners of a gateway are OUTBOUND to Envoy: with `inboundonly` nothing is \
            drained, clients keep their connections, and a busy gateway never gets quiet.",
        fix: "Leave out `inboundonly` on gateways: `\"inbound_only\": false`.",
        check: inbound_only,
    },
    Rule {
        code: "LS407",
        severity: Severity::Warning,
        title: "the gate waits for a scope without a counter",
        why: "For such a scope no counter answers: the gate says `unknown` and holds until Envoy \
            itself has no request, and if it does not export that, until its deadline.",
        fix: "Add a counter of that scope, or take the scope out of `gate.scopes`.",
        check: uncounted_scope,
    },
    Rule {
        code: "LS408",
        severity: Severity::Warning,
        title: "Envoy ends the hook's request too early, or never",
        why: "A held request is idle to Envoy. Envoy ends it after `stream_idle_timeout`, 5 \
            minutes when it is not set. When that comes before the gate's own answer, kubelet goes \
            on to SIGTERM. With 0s a request that is held by a VM that has died is never answered.",
        fix: "Write the gate's deadline and 10 s more as `stream_idle_timeout` in its connection \
            manager: a living gate answers within 5 s after its deadline.",
        check: idle_timeout,
    },
    Rule {
        code: "LS409",
        severity: Severity::Error,
        title: "the gate's listener is drained with the others",
        why: "`/drain_listeners?inboundonly` closes listeners of inbound traffic: the gate would \
            go with them, in the middle of the drain that it holds.",
        fix: "Write `traffic_direction: OUTBOUND` for the gate's listener.",
        check: inbound_gate,
    },
    Rule {
        code: "LS410",
        severity: Severity::Error,
        title: "the gate's own requests hold the drain",
        why: "Envoy's own count must be zero before the gate opens. Requests to the gate itself \
            count as well, unless their stat prefix is in `gate.admin.ignore`: a hook that waits \
            then waits for itself, until the deadline.",
        fix: "Give the gate's connection manager the `stat_prefix` laststream, or name its prefix \
            in `gate.admin.ignore`.",
        check: counts_itself,
    },
    Rule {
        code: "LS411",
        severity: Severity::Error,
        title: "the gate's port is never opened",
        why: "With `bind_to_port: false` Envoy waits for connections that another listener hands \
            over, and none does: the gate cannot be reached.",
        fix: "Remove `bind_to_port`.",
        check: unbound_gate,
    },
    Rule {
        code: "LS412",
        severity: Severity::Warning,
        title: "two gates reach one proxy",
        why: "Each gate begins a drain of the whole Envoy and may end it, whatever streams the \
            other one waits for. A hook that asks one of them does not wait for the other. \
            `DELETE /drain` on one makes health checks pass again for both. Streams \
            that one of them exempts by `long_lived_after_ms` are exempt for the other, too.",
        fix: "Keep one gate for each proxy: name all directions in its `gate.scopes`, or select \
            different workloads.",
        check: two_gates,
    },
    Rule {
        code: "LS413",
        severity: Severity::Warning,
        title: "the gate's secret stands in the resource",
        why: "`gate.secret` is text in the configuration: it is visible in the resource, in the \
            repository that it comes from, and in Envoy's /config_dump.",
        fix: "Write `gate.secret_key` instead, and let a set_filter_state filter in front of the \
            gate write that key from `%ENVIRONMENT(NAME)%`, or from SDS. A policy with `gate: \
            {secret: {environment: NAME}}` renders it.",
        check: secret_in_clear_text,
    },
    Rule {
        code: "LS414",
        severity: Severity::Error,
        title: "nothing writes the filter state that the gate reads",
        why: "Without a secret the gate takes changes on the loopback interface only. Where \
            nothing writes `laststream.gate_address`, it uses `destination.address`. A PROXY \
            protocol header can forge that. With `secret_key` it needs what that key holds: while \
            that is missing, the gate answers every hook with 403, and the hook runs to its \
            time-out.",
        fix: "Put a set_filter_state filter in front of the gate, with `object_key: \
            laststream.gate_address` and the format `%DOWNSTREAM_DIRECT_LOCAL_ADDRESS%`; and one \
            with the key in `gate.secret_key`, if there is one.",
        check: gate_without_state,
    },
    Rule {
        code: "LS415",
        severity: Severity::Error,
        title: "the gate calls a cluster that this Envoy does not have",
        why: "Without the cluster of the admin interface the gate can neither tell clients to \
            leave nor compare its count with Envoy's own: each drain runs to its deadline. Without \
            the app's cluster it waits for the app until then.",
        fix: "Add the cluster to `static_resources.clusters`; that of the admin interface has the \
            address of `admin` as its endpoint. `laststream render envoy` writes both.",
        check: missing_cluster,
    },
];

fn open_gate<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (module, _) in gates(inputs).filter(|(_, gate)| !has_secret(gate)) {
        for listener in uses(inputs, module).into_iter().filter_map(listener) {
            if let Some((address, _)) =
                address(listener).filter(|(address, _)| !is_loopback(*address))
            {
                findings.at(
                    address,
                    format!(
                        "the gate `{}` listens on `{}`",
                        module.name(),
                        address.text().unwrap_or_default()
                    ),
                );
            }
        }
    }
}

fn has_secret(gate: &Gate) -> bool {
    gate.secret.is_some() || gate.secret_key.is_some()
}

fn fails_open<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (module, _) in gates(inputs) {
        if let Some(node) = module.fail_open() {
            findings.at(node, "a gate that has failed must not say that one may go");
        }
    }
}

fn open_route<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (module, _) in gates(inputs) {
        for manager in uses(inputs, module).into_iter().filter_map(connection_manager) {
            for route in routes(manager) {
                let status = route.fields("direct_response.status");
                if status.and_then(Node::number) != Some(503) {
                    findings.at(
                        status.unwrap_or(route),
                        "behind the gate there must be a direct response with 503",
                    );
                }
            }
        }
    }
}

fn inbound_only<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (module, gate) in gates(inputs)
        .filter(|(_, gate)| gate.begin.inbound_only && gate.scopes.contains(&Scope::Gateway))
    {
        findings.at(
            module.part_or_all(&["gate", "begin", "inbound_only"]),
            format!(
                "the gate waits for {} streams, and drains inbound listeners only",
                gate.scopes.first().map_or("gateway", Into::into)
            ),
        );
    }
    for hook in
        stop_hooks(inputs).filter(|hook| hook.pod().is_some_and(crate::pods::Pod::is_gateway))
    {
        if let Some(item) = hook.item_with("inboundonly") {
            findings.in_text(item, "inboundonly", "a gateway has no inbound listeners");
        }
    }
}

/// Envoy's default `stream_idle_timeout`, in milliseconds.
const IDLE: u64 = 300_000;
/// The longest time between a gate's deadline and its answer, in milliseconds.
const LAST_ANSWER: u64 = 5_000;

fn idle_timeout<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (module, gate) in gates(inputs) {
        for manager in uses(inputs, module).into_iter().filter_map(connection_manager) {
            let node = manager.field("stream_idle_timeout");
            let idle = node.and_then(Node::text).and_then(milliseconds).unwrap_or(IDLE);
            let deadline = gate.deadline_ms / 1000;
            if idle == 0 {
                findings.at(
                    node.unwrap_or(manager),
                    format!("Envoy holds for ever: write `{}s`", deadline + 10),
                );
            } else if idle <= gate.deadline_ms.saturating_add(LAST_ANSWER) {
                let message = format!(
                    "the gate holds for {deadline} s and up to 5 s more, and Envoy for {} s",
                    idle / 1000
                );
                findings.at(node.unwrap_or(manager), message);
            }
        }
    }
}

fn inbound_gate<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (module, node) in listeners_with(inputs, "traffic_direction", "INBOUND") {
        findings.at(node, format!("the listener of `{}` is an inbound one", module.name()));
    }
}

/// Gates whose listeners have this field with this value.
fn listeners_with<'g>(
    inputs: &'g Inputs,
    field: &'static str,
    value: &'static str,
) -> impl Iterator<Item = (Module<'g>, Node<'g>)> {
    gates(inputs).flat_map(move |(module, _)| {
        let listeners = uses(inputs, module).into_iter().filter_map(listener);
        let fields = listeners.filter_map(move |listener| listener.field(field));
        fields.filter(move |node| node.text() == Some(value)).map(move |node| (module, node))
    })
}

fn unbound_gate<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (module, node) in listeners_with(inputs, "bind_to_port", "false") {
        findings.at(node, format!("the listener of `{}` is not bound", module.name()));
    }
}

fn secret_in_clear_text<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (module, _) in gates(inputs).filter(|(_, gate)| gate.secret.is_some()) {
        let place = module.part_or_all(&["gate", "secret"]);
        findings.at(place, "the secret can be read here: write `secret_key`");
    }
}

fn gate_without_state<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (module, gate) in gates(inputs).filter(|(_, gate)| gate.secret.is_none()) {
        let key = gate.secret_key.as_deref().unwrap_or(ADDRESS_KEY);
        for filter in uses(inputs, module) {
            let Some(filters) = filter
                .parent()
                .filter(|list| list.key_text().is_some_and(|key| key.starts_with("http")))
            else {
                continue;
            };
            let in_front = filters.items().take_while(|other| *other != filter);
            let mut states =
                in_front.flat_map(|other| other.list("typed_config.on_request_headers"));
            if !states.any(|state| state.text_of("object_key") == Some(key)) {
                findings.at(filter, format!("no filter in front of the gate writes `{key}`"));
            }
        }
    }
}

fn counts_itself<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (module, gate) in gates(inputs) {
        for manager in uses(inputs, module).into_iter().filter_map(connection_manager) {
            let Some(node) = manager.field("stat_prefix") else { continue };
            let Some(prefix) = node
                .text()
                .filter(|prefix| !gate.admin.ignore.iter().any(|ignored| ignored == prefix))
            else {
                continue;
            };
            findings.at(
                node,
                format!(
                    "`{prefix}` is not in `gate.admin.ignore`, which is {}",
                    gate.admin.ignore.join(", ")
                ),
            );
        }
    }
}
