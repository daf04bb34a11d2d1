//! The objects that a change of a program affects.

use regex::bytes::RegexBuilder;

use crate::envoy_filter::{Patch, patches};
use crate::finding::Findings;
use crate::inputs::Inputs;
use crate::node::Node;
use crate::objects::{Object, beside, ip_detections, of_kind};
use crate::pods::pods;
use crate::upgrade::ISTIO;

/// The patch versions that are tried: an expression may name one of them.
const PATCH_VERSIONS: u32 = 20;

pub(super) fn patches_of_old_proxies<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let steps = || inputs.assume.upgrade.iter().filter(|step| step.program == ISTIO);
    let matches = |text: &str, (major, minor): (u32, u32)| {
        let mut builder = RegexBuilder::new(text);
        let Ok(expression) = builder.unicode(false).size_limit(1 << 20).build() else {
            return false;
        };
        let mut versions = (0..PATCH_VERSIONS).map(|patch| format!("{major}.{minor}.{patch}"));
        versions.any(|version| expression.is_match(version.as_bytes()))
    };
    for node in patches(inputs).filter_map(Patch::proxy_version) {
        let Some(text) = node.text() else { continue };
        for step in steps().filter(|step| matches(text, step.from)) {
            if !matches(text, step.to) {
                let (major, minor) = step.to;
                findings.at(node, format!("`{text}` matches no proxy of {major}.{minor}"));
            }
        }
    }
}

pub(super) fn wasm_plugins<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for plugin in of_kind(inputs, "WasmPlugin") {
        let place = plugin.node.get("kind").unwrap_or(plugin.node);
        findings.at(place, format!("`{}` is a WasmPlugin", plugin.name()));
    }
}

pub(super) fn old_versions<'g>(kinds: &[&str], inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let of_kinds = kinds.iter().flat_map(|kind| of_kind(inputs, kind));
    let old = of_kinds.filter_map(|object| {
        let version = object.node.get("apiVersion")?;
        let text = version.text().unwrap_or_default();
        let is_old =
            text.starts_with("gateway.networking.k8s.io/v1a") || text.ends_with("/v1beta1");
        is_old.then(|| (version, object.name()))
    });
    // A condition of the cluster, which holds for all of them or none.
    let old: Vec<_> = old.collect();
    if let Some((version, name)) = old.first() {
        let more = match old.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let message = format!("`{name}`{more} may be of a version that only older CRDs serve");
        findings.at(*version, message);
    }
}

pub(super) fn missing_overlays<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for gateway in of_kind(inputs, "Gateway") {
        let Some(name) = gateway.parameters("ConfigMap") else { continue };
        if beside(gateway, "ConfigMap", name).next().is_none() {
            let place = gateway.node.fields("spec.infrastructure.parametersRef");
            let message = format!("the ConfigMap `{name}` is not among these objects");
            findings.at(place.unwrap_or(gateway.node), message);
        }
    }
}

/// The containers of pods that run an Envoy without a mesh, each with the words of its command.
fn plain_envoys(inputs: &Inputs) -> impl Iterator<Item = (Node<'_>, Vec<&str>)> {
    let containers = pods(inputs).flat_map(|pod| pod.spec.list("containers"));
    let with_words = containers.map(|container| {
        let words = container.all("command[]|args[]").filter_map(Node::text);
        (container, words.flat_map(str::split_whitespace).collect::<Vec<_>>())
    });
    with_words.filter(|(container, words)| {
        let image = container.text_of("image").unwrap_or_default();
        let is_envoy = |word: &&str| *word == "envoy" || word.ends_with("/envoy");
        image.contains("envoyproxy/envoy") || words.first().is_some_and(is_envoy)
    })
}

pub(super) fn gradual_drains<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (container, words) in plain_envoys(inputs) {
        if !words.iter().any(|word| word.starts_with("--drain-strategy")) {
            findings.at(container, "this Envoy drains gradually");
        }
    }
}

pub(super) fn abrupt_drains<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    const CALL: &str = "/drain_listeners";
    for (node, text) in inputs.scalars() {
        let mut lines = text.lines().filter(|line| line.contains(CALL));
        if let Some(line) = lines.find(|line| !line.contains("graceful")) {
            findings.in_text(node, line, "this drain tells connections, too");
        }
    }
}

pub(super) fn fewer_workers<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    const MESSAGE: &str = "Envoy starts no more workers than this allows";
    const VARIABLE: &str = "ENVOY_CGROUP_CPU_DETECTION";
    let is_set = |container: Node<'g>| container.item("env", "name", VARIABLE).is_some();
    let limit = |container: Node<'g>| container.fields("resources.limits.cpu");
    for (container, words) in plain_envoys(inputs) {
        let is_counted = words.iter().any(|word| word.starts_with("--concurrency"));
        let limit = limit(container).filter(|_| !is_counted && !is_set(container));
        limit.into_iter().for_each(|limit| findings.at(limit, MESSAGE));
    }
    let proxies = of_kind(inputs, "EnvoyProxy").filter_map(Object::spec);
    for spec in proxies.filter(|spec| spec.get("concurrency").is_none()) {
        let containers = spec.all("provider.kubernetes.envoyDeployment|envoyDaemonSet.container");
        let limits = containers.filter(|container| !is_set(*container)).filter_map(limit);
        limits.for_each(|limit| findings.at(limit, MESSAGE));
    }
}

pub(super) fn expressions_with_other_characters<'g>(
    inputs: &'g Inputs,
    findings: &mut Findings<'g>,
) {
    for node in inputs.keyed("regex") {
        if let Some(text) = node.text().filter(|text| !text.is_ascii()) {
            findings.at(node, format!("`{text}` has other characters than ASCII"));
        }
    }
}

pub(super) fn lua<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    if inputs.keyed("enableLua").any(Node::is_true) {
        return;
    }
    let policies = of_kind(inputs, "EnvoyExtensionPolicy");
    for lua in policies.filter_map(|policy| policy.spec()?.get("lua")) {
        if lua.items().next().is_some() {
            findings.at(lua, "without `enableLua` it is not run");
        }
    }
}

pub(super) fn zero_hops<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (_, detection) in ip_detections(inputs) {
        let hops = detection.fields("xForwardedFor.numTrustedHops");
        if let Some(hops) = hops.filter(|hops| hops.number() == Some(0)) {
            findings.at(hops, "the nearest peer is trusted before, and not any more");
        }
    }
}
