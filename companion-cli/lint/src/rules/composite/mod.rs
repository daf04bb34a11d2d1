//! LS366: Envoy's composite filter in the place of the module.

use regex::Regex;

use super::scheme_filters::{is_composite, writers};
use manifest_lint::{Checks, Findings, Inputs, Node, patch_of};

pub(super) const CHECKS: Checks = &[("LS366", too_old)];

/// The last versions of Istio before the matcher.
const TOO_OLD: [&str; 3] = ["1.28.9", "1.29.9", "1.30.9"];

fn too_old<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let mut reported = Vec::new();
    for writer in writers(inputs) {
        let Some(composite) = writer.node.upwards().find(|node| is_composite(*node)) else {
            continue;
        };
        let Some(patch) = patch_of(composite).filter(|_| !reported.contains(&composite)) else {
            continue;
        };
        reported.push(composite);
        let Some(version) = patch.proxy_version() else {
            findings.at(composite, "without `proxyVersion` every proxy gets it");
            continue;
        };
        let Some(pattern) = version.text().and_then(|text| Regex::new(text).ok()) else { continue };
        if let Some(old) = TOO_OLD.iter().find(|old| pattern.is_match(old)) {
            findings.at(version, format!("proxies of Istio {old} get it"));
        }
    }
}
