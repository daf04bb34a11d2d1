//! The types in patches: LS107.

use crate::finding::Findings;
use crate::inputs::Inputs;

/// Parts of a name that show a type of an old API.
const OLD_TYPES: [&str; 3] = [".v2.", ".v2alpha.", "envoy.config.filter."];

/// Packages of the types that Envoy and related projects have.
const PACKAGES: [&str; 7] = [
    "envoy.",
    "google.protobuf.",
    "udpa.type.v1.",
    "xds.",
    "istio.",
    "stats.PluginConfig",
    "opencensus.",
];

/// Types that these resources use. A name close to one of them counts as a misspelling.
const TYPES: [&str; 16] = [
    "envoy.extensions.filters.http.wasm.v3.Wasm",
    "envoy.extensions.filters.http.rbac.v3.RBAC",
    "envoy.extensions.filters.http.lua.v3.Lua",
    "envoy.extensions.filters.http.lua.v3.LuaPerRoute",
    "envoy.extensions.filters.http.router.v3.Router",
    "envoy.extensions.filters.http.set_filter_state.v3.Config",
    "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation",
    "envoy.extensions.filters.http.ip_tagging.v3.IPTagging",
    "envoy.extensions.filters.http.composite.v3.Composite",
    "envoy.extensions.filters.http.composite.v3.ExecuteFilterAction",
    "envoy.extensions.common.matching.v3.ExtensionWithMatcher",
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
    "google.protobuf.StringValue",
    "google.protobuf.Struct",
    "udpa.type.v1.TypedStruct",
];

pub(super) fn wrong_type<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for node in inputs.keyed("@type") {
        let Some(text) = node.text() else { continue };
        let Some((_, name)) = text.rsplit_once('/') else {
            // `@type` is also a keyword of JSON-LD.
            if PACKAGES.iter().any(|package| text.starts_with(package)) {
                findings.at(
                    node,
                    format!("`{text}` lacks its beginning: write `type.googleapis.com/{text}`"),
                );
            }
            continue;
        };
        if is_old(name) {
            findings.at(node, format!("`{name}` is of an API that Envoy no longer has"));
        } else if TYPES.contains(&name) {
            // The type exists, even if its name is close to another one.
        } else if let Some(meant) = TYPES.iter().find(|known| nearly(known, name)) {
            findings.at(node, format!("there is no `{name}`: it is `{meant}`"));
        } else if !PACKAGES.iter().any(|package| name.starts_with(package)) && name.contains(".v3.")
        {
            findings.at(node, format!("`{name}` is not a type of Envoy: they begin with `envoy.`"));
        }
    }
}

/// Whether a type is of an API that Envoy had. Istio's own types have such names, and so has the
/// one that Gloo's Envoy adds.
fn is_old(name: &str) -> bool {
    OLD_TYPES.iter().any(|old| name.contains(old))
        && !name.contains(".v3.")
        && !name.starts_with("istio.")
        && name != "envoy.api.v2.filter.http.FilterTransformations"
}

/// Whether two names differ by at most two typing errors.
pub(super) fn nearly(known: &str, name: &str) -> bool {
    known.len().abs_diff(name.len()) <= 2 && strsim::damerau_levenshtein(known, name) <= 2
}
