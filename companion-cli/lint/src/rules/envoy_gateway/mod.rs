//! LS403, LS506, LS592, LS596: EnvoyProxies with a gate, and the policies beside them. Envoy
//! Gateway accepts most of these mistakes without an error.

use super::statistics::ENVOY_COUNT_STATS;
use crate::modules::{Module, gates};
use laststream_filter::config::wire::Gate;
use manifest_lint::{
    Checks, Findings, Inputs, Node, Object, beside, object_of, of_kind, referred, users,
};

pub(super) const CHECKS: Checks = &[
    ("LS403", other_vm_id),
    ("LS592", mixed_hook),
    ("LS596", unnamed),
    ("LS506", no_own_count),
    ("LS592", no_hook),
];

/// A gate in the bootstrap of an EnvoyProxy.
struct Placed<'g> {
    module: Module<'g>,
    gate: Gate,
    proxy: Object<'g>,
}

fn placed(inputs: &Inputs) -> impl Iterator<Item = Placed<'_>> {
    gates(inputs).filter_map(|(module, gate)| {
        let proxy = proxy_of(module.plugin)?;
        Some(Placed { module, gate, proxy })
    })
}

/// The gates by the specs of their pods, with their names and deadlines in milliseconds.
pub(super) fn gates_of_pods(inputs: &Inputs) -> impl Iterator<Item = (Node<'_>, (&str, u64))> {
    placed(inputs).filter_map(|Placed { module, gate, proxy }| {
        Some((pod_of(proxy)?, (module.name(), gate.deadline_ms)))
    })
}

