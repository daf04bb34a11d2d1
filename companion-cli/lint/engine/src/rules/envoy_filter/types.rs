//! The types in patches: LS107.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::{Findings, Inputs, Node, patch_of};

/// Parts of a name that show a type of an old API.
const OLD_TYPES: [&str; 3] = [".v2.", ".v2alpha.", "envoy.config.filter."];

/// Packages of the types that Envoy and related projects have.
const PACKAGES: &str =
    "envoy. google.protobuf. udpa.type.v1. xds. istio. stats.PluginConfig opencensus.";

/// Envoy's extensions that a configuration can name, without the [`PACKAGE`] in front and in order:
/// the messages of go-control-plane's modules envoy 1.40.0 and contrib of July 2026.
const EXTENSIONS: &str = include_str!("types.txt");
const PACKAGE: &str = "envoy.extensions.";

/// Further types that these resources use.
const OTHERS: [&str; 3] =
    ["google.protobuf.StringValue", "google.protobuf.Struct", "udpa.type.v1.TypedStruct"];

pub(super) fn wrong_type<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for node in inputs.keyed("@type") {
        let Some(text) = node.text() else { continue };
        let Some((_, name)) = text.rsplit_once('/') else {
            // `@type` is also a keyword of JSON-LD.
            if PACKAGES.split(' ').any(|package| text.starts_with(package)) {
                findings.at(
                    node,
                    format!("`{text}` lacks its beginning: write `type.googleapis.com/{text}`"),
                );
            }
            continue;
        };
        if is_old(name) {
            findings.at(node, format!("`{name}` is of an API that Envoy no longer has"));
        } else if let Some(message) = unknown(name) {
            findings.at(node, message);
        } else if let Some(message) = misplaced(node, name) {
            findings.at(node, message);
        } else if !PACKAGES.split(' ').any(|package| name.starts_with(package))
            && name.contains(".v3.")
        {
            findings.at(node, format!("`{name}` is not a type of Envoy: they begin with `envoy.`"));
        }
    }
}

/// Why a filter of this type is not for the patch around it: a filter of another kind.
fn misplaced(typed: Node<'_>, name: &str) -> Option<String> {
    const KINDS: [(&str, &str); 3] =
        [("HTTP_FILTER", "http"), ("NETWORK_FILTER", "network"), ("LISTENER_FILTER", "listener")];
    let kind = name.strip_prefix("envoy.extensions.filters.")?.split('.').next()?;
    let patch = patch_of(typed)?;
    let is_value = patch.value() == typed.parent()?.parent();
    let (wanted, _) = KINDS.iter().find(|(_, known)| *known == kind)?;
    let is_other = KINDS.iter().any(|(apply_to, _)| *apply_to == patch.apply_to())
        && *wanted != patch.apply_to();
    (is_value && is_other)
        .then(|| format!("`{name}` is for {wanted}, and the patch is for {}", patch.apply_to()))
}

/// The messages of each package of [`EXTENSIONS`].
static PACKAGES_OF_ENVOY: LazyLock<BTreeMap<&str, Vec<&str>>> = LazyLock::new(|| {
    let mut packages = BTreeMap::<_, Vec<_>>::new();
    for (package, message) in EXTENSIONS.lines().filter_map(|line| line.rsplit_once('.')) {
        packages.entry(package).or_default().push(message);
    }
    packages
});

/// Why there is no such type. A type of a package that is not in the list may be one of another
/// Envoy: only a misspelling of a known one is an error.
fn unknown(name: &str) -> Option<String> {
    let (package, message) = name.rsplit_once('.')?;
    let beside = package.strip_prefix(PACKAGE).and_then(|package| PACKAGES_OF_ENVOY.get(package));
    let beside = beside.map_or(&[][..], Vec::as_slice);
    if beside.contains(&message) || OTHERS.contains(&name) {
        return None;
    }
    let near_message = beside.iter().find(|known| nearly(known, message));
    let same_message = PACKAGES_OF_ENVOY.iter().filter(|(_, known)| known.contains(&message));
    let mut packages = same_message.map(|(of, _)| format!("{PACKAGE}{of}"));
    let proposal = near_message
        .map(|near| format!("{package}.{near}"))
        .or_else(|| Some(format!("{}.{message}", packages.find(|near| nearly(near, package))?)))
        .or_else(|| OTHERS.iter().find(|known| nearly(known, name)).map(ToString::to_string));
    let misspelt = proposal.map(|meant| format!("there is no `{name}`: it is `{meant}`"));
    misspelt.or_else(|| (!beside.is_empty()).then(|| format!("`{package}` has no `{message}`")))
}

/// Types that Gloo's Envoy adds.
const OF_GLOO: [&str; 3] = [
    "envoy.api.v2.filter.http.FilterTransformations",
    "envoy.config.filter.http.transformation.v2.",
    "envoy.config.filter.http.aws_lambda.v2.",
];

/// Whether a type is of an API that Envoy had. Istio's own types have such names, too.
fn is_old(name: &str) -> bool {
    OLD_TYPES.iter().any(|old| name.contains(old))
        && !name.contains(".v3.")
        && !name.starts_with("istio.")
        && !OF_GLOO.iter().any(|own| name.starts_with(own))
}

/// Whether two names differ by at most two typing errors.
pub(super) fn nearly(known: &str, name: &str) -> bool {
    known.len().abs_diff(name.len()) <= 2 && strsim::damerau_levenshtein(known, name) <= 2
}
