//! A gate beside its counters and other gates: LS403, LS407, LS412.

use laststream_filter::config::wire::{GateCount, Scope};

use crate::modules::{Module, counters, gates};
use crate::plugin_configs::{WasmPlugin, wasm_plugins};
use crate::rules::envoy_gateway::proxy_of;
use crate::users::uses;
use manifest_lint::{
    Findings, Inputs, Patch, Pod, ProxySelector, Reach, Selected, bootstraps, patch_of,
};

/// The number of gates that are compared pair by pair. More would not add information.
const MOST_GATES: usize = 64;

pub(super) fn shared_vm<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let vm = |module: Module<'g>| (module.vm_id(), module.vm_configuration());
    let counters: Vec<_> = counters(inputs).map(|(counter, _)| (counter, vm(counter))).collect();
    for (gate, _) in gates(inputs) {
        let gate_vm = vm(gate);
        let shared = counters.iter().find(|(counter, vm)| {
            *vm == gate_vm && gate.may_meet(*counter) && gate.shares_code(*counter)
        });
        if let Some((counter, _)) = shared {
            findings.at(
                gate.vm().unwrap_or(gate.plugin),
                format!("`{}` and `{}` are one VM", gate.name(), counter.name()),
            );
        }
    }
}

pub(super) fn other_vm_id<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let counters: Vec<_> =
        counters(inputs).map(|(counter, scope)| (counter, scope, counter.vm_id())).collect();
    for (gate, wire) in gates(inputs) {
        let gate_vm = gate.vm_id();
        let other = counters.iter().find(|(counter, scope, vm_id)| {
            *vm_id != gate_vm && wire.scopes.contains(scope) && gate.may_meet(*counter)
        });
        let Some((counter, ..)) = other else { continue };
        let (name, vm_id) = (counter.name(), counter.vm_id());
        findings.at(gate.vm_id_place(), format!("the counter `{name}` has the vm_id `{vm_id}`"));
    }
}

pub(super) fn uncounted_scope<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let holders: Vec<(u32, Pod<'g>)> =
        bootstraps(inputs).filter_map(|part| Some((part.root.ok()??.tree, part.pod))).collect();
    let plugins: Vec<_> = plugin_scopes(inputs).collect();
    // Envoy Gateway's counter is in a separate policy: LS403.
    let by_filter = gates(inputs).filter(|(_, gate)| gate.count == GateCount::Filter);
    for (module, gate) in by_filter.filter(|(module, _)| proxy_of(module.plugin).is_none()) {
        // The counter for a gate in a bootstrap comes from a resource that selects the gate's pods.
        let pods = holders.iter().filter(|(tree, _)| *tree == module.typed.tree);
        let pods: Vec<_> = pods.map(|(_, pod)| Selected::of(*pod)).collect();
        let selects = |mesh: &ProxySelector| pods.iter().any(|pod| mesh.may_select(pod));
        let counted: Vec<_> = counters(inputs)
            .filter(|(counter, _)| {
                module.may_meet(*counter)
                    || matches!(counter.reach(), Reach::Selector(mesh) if selects(mesh))
            })
            .map(|(_, scope)| scope)
            .chain(plugins.iter().filter(|(mesh, _)| selects(mesh)).map(|(_, scope)| *scope))
            .collect();
        let missing: Vec<_> = gate
            .scopes
            .iter()
            .filter(|scope| !counted.contains(scope))
            .map(Into::<&str>::into)
            .collect();
        if !missing.is_empty() {
            let place = module.part_or_all(&["gate", "scopes"]);
            let missing = missing.join(" or ");
            let message =
                format!("no filter of these files counts {missing} streams where this gate is");
            findings.at(place, message);
        }
    }
}

/// The scopes that Istio's Wasm plugins count, and the proxies that they select.
fn plugin_scopes(inputs: &Inputs) -> impl Iterator<Item = (ProxySelector, Scope)> {
    wasm_plugins(inputs).filter_map(|WasmPlugin { object, wasm }| {
        let names = [Some(object.name()), wasm.text_of("url")];
        let is_ours = names.into_iter().flatten().any(|name| name.contains("laststream"));
        let scope = match wasm.text_of("pluginConfig.scope") {
            None => Scope::default(),
            Some(name) => name.parse().ok()?,
        };
        is_ours.then(|| (ProxySelector::of_plugin(object), scope))
    })
}

pub(super) fn two_gates<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let mut earlier: Vec<(Module<'g>, Option<Patch<'g>>)> = Vec::new();
    for (module, _) in gates(inputs) {
        // An extension configuration reaches every selected proxy, whatever its context; the
        // context of the patch that uses it decides which listeners run the gate.
        let place = uses(inputs, module).into_iter().find_map(patch_of);
        let meets = |(other, there): &&(Module<'g>, Option<Patch<'g>>)| {
            let contexts = place.zip(*there).is_none_or(|(one, two)| one.contexts_meet(two));
            contexts && module.may_meet(*other)
        };
        if let Some((other, _)) = earlier.iter().find(meets) {
            let (own, other) = (module.name(), other.name());
            let message = format!("the gate `{own}` is on the same proxies as `{other}`");
            findings.at(module.plugin, message);
        }
        if earlier.len() < MOST_GATES {
            earlier.push((module, place));
        }
    }
}