/// The EnvoyProxy whose bootstrap contains a node.
pub(super) fn proxy_of(node: Node<'_>) -> Option<Object<'_>> {
    let holder = node.carrier()?;
    let object = object_of(holder.outermost())?;
    (object.kind == "EnvoyProxy").then_some(object)
}

/// The patch of the Deployment or the DaemonSet.
fn patch_node(proxy: Object<'_>) -> Option<Node<'_>> {
    let mut patches =
        proxy.node.all("spec.provider.kubernetes.envoyDeployment|envoyDaemonSet.patch");
    patches.find(|patch| patch.get("value").is_some())
}

/// The patch's value; a Deployment or a DaemonSet.
pub(super) fn patched(proxy: Object<'_>) -> Option<Node<'_>> {
    patch_node(proxy)?.get("value")
}

/// Whether the patch is a JSON merge, which replaces whole lists and ignores `$patch`. The default
/// is a strategic merge.
fn is_json_merge(proxy: Object<'_>) -> bool {
    patch_node(proxy).and_then(|patch| patch.text_of("type")) == Some("JSONMerge")
}

/// The node of the patch that removes the shutdown manager from the pod.
fn deleted_manager(proxy: Object<'_>) -> Option<Node<'_>> {
    let containers = pod_of(proxy)?.get("containers")?;
    let manager = pod_of(proxy)?.item("containers", "name", "shutdown-manager");
    if is_json_merge(proxy) {
        return Some(containers).filter(|_| manager.is_none());
    }
    let patch = manager?.get("$patch")?;
    Some(patch).filter(|patch| patch.text() == Some("delete"))
}

/// The spec of the pods in the patch.
fn pod_of(proxy: Object<'_>) -> Option<Node<'_>> {
    patched(proxy)?.fields("spec.template.spec")
}

/// The stop hook of Envoy.
fn hook_of(proxy: Object<'_>) -> Option<Node<'_>> {
    pod_of(proxy)?.item("containers", "name", "envoy")?.fields("lifecycle.preStop")
}

/// Counters in EnvoyExtensionPolicies: the policy, and the index in its list.
fn counters(inputs: &Inputs) -> impl Iterator<Item = (Object<'_>, usize)> {
    of_kind(inputs, "EnvoyExtensionPolicy").flat_map(|policy| {
        let modules = policy.node.list("spec.wasm").enumerate();
        modules.filter(|(_, wasm)| is_ours(*wasm)).map(move |(index, _)| (policy, index))
    })
}

fn is_ours(wasm: Node<'_>) -> bool {
    let mut texts = ["name", "rootID", "code.image.url", "code.http.url"]
        .into_iter()
        .filter_map(|path| wasm.text_of(path));
    wasm.fields("config.scope").is_some() || texts.any(|text| text.contains("laststream"))
}

fn other_vm_id<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let policies: Vec<_> = counters(inputs).map(|(policy, _)| policy.node).collect();
    let shared = inputs.keyed("vmSharingScope").filter(|scope| scope.text() == Some("Namespace"));
    for scope in shared.filter(|scope| scope.upwards().any(|node| policies.contains(&node))) {
        findings.at(scope, "the counter then shares a VM, and its vm_id is another");
    }
    for Placed { module, proxy, .. } in placed(inputs) {
        let vm = module.vm_id();
        let gateways = gateways_of(proxy);
        if is_named_by(vm, proxy, &gateways) {
            continue;
        }
        // A namespace that the manifests leave to kubectl or kustomize may be any.
        let expected: Vec<(Option<&str>, String)> = counters(inputs)
            .filter(|(policy, _)| policy.is_near(proxy) && policy.may_target_one_of(&gateways))
            .map(|(policy, index)| {
                let namespace = policy.namespace().or(proxy.namespace());
                (namespace, format!("{}/wasm/{index}", policy.name()))
            })
            .collect();
        let agrees = vm.starts_with(POLICY) && expected.is_empty();
        if !agrees {
            let expected = expected.first().map_or("…".to_owned(), |(namespace, rest)| {
                format!("{}/{rest}", namespace.unwrap_or("NAMESPACE"))
            });
            let expected = format!("{POLICY}{expected}");
            findings.at(module.vm_id_place(), format!("`{vm}` is not the counter's: `{expected}`"));
        }
    }
}

/// Whether a vm_id is that of a counter for these Gateways.
fn is_named_by(vm: &str, proxy: Object<'_>, gateways: &[&str]) -> bool {
    let parts: Vec<&str> = vm.strip_prefix(POLICY).unwrap_or_default().split('/').collect();
    let [namespace, name, "wasm", index] = parts[..] else { return false };
    let Ok(index) = index.parse() else { return false };
    beside(proxy, "EnvoyExtensionPolicy", name).any(|policy| {
        let known = policy.namespace().or(proxy.namespace());
        policy.may_target_one_of(gateways)
            && known.map_or(!namespace.is_empty(), |known| known == namespace)
            && policy.node.list("spec.wasm").nth(index).is_some_and(is_ours)
    })
}

/// The beginning of the vm_id that Envoy Gateway makes of an EnvoyExtensionPolicy.
const POLICY: &str = "envoyextensionpolicy/";

/// The Gateways of these files that name an EnvoyProxy.
fn gateways_of(proxy: Object<'_>) -> Vec<&str> {
    users(proxy).map(Object::name).collect()
}

fn unnamed<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let is_named = |name: &str| {
        let mut references = inputs.keyed("parametersRef");
        references.any(|reference| referred(reference, "EnvoyProxy") == Some(name))
    };
    // If the files have no Gateway, it is elsewhere, and the EnvoyProxies that it names are
    // unknown.
    let is_of_api = |gateway: Object<'_>| gateway.group() == "gateway.networking.k8s.io";
    if of_kind(inputs, "Gateway").any(is_of_api) {
        for Placed { proxy, .. } in placed(inputs).filter(|placed| !is_named(placed.proxy.name())) {
            findings.at(
                proxy.node.get("metadata").unwrap_or(proxy.node),
                format!("no Gateway of these files names `{}`", proxy.name()),
            );
        }
    }
}

fn no_own_count<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for Placed { proxy, .. } in placed(inputs) {
        let Some(metrics) = proxy.node.fields("spec.telemetry.metrics") else { continue };
        let disabled = metrics.fields("prometheus.disable");
        if let Some(node) = disabled.filter(|node| node.is_true()) {
            findings.at(node, "the cluster that the gate asks is not there");
        }
        let Some(matches) = metrics.get("matches").filter(|list| list.items().next().is_some())
        else {
            continue;
        };
        let names = |statistic: &&&str| matches.items().any(|item| covers(item, statistic));
        if let Some(missing) = ENVOY_COUNT_STATS.iter().find(|statistic| !names(statistic)) {
            findings.at(matches, format!("no match names `{missing}`"));
        }
    }
}

/// Whether an item of `matches` includes this statistic of connection managers.
fn covers(item: Node<'_>, statistic: &str) -> bool {
    // The stat prefix in the middle of the name is unknown; the beginning and the end are known.
    const BEGINNING: &str = "http.";
    let Some(value) = item.text_of("value") else { return false };
    let ending = format!(".{statistic}");
    match item.text_of("type") {
        Some("Prefix") => BEGINNING.starts_with(value),
        Some("Suffix") => ending.ends_with(value),
        Some("RegularExpression") => {
            value.contains(statistic) || value.ends_with(".*") || value.ends_with(".+")
        }
        _ => value.starts_with(BEGINNING) && value.ends_with(&ending),
    }
}

fn no_hook<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for proxy in of_kind(inputs, "EnvoyProxy") {
        let Some(deleted) = deleted_manager(proxy) else { continue };
        if hook_of(proxy).is_none_or(|hook| !has_kind(hook)) {
            findings.at(deleted, "the hook that asks it fails at once");
        }
    }
}

/// The kind of Envoy Gateway's own hook.
const OWN: &str = "httpGet";
/// The kinds of hook.
const HOOK: &str = "exec httpGet sleep tcpSocket";

/// Whether a hook has an action.
fn has_kind(hook: Node<'_>) -> bool {
    HOOK.split(' ').any(|kind| hook.get(kind).is_some())
}

fn mixed_hook<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for proxy in of_kind(inputs, "EnvoyProxy") {
        let Some(hook) = hook_of(proxy) else { continue };
        if is_json_merge(proxy) {
            let directive = hook.get("$patch");
            let message = "`JSONMerge` does not know `$patch`: write `type: StrategicMerge`";
            directive.into_iter().for_each(|node| findings.at(node, message));
            continue;
        }
        let replaces = hook.text_of("$patch") == Some("replace");
        if !replaces && HOOK.split(' ').any(|kind| kind != OWN && hook.get(kind).is_some()) {
            let message = format!("Envoy Gateway's own `{OWN}` stays beside it");
            findings.at(hook.get(OWN).unwrap_or(hook), message);
        }
    }
}
