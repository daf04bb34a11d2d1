//! LS2xx: how the module reaches the proxy.

use crate::modules::{Module, modules};
use crate::plugin_configs::wasm_plugins;
use laststream_base::digest::is_hex;
use manifest_lint::{Checks, Findings, Inputs, Node, patch_of};

pub(super) const CHECKS: Checks = &[
    ("LS201", inline_oci),
    ("LS202", type_urls),
    ("LS203", no_checksum),
    ("LS204", wrong_checksum),
    ("LS206", floating_tag),
    ("LS207", short_fetch),
    ("LS208", no_policy),
    ("LS209", secret_in_the_open),
    ("LS210", former_hosts),
];

/// Hosts that end in December 2026, by the upgrade notes of Istio 1.31.
const FORMER_HOSTS: [&str; 3] =
    ["gcr.io/istio-release", "registry.istio.io", "istio-release.storage.googleapis.com"];

pub(super) fn former_hosts<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for (node, text) in inputs.scalars().filter(|(_, text)| !text.contains('\n')) {
        let host = FORMER_HOSTS.iter().find(|host| text.contains(**host));
        if let Some(host) = host.filter(|_| !is_replaced(node) && !is_of_list_of_hosts(node)) {
            findings.surely_at(node, format!("`{host}` ends in December 2026"));
        }
    }
}

/// Whether a kustomization writes another name in the place of this one.
fn is_replaced(name: Node<'_>) -> bool {
    name.key_text() == Some("name") && name.parent().is_some_and(|at| at.get("newName").is_some())
}

/// Whether a policy lists the address among registries that it allows.
fn is_of_list_of_hosts(node: Node<'_>) -> bool {
    let list = node.parent().filter(|parent| parent.is_list()).and_then(Node::key_text);
    list.is_some_and(|key| ["llow", "rust", "egistr"].iter().any(|part| key.contains(part)))
}

const OCI: &str = "oci://";

fn inline_oci<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for module in modules(inputs).filter(|module| module.extension().is_none()) {
        if let Some(uri) = module.uri().filter(|_| module.uri_text().starts_with(OCI)) {
            let place = if module.patch().is_some() {
                "a filter written into the listener"
            } else {
                "a plain Envoy"
            };
            findings.at(uri, format!("{place} cannot fetch `{}`", module.uri_text()));
        }
    }
}

const WASM: &str = "envoy.extensions.filters.http.wasm.v3.Wasm";
const RBAC: &str = "envoy.extensions.filters.http.rbac.v3.RBAC";

fn type_urls<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let extensions: Vec<_> =
        modules(inputs).filter(|module| module.extension().is_some()).map(Module::name).collect();
    for discovery in inputs.keyed_field("config_discovery") {
        let name = discovery.parent().and_then(|filter| filter.text_of("name")).unwrap_or_default();
        let Some(types) = discovery.field("type_urls") else {
            if extensions.contains(&name) {
                findings.at(discovery, "there are no `type_urls`");
            }
            continue;
        };
        let has =
            |wanted: &str| types.items().filter_map(Node::text).any(|name| name.ends_with(wanted));
        if has(WASM) && !has(RBAC) {
            findings.at(types, format!("`{RBAC}` is missing"));
        } else if has(RBAC) && !has(WASM) && extensions.contains(&name) {
            findings.at(types, format!("`{WASM}` is missing"));
        }
    }
}

/// Istio's value for no checksum.
const NONE: &str = "nil";

fn no_checksum<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for module in modules(inputs) {
        let Some(remote) = module.remote().filter(|_| module.uri().is_some()) else { continue };
        match remote.field("sha256") {
            None => findings.at(remote, "there is no `sha256`"),
            Some(node) if node.value().is_none_or(|text| text.is_empty() || text == NONE) => {
                let hint = uri_digest(module)
                    .map(|digest| format!(": write {digest}"))
                    .unwrap_or_default();
                findings.at(node, format!("`sha256` says nothing{hint}"));
            }
            Some(_) => {}
        }
    }
}

/// The digest in the module's `oci://` URI.
fn uri_digest(module: Module<'_>) -> Option<&str> {
    module.uri_text().strip_prefix(OCI)?.rsplit_once("@sha256:").map(|(_, digest)| digest)
}

fn checksum(module: Module<'_>) -> Option<(Node<'_>, &str)> {
    let node = module.remote()?.field("sha256")?;
    node.value().filter(|text| !text.is_empty() && *text != NONE).map(|text| (node, text))
}

fn wrong_checksum<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for module in modules(inputs) {
        let digest = uri_digest(module);
        match (checksum(module), digest.filter(|digest| is_hex(digest))) {
            (Some((node, text)), _) if !is_hex(text) => {
                let hint = if text.starts_with("sha256:") { ": leave out `sha256:`" } else { "" };
                findings.at(node, format!("`{text}` is no digest{hint}"));
            }
            (Some((node, text)), Some(digest)) if digest != text => {
                findings.at(node, format!("the URI says {digest}: `sha256` must be the same"));
            }
            _ => {}
        }
        if let Some((uri, digest)) = module.uri().zip(digest.filter(|digest| !is_hex(digest))) {
            findings.at(uri, format!("`{digest}` is no digest"));
        }
    }
}

fn floating_tag<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let plugins = wasm_plugins(inputs).filter_map(|plugin| plugin.wasm.get("url"));
    for uri in modules(inputs).filter_map(Module::uri).chain(plugins) {
        let Some(text) = uri.text() else { continue };
        if text.starts_with(OCI) && !text.contains("@sha256:") {
            findings.at(uri, format!("`{text}` names no digest"));
        }
    }
}

fn short_fetch<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for module in modules(inputs).filter(|module| module.extension().is_some()) {
        let Some(http) = module.uri().and_then(Node::parent) else { continue };
        match http.field("timeout") {
            None => findings.at(http, "there is no `timeout`: the agent gives up after 5 s"),
            Some(node) if node.millis().is_some_and(|time| time < 10_000) => {
                let time = node.text().unwrap_or_default();
                findings.at(node, format!("{time} is little for a pull through the internet"));
            }
            Some(_) => {}
        }
    }
}

fn no_policy<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for module in modules(inputs) {
        let policy = module.plugin.field("failure_policy");
        let legacy = module.plugin.field("fail_open");
        if policy.is_none_or(|policy| policy.text() == Some("UNSPECIFIED")) && legacy.is_none() {
            findings.at(policy.unwrap_or(module.plugin), "there is no `failure_policy`");
        }
    }
}

fn secret_in_the_open<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let secrets = inputs.keyed("ISTIO_META_WASM_IMAGE_PULL_SECRET");
    for secret in secrets.filter(|node| patch_of(*node).is_some()) {
        findings.at(secret.key().unwrap_or(secret), "the pull secret stands here for all to read");
    }
}
