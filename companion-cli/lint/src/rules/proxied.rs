//! LS365: two filters that take PROXY protocol headers from one connection.

use laststream_filter::config::wire::Preset;

use super::scheme_filters::{is_patched_beside, restoring_modules};
use crate::envoy_filter::{Patch, patch_of};
use crate::finding::{Checks, Findings};
use crate::inputs::Inputs;
use crate::listeners::uses;
use crate::modules::Module;
use crate::node::Node;
use crate::objects::object_of;
use crate::overlaid::Overlaid;
use crate::pods::pod_around;
use crate::proxy_protocol::{header_filters, is_type, policy_settings, topology_settings};
use crate::reach::{ProxySelector, Reach};

pub(super) const CHECKS: Checks = &[("LS365", two_header_filters)];

const TAKEN_TWICE: &str = "another filter of this listener takes the load balancer's header";

fn two_header_filters<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let lists = inputs.keyed_field("listener_filters");
    for list in lists {
        let configs = list.items().filter_map(|filter| filter.field("typed_config"));
        for second in configs.filter(|config| is_type(*config, "ProxyProtocol")).skip(1) {
            findings.at(second, TAKEN_TWICE);
        }
    }
    let modules = restoring_modules(inputs);
    for (module, _) in modules.filter(|(_, proto)| proto.presets.contains(&Preset::Nlb)) {
        if let Reach::Selector(mesh) = module.reach() {
            twice_in_mesh(inputs, module, mesh, findings);
        }
    }
    for (policy, _) in policy_settings(inputs) {
        for filter in header_filters(inputs).filter(|filter| is_patched_beside(*filter, policy)) {
            findings.at(filter, format!("the ClientTrafficPolicy `{}` adds one", policy.name()));
        }
    }
}

/// Reports all filters but the first one, which is that of the module's own resource if there is
/// one.
fn twice_in_mesh<'g>(
    inputs: &'g Inputs,
    module: Module<'g>,
    mesh: &ProxySelector,
    findings: &mut Findings<'g>,
) {
    let own = module.patch().map(|patch| patch.filter.node);
    let mut filters: Vec<(Node<'g>, Patch<'g>)> = header_filters(inputs)
        .filter_map(|filter| Some((filter, patch_of(filter)?)))
        .filter(|(_, patch)| patch.operation() != "REMOVE" && reaches(inputs, *patch, module))
        .collect();
    filters.sort_by_key(|(_, patch)| Some(patch.filter.node) != own);
    let Some((_, first)) = filters.first().copied() else { return };
    for (filter, _) in filters.iter().skip(1).filter(|(_, patch)| ports_meet(*patch, first)) {
        findings.at(*filter, TAKEN_TWICE);
    }
    for setting in topology_settings(inputs).filter(|setting| concerns(inputs, *setting, mesh)) {
        findings.at(setting, format!("the EnvoyFilter `{}` adds one, too", first.filter.name()));
    }
}

/// Whether the listeners that contain a module may get this patch.
fn reaches(inputs: &Inputs, patch: Patch<'_>, module: Module<'_>) -> bool {
    let reach = Reach::Selector(ProxySelector::of(patch));
    let mut places = uses(inputs, module).into_iter().filter_map(patch_of);
    reach.may_meet(module.reach()) && places.any(|place| place.contexts_meet(patch))
}

/// Whether two patches may reach one listener. Those for different ports never do.
fn ports_meet(one: Patch<'_>, two: Patch<'_>) -> bool {
    let port = |patch: Patch<'_>| {
        let port = patch.node.get("match")?.get("listener")?.get("portNumber")?;
        port.number()
    };
    port(one).zip(port(two)).is_none_or(|(one, two)| one == two)
}

/// Whether a setting of Istio concerns pods that an EnvoyFilter selects.
fn concerns(inputs: &Inputs, setting: Node<'_>, mesh: &ProxySelector) -> bool {
    if let Some(pod) = pod_around(setting) {
        return mesh.may_select(inputs, pod);
    }
    let holder = object_of(setting.outermost()).filter(|object| object.kind == "Gateway");
    holder.is_none_or(|gateway| mesh.may_select_gateway(&Overlaid::of_gateway(gateway)))
}
