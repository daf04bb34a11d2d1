//! A gate that counts by Envoy alone, and its route that refuses new requests: LS418.

use laststream_filter::config::wire::GateCount;
use laststream_filter::gate::LATCH;

use crate::modules::gates;
use manifest_lint::{Findings, Inputs, Node, ProxySelector, patch_of};

/// The name of the route that is rendered.
const ROUTE: &str = "laststream-latch";

pub(super) fn without_latch<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let keys: Vec<Node<'g>> = inputs.keyed_field("runtime_key").collect();
    for (gate, _) in gates(inputs).filter(|(_, gate)| gate.count == GateCount::Envoy) {
        let of_gate = keys.iter().filter(|key| may_meet(gate.plugin, **key));
        let (latches, others): (Vec<Node<'g>>, Vec<_>) =
            of_gate.partition(|key| key.text() == Some(LATCH));
        if !latches.is_empty() {
            continue;
        }
        let is_of_latch = |key: &&Node<'g>| {
            let mut above = key.upwards().filter_map(|node| node.field("name"));
            above.next().and_then(Node::text) == Some(ROUTE)
        };
        match others.iter().find(is_of_latch) {
            Some(key) => {
                let text = key.text().unwrap_or_default();
                findings.at(*key, format!("the gate closes `{LATCH}`, and not `{text}`"));
            }
            None => {
                let message = format!("no route has the runtime key `{LATCH}`");
                findings.at(gate.part_or_all(&["gate", "count"]), message);
            }
        }
    }
}

/// Whether a gate and a route may be on one proxy.
fn may_meet(gate: Node<'_>, route: Node<'_>) -> bool {
    match (patch_of(gate), patch_of(route)) {
        (Some(gate), Some(route)) => ProxySelector::of(gate).may_meet(&ProxySelector::of(route)),
        (None, None) => gate.tree == route.tree,
        _ => false,
    }
}
