//! LS4xx: the gate, and the VM that it runs in.

mod neighbours;

use laststream_filter::config::wire::{Gate, GateCount, Scope};
use laststream_filter::gate::LATCH;
use laststream_filter::gate::access::ADDRESS_KEY;

use crate::modules::{counters, gates, starts_by_agent};
use crate::users::{addresses, listeners, uses};
use manifest_lint::{
    Checks, Findings, Inputs, Node, Patch, Pod, Reach, clusters, connection_manager, is_loopback,
    patches_of, routes, stop_hooks, whole_bootstraps,
};
use neighbours::{other_vm_id, shared_vm, two_gates, uncounted_scope};

pub(super) const CHECKS: Checks = &[
    ("LS401", open_gate),
    ("LS403", shared_vm),
    ("LS403", other_vm_id),
    ("LS404", fails_open),
    ("LS404", open_route),
    ("LS404", inbound_only),
    ("LS404", wrong_listener),
    ("LS404", counts_itself),
    ("LS407", uncounted_scope),
    ("LS408", idle_timeout),
    ("LS412", two_gates),
    ("LS413", secret_in_clear_text),
    ("LS414", gate_without_state),
    ("LS415", missing_cluster),
    ("LS415", missing_agent),
    ("LS416", heeds_overload),
    ("LS417", ignored_counter),
    ("LS418", without_latch),
];

fn open_gate<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (module, _) in gates(inputs).filter(|(_, gate)| !has_secret(gate)) {
        let addresses = addresses(inputs, module).filter(|(address, _)| !is_loopback(*address));
        for (address, _) in addresses {
            let (gate, text) = (module.name(), address.text().unwrap_or_default());
            findings.at(address, format!("the gate `{gate}` listens on `{text}`"));
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

/// The gates, each with a connection manager that runs it.
fn managed_gates(inputs: &Inputs) -> impl Iterator<Item = (Gate, Node<'_>)> {
    gates(inputs).flat_map(move |(module, gate)| {
        let managers = uses(inputs, module).into_iter().filter_map(connection_manager);
        managers.map(move |manager| (gate.clone(), manager))
    })
}

fn open_route<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for route in managed_gates(inputs).flat_map(|(_, manager)| routes(manager)) {
        let status = route.fields("direct_response.status");
        if status.and_then(Node::number) != Some(503) {
            let message = "behind the gate there must be a direct response with 503";
            findings.at(status.unwrap_or(route), message);
        }
    }
}

fn inbound_only<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let is_wrong = |gate: &Gate| gate.begin.inbound_only && gate.scopes.contains(&Scope::Gateway);
    for (module, gate) in gates(inputs).filter(|(_, gate)| is_wrong(gate)) {
        let scope: &str = gate.scopes.first().map_or("gateway", Into::into);
        let message =
            format!("the gate waits for {scope} streams, and drains inbound listeners only");
        findings.at(module.part_or_all(&["gate", "begin", "inbound_only"]), message);
    }
    for hook in stop_hooks(inputs).filter(|hook| hook.pod().is_some_and(Pod::is_gateway)) {
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
    for (gate, manager) in managed_gates(inputs) {
        let node = manager.field("stream_idle_timeout");
        let idle = node.and_then(Node::millis).unwrap_or(IDLE);
        let deadline = gate.deadline_ms / 1000;
        if idle == 0 {
            let message = format!("an idle stream never times out: set `{}s`", deadline + 10);
            findings.at(node.unwrap_or(manager), message);
        } else if idle <= gate.deadline_ms.saturating_add(LAST_ANSWER) {
            let message = format!(
                "the gate holds for {deadline} s and up to 5 s more, and Envoy for {} s",
                idle / 1000
            );
            findings.at(node.unwrap_or(manager), message);
        }
    }
}

fn wrong_listener<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let has = |node: Option<Node<'g>>, text| node.and_then(Node::text) == Some(text);
    for (module, _) in gates(inputs) {
        let gate = module.name();
        for listener in listeners(inputs, module) {
            for (field, wrong, what) in [
                ("traffic_direction", "INBOUND", "is an inbound one"),
                ("bind_to_port", "false", "is not bound"),
            ] {
                let node = listener.field(field).filter(|node| has(Some(*node), wrong));
                let report = |at| findings.at(at, format!("the listener of `{gate}` {what}"));
                node.into_iter().for_each(report);
            }
        }
    }
}

