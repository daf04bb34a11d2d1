//! LS58x: waypoints, and gates in Envoy's bootstrap. Istio's agent merges a file into the bootstrap
//! and reports none of its errors.

use laststream_filter::config::wire::{Gate, Scope};

use crate::modules::{Module, gates};
use laststream_base::istio::WAYPOINTS;
use laststream_policy::placement::TUNNELS;
use manifest_lint::{
    BootstrapPart, Checks, Findings, Inputs, Overlaid, Reach, bootstraps, envoy_filters, named,
    patches,
};

pub(super) const CHECKS: Checks = &[
    ("LS581", unreadable_bootstrap),
    ("LS582", tunnels_hold),
    ("LS403", vm_id_in_waypoint),
    ("LS584", envoy_filter_for_waypoint),
];

fn unreadable_bootstrap<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for part in bootstraps(inputs) {
        match part.root {
            Err(why) => findings.at(part.path, why),
            Ok(Some(root)) if !root.is_map() => findings.at(part.path, "the file is not a map"),
            Ok(_) => {}
        }
    }
}

/// The gates in bootstraps of waypoints, and of pods that may be waypoints.
fn gates_of_waypoints(inputs: &Inputs) -> impl Iterator<Item = (Module<'_>, Gate)> {
    let parts: Vec<BootstrapPart<'_>> = bootstraps(inputs).collect();
    gates(inputs).filter(move |(module, gate)| {
        let Reach::Envoy { tree, .. } = module.reach() else { return false };
        let is_here =
            |part: &&BootstrapPart<'_>| matches!(part.root, Ok(Some(root)) if root.tree == *tree);
        gate.scopes.contains(&Scope::Inbound)
            && parts.iter().find(is_here).is_some_and(|part| {
                part.pod.is_overlay() && Overlaid::by(part.pod).may_be_of(WAYPOINTS)
            })
    })
}

fn tunnels_hold<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (module, gate) in gates_of_waypoints(inputs) {
        let has = |list: &[String]| list.iter().any(|prefix| prefix == TUNNELS);
        if has(&gate.admin.tunnels) {
            continue;
        }
        let message = if has(&gate.admin.ignore) {
            format!("`{TUNNELS}` is in `gate.admin.ignore`")
        } else {
            format!("`{TUNNELS}` is not in `gate.admin.tunnels`")
        };
        findings.at(module.part_or_all(&["gate", "admin"]), message);
    }
}

fn vm_id_in_waypoint<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (module, _) in gates_of_waypoints(inputs).filter(|(module, _)| !module.vm_id().is_empty()) {
        let message = format!("the counter has none, the gate `{}`", module.vm_id());
        findings.at(module.vm_id_place(), message);
    }
}

fn envoy_filter_for_waypoint<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for patch in patches(inputs).filter(|patch| patch.context() == "WAYPOINT") {
        findings.at(
            patch.context_node().unwrap_or(patch.node),
            "istiod does not read patches of this context",
        );
    }
    for filter in envoy_filters(inputs) {
        for target in filter.policy_targets() {
            let text = |key| target.text_of(key).unwrap_or_default();
            let waypoint = match text("kind") {
                "GatewayClass" => text("name") == WAYPOINTS,
                "Gateway" => named(inputs, "Gateway", text("name"))
                    .any(|gateway| gateway.gateway_class() == WAYPOINTS),
                _ => false,
            };
            if waypoint {
                findings.at(target, format!("`{}` is a waypoint", text("name")));
            }
        }
    }
}
