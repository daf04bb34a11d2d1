//! Patches of an EnvoyFilter, and the object around them.

use laststream_filter::config::wire::Scope;

use crate::kind::misplaced;
use crate::objects::metadata;
use crate::parts::HCM;
use crate::placement::{self, Facts};
use laststream_base::yaml::{List, Map};
use laststream_policy::{ModuleLocation, Policy, PolicyProblem};

/// The part of the name of the filter that writes the peer information.
pub(super) const PEER: &str = "peer";

/// The reason for a patch, and the patch.
pub(super) type Patch = (&'static str, Map);

/// The annotation with the image that the volume must have; for `laststream lint`.
pub const IMAGE_ANNOTATION: &str = "laststream.dev/image";

pub(super) fn object(
    policy: &Policy,
    name: &str,
    source: Option<&ModuleLocation>,
    patches: impl IntoIterator<Item = Patch>,
) -> Map {
    let patches =
        patches.into_iter().fold(List::new(), |list, (why, patch)| list.note(why).item(patch));
    let Facts { selector, targets, .. } = placement::facts(policy);
    let selector = selector.map(|labels| Map::of("labels", labels));
    let image = match source {
        Some(ModuleLocation::Mounted { reference, .. }) => Some(
            Map::new()
                .note("The image of the volume; `laststream lint` compares both.")
                .with(IMAGE_ANNOTATION, reference.as_str()),
        ),
        _ => None,
    };
    let metadata = metadata(policy, name).with_some("annotations", image);
    let spec = spec(selector, targets).with("configPatches", patches);
    crate::objects::object("networking.istio.io/v1alpha3", "EnvoyFilter", metadata, spec)
}

/// Resources without a priority are applied before this one, so laststream's filters end up in
/// front of all others that are inserted first.
const PRIORITY: u16 = 100;

fn spec(selector: Option<Map>, targets: Option<List>) -> Map {
    Map::new()
        .with_some("workloadSelector", selector)
        .note("By name: a selector would reach the same labels on other gateways.")
        .with_some("targetRefs", targets)
        .note(
            "Patches of equal priority are applied by age: without it the order changes when \
            another resource is applied again.",
        )
        .with("priority", PRIORITY)
}

/// Names must differ over all resources on a proxy: a name that occurs twice makes Envoy reject the
/// whole update.
pub(super) fn name_of(policy: &Policy, part: &str) -> String {
    match &policy.namespace {
        Some(namespace) => format!("{}.{namespace}.{part}", policy.name),
        None => format!("{}.{part}", policy.name),
    }
}

/// Istio's patch context for the listeners of a scope.
pub(super) fn context_of(scope: Scope) -> &'static str {
    match scope {
        Scope::Inbound => "SIDECAR_INBOUND",
        Scope::Outbound => "SIDECAR_OUTBOUND",
        Scope::Gateway => "GATEWAY",
    }
}

/// The same for a gateway's listeners, or for those of a sidecar in this scope.
pub(super) fn context_at(policy: &Policy, of_sidecar: Scope) -> &'static str {
    let is_sidecar = policy.placement.facts().has_app_calls;
    context_of(if is_sidecar { of_sidecar } else { Scope::Gateway })
}

/// The patch that puts a filter in front of all others of the connection managers.
pub(super) fn first(context: &str, filter: Map) -> Map {
    patch("HTTP_FILTER", Some(in_managers(context)), "INSERT_FIRST", filter)
}

pub(super) fn in_managers(context: &str) -> Map {
    in_managers_at(context, None)
}

/// The same, for the HTTP filter of this name.
pub(super) fn in_managers_at(context: &str, filter: Option<&str>) -> Map {
    let manager =
        Map::of("name", HCM).with_some("subFilter", filter.map(|name| Map::of("name", name)));
    Map::of("context", context).with("listener", Map::of("filterChain", Map::of("filter", manager)))
}

pub(super) fn patch(apply_to: &str, matching: Option<Map>, operation: &str, value: Map) -> Map {
    Map::of("applyTo", apply_to)
        .with_some("match", matching)
        .with("patch", Map::of("operation", operation).with("value", value))
}

/// Whether the module is configured in the listener itself. Kubelet mounts the file before Envoy
/// starts, so there is nothing to discover.
pub(super) fn is_inline(source: &ModuleLocation) -> bool {
    matches!(source, ModuleLocation::Mounted { .. })
}

pub(super) fn takes_envoyfilters(policy: &Policy) -> Result<(), PolicyProblem> {
    placement::facts(policy).no_envoyfilter.map_or(Ok(()), misplaced)
}