fn heeds_overload<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (module, _) in gates(inputs) {
        for listener in listeners(inputs, module) {
            let bypass = listener.field("bypass_overload_manager");
            if !bypass.is_some_and(Node::is_true) {
                let place = bypass.or_else(|| listener.get("name")).unwrap_or(listener);
                findings
                    .at(place, format!("an overloaded Envoy refuses hooks of `{}`", module.name()));
            }
        }
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
            let is_http =
                |list: &Node<'_>| list.key_text().is_some_and(|key| key.starts_with("http"));
            let Some(filters) = filter.parent().filter(is_http) else { continue };
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
    for (gate, manager) in managed_gates(inputs) {
        let node = manager.field("stat_prefix");
        let Some((node, prefix)) = node.and_then(|node| Some((node, node.text()?))) else {
            continue;
        };
        let ignored = &gate.admin.ignore;
        if !ignored.iter().any(|ignored| ignored == prefix) {
            let ignored = ignored.join(", ");
            let message = format!("`{prefix}` is not in `gate.admin.ignore`, which is {ignored}");
            findings.at(node, message);
        }
    }
}

fn ignored_counter<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (module, gate) in gates(inputs) {
        for (counter, _) in counters(inputs).filter(|(counter, _)| module.may_meet(*counter)) {
            let managers = uses(inputs, counter).into_iter().filter_map(connection_manager);
            for prefix in managers.filter_map(|manager| manager.field("stat_prefix")) {
                if gate.admin.ignore.iter().any(|ignored| prefix.text() == Some(ignored)) {
                    let (name, gate) = (counter.name(), module.name());
                    let message = format!("`{name}` counts here, and `{gate}` ignores this name");
                    findings.at(prefix, message);
                }
            }
        }
    }
}

fn missing_cluster<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for bootstrap in whole_bootstraps(inputs) {
        let Some(clusters) = clusters(bootstrap) else { continue };
        let reach = Reach::of(bootstrap);
        for (module, gate) in gates(inputs).filter(|(module, _)| *module.reach() == reach) {
            for ([part, field], name) in called(&gate) {
                if !name.is_empty() && !clusters.contains(&name) {
                    let place = module.part_or_all(&["gate", part, field]);
                    findings.at(place, format!("no cluster has the name `{name}`"));
                }
            }
        }
    }
}

/// The fields of a gate that name a cluster, and the names. An empty one is none.
fn called(gate: &Gate) -> impl Iterator<Item = ([&'static str; 2], &str)> {
    let app = gate.app.as_ref().map(|app| (["app", "cluster"], &*app.cluster));
    let notify = gate.notify.as_ref().map(|notify| (["notify", "cluster"], &*notify.cluster));
    let admin = (["admin", "cluster"], &*gate.admin.cluster);
    [admin].into_iter().chain(app).chain(notify).chain(agent_of(gate))
}

/// The same for the cluster of Istio's agent, which a gate asks whose drain starts with its stop.
fn agent_of(gate: &Gate) -> Option<([&'static str; 2], &str)> {
    let agent = (["admin", "agent_cluster"], &*gate.admin.agent_cluster);
    starts_by_agent(gate).then_some(agent)
}

/// Istio's bootstrap has no cluster for it: an EnvoyFilter adds one.
fn missing_agent<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let added = patches_of(inputs, "CLUSTER").filter_map(Patch::value);
    let added: Vec<_> =
        added.map(|cluster| (cluster.text_of("name"), Reach::of(cluster))).collect();
    for (module, gate) in gates(inputs).filter(|(module, _)| module.patch().is_some()) {
        let Some(([part, field], name)) = agent_of(&gate) else { continue };
        let is_it = |(own, reach): &(Option<&str>, Reach)| {
            *own == Some(name) && reach.may_meet(module.reach())
        };
        if !added.iter().any(is_it) {
            let place = module.part_or_all(&["gate", part, field]);
            findings.at(place, format!("no patch adds the cluster `{name}`"));
        }
    }
}

/// A gate that counts by Envoy alone needs a route that refuses new requests.
fn without_latch<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let routes = inputs.keyed_field("runtime_key").filter(|key| key.text() == Some(LATCH));
    let routes: Vec<Reach> = routes.map(Reach::of).collect();
    for (gate, _) in gates(inputs).filter(|(_, gate)| gate.count == GateCount::Envoy) {
        if !routes.iter().any(|route| route.may_meet(gate.reach())) {
            let message = format!("no route has the runtime key `{LATCH}`");
            findings.at(gate.part_or_all(&["gate", "count"]), message);
        }
    }
}
