//! The Wasm filters of all files, and which of them are laststream's.

use std::cmp::Reverse;

use laststream_filter::config::wire::{Configuration, Gate, Role, Scope, Starts};

use super::wasm_filter::FilterFacts;
pub(super) use super::wasm_filter::Module;
use manifest_lint::{Inputs, Pod, Reach, Selected, bootstraps_of, pods};

/// The facts about the Wasm filters of all files, computed once.
fn filter_facts(inputs: &Inputs) -> &[FilterFacts] {
    let facts = inputs.computed.get_or_init(|| Box::new(FilterFacts::all(inputs)));
    facts.downcast_ref::<Vec<FilterFacts>>().map_or(&[], Vec::as_slice)
}

/// The Wasm filters of all files.
pub(super) fn modules(inputs: &Inputs) -> impl Iterator<Item = Module<'_>> {
    filter_facts(inputs).iter().map(move |known| Module::of(inputs, known))
}

/// laststream's filters of all files.
pub(super) fn ours(inputs: &Inputs) -> impl Iterator<Item = Module<'_>> {
    modules(inputs).filter(|module| module.is_ours())
}

/// laststream's filters of all files that have this role, with their configuration.
pub(super) fn of_role(
    inputs: &Inputs,
    role: Role,
) -> impl Iterator<Item = (Module<'_>, &Configuration)> {
    let configured = ours(inputs).filter_map(|module| Some((module, module.wire()?)));
    configured.filter(move |(_, wire)| wire.role == role)
}

/// laststream's gates of all files, with their configuration.
pub(super) fn gates(inputs: &Inputs) -> impl Iterator<Item = (Module<'_>, Gate)> {
    let gates = of_role(inputs, Role::Gate);
    gates.map(|(module, wire)| (module, wire.gate.clone().unwrap_or_default()))
}

/// Whether the drain of this gate needs no stop hook.
pub(super) fn starts_by_agent(gate: &Gate) -> bool {
    gate.starts == Starts::Agent
}

/// laststream's counters of all files, with their scopes.
pub(super) fn counters(inputs: &Inputs) -> impl Iterator<Item = (Module<'_>, Scope)> {
    of_role(inputs, Role::Stream).map(|(module, wire)| (module, wire.scope))
}

/// The gates of one pod that are looked at, those with the longest deadlines. More would not add
/// information, and with all of them on one gateway the work would grow with the square of the
/// files.
const MOST_GATES: usize = 8;

/// The pods that a gate of these files applies to, with the gate and its configuration. The gate of
/// a pod with the longest deadline comes first.
pub(super) fn gated_pods(inputs: &Inputs) -> Vec<(Module<'_>, Gate, Pod<'_>)> {
    let mut gates: Vec<_> = gates(inputs).collect();
    gates.sort_by_key(|(_, gate)| Reverse(gate.deadline_ms));
    let mut gated = Vec::new();
    for pod in pods(inputs).filter(|pod| !gates.is_empty() && pod.has_proxy()) {
        let selected = Selected::of(pod);
        let trees: Vec<u32> =
            bootstraps_of(inputs, pod).filter_map(|part| Some(part.root.ok()??.tree)).collect();
        let nearest = gates.iter().filter(|(module, _)| match module.reach() {
            Reach::Selector(mesh) => mesh.may_select(&selected),
            Reach::Envoy { tree, .. } => trees.contains(tree),
        });
        gated.extend(nearest.take(MOST_GATES).map(|(module, gate)| (*module, gate.clone(), pod)));
    }
    gated
}
