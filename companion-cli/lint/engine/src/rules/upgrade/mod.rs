//! LS901 to LS923: what an upgrade of Istio or Envoy Gateway changes for objects that are
//! there; only with `lint --upgrade`.

use manifest_text::versions::Release;
use regex::bytes::RegexBuilder;

use crate::upgrade::{ENVOY_GATEWAY, ISTIO};
use crate::{Check, Findings, Inputs, Node, Patch, of_kind, patches};

/// A change of a program: its rule, the program, the release that it came with (none if each one
/// brings it), and the check for what it affects.
pub type Change = (&'static str, &'static str, Option<Release>, Check);

pub(crate) const CHANGES: &[Change] = &[
    ("LS901", ISTIO, None, patches_of_old_proxies),
    ("LS903", ISTIO, Some((1, 30)), |inputs, findings| {
        old_versions(&["TLSRoute", "ReferenceGrant"], inputs, findings);
    }),
    ("LS921", ENVOY_GATEWAY, Some((1, 9)), lua),
    ("LS923", ENVOY_GATEWAY, Some((1, 9)), |inputs, findings| {
        old_versions(&["TCPRoute", "UDPRoute"], inputs, findings);
    }),
];

/// The patch versions that are tried: an expression may name one of them.
const PATCH_VERSIONS: u32 = 20;

fn patches_of_old_proxies<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
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

/// Reports the first object only: its CRDs are a condition of the cluster.
fn old_versions<'g>(kinds: &[&str], inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let versions = kinds.iter().flat_map(|kind| of_kind(inputs, kind));
    let mut versions = versions.filter_map(|object| object.node.get("apiVersion"));
    let is_old = |version: &Node<'g>| version.text().is_some_and(|text| !text.ends_with("/v1"));
    if let Some(version) = versions.find(is_old) {
        findings.at(version, "only older CRDs may serve this version");
    }
}

fn lua<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
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
