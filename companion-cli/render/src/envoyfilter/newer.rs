//! Patches for proxies of Istio 1.31 and newer, whose Envoy restores the scheme itself.
//!
//! On those the matchers take the place of the module, and a module that only counts the place of
//! the peer information, which the matchers do not need. Proxies that `proxyVersion` does not match
//! keep both, whatever their version says, so each proxy has exactly one engine.

use laststream_filter::config::wire::Scope;
use laststream_filter::forwarded::FORWARDED_PROTO;

use super::patch::{PEER, Patch, context_of, in_managers_at, is_inline, name_of, patch};
use crate::native::Native;
use crate::parts::{self, Role};
use crate::scheme::NEWER;
use laststream_base::yaml::{List, Map};
use laststream_policy::module_json;
use laststream_policy::{ModuleLocation, Policy};

/// Why the early mutation of a sidecar has a successor.
pub(super) const WHY_CONNECTION: &str = "Istio 1.31 and newer: the matchers leave untrusted peers \
    the connection's scheme, which Envoy writes where the header is missing. This comes after the \
    mutation above.";

/// Why the jitter is for these proxies only.
pub(super) const WHY_JITTER: &str = "Istio 1.31 and newer: an older Envoy would refuse the \
    listeners.";

/// The counter as an extension configuration.
pub(super) fn extension(policy: &Policy, source: &ModuleLocation, scope: Scope) -> Patch {
    const COUNTER: &str = "The same for proxies whose Envoy restores the scheme itself. Under a \
        name of its own: listeners that still drain go on with the module above.";
    (COUNTER, patch("EXTENSION_CONFIG", None, "ADD", counter(policy, source, scope)))
}

/// The filters in place of the module and of the peer information.
pub(super) fn filters(
    policy: &Policy,
    source: &ModuleLocation,
    native: &Native,
    scope: Scope,
) -> Vec<Patch> {
    const COUNTER: &str = "Istio 1.31 and newer: a module that only counts, in the place of the \
        peer information.";
    const MATCHERS: &str = "Istio 1.31 and newer: Envoy's own matchers, in the place of the module \
        that restores the scheme. Without `proxyVersion` Envoy 1.38 would ignore them, and an \
        older one refuse its listeners.";
    let counter = || match is_inline(source) {
        true => counter(policy, source, scope),
        false => parts::discovered(&counter_name(policy, scope)),
    };
    let replacement = |why, name: &str, filter: Map| {
        let matching = only(in_managers_at(context_of(scope), Some(name)));
        (why, patch("HTTP_FILTER", Some(matching), "REPLACE", filter))
    };
    let module = name_of(policy, scope.into());
    let matchers = native.filters.iter().cloned();
    let matchers = matchers.map(|filter| replacement(MATCHERS, &module, filter));
    let peer = name_of(policy, PEER);
    let first = match policy.by_envoy {
        true => removal_of(&peer, scope),
        false => replacement(COUNTER, &peer, counter()),
    };
    [first].into_iter().chain(matchers).collect()
}

/// The removal of a filter that the matchers do not need.
fn removal_of(name: &str, scope: Scope) -> Patch {
    const REMOVED: &str = "Istio 1.31 and newer: the matchers need no peer information.";
    let matching = only(in_managers_at(context_of(scope), Some(name)));
    let removal = Map::of("operation", "REMOVE");
    let patch = Map::of("applyTo", "HTTP_FILTER").with("match", matching).with("patch", removal);
    (REMOVED, patch)
}

/// The early mutation that lets Envoy write the connection's scheme.
pub(super) fn removal() -> List {
    parts::early_mutations(List::of(Map::of("remove", FORWARDED_PROTO)))
}

/// The match, for these proxies only.
pub(super) fn only(matching: Map) -> Map {
    matching.with("proxy", Map::of("proxyVersion", NEWER))
}

/// The filter that only counts.
fn counter(policy: &Policy, source: &ModuleLocation, scope: Scope) -> Map {
    let name = counter_name(policy, scope);
    let configuration = module_json::stream(policy, scope, false);
    parts::filter(&Role { name: &name, configuration, is_gate: false }, policy, source)
}

fn counter_name(policy: &Policy, scope: Scope) -> String {
    name_of(policy, &format!("{scope}-counter"))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::NEWER;
    use crate::Kind;
    use crate::tests::{rendered, yaml};

    const POLICY: &str = "namespace: a\nmodule: oci://h/r:t\nforwarded_proto: {presets: [aws_alb], \
        trust: {peers: [10.0.0.0/8]}";

    fn patches(more: &str) -> Vec<Value> {
        let object = yaml(&rendered(Kind::EnvoyFilter, &format!("{POLICY}{more}"))[0]);
        object["spec"]["configPatches"].as_array().expect("patches").clone()
    }

    fn text<'p>(patch: &'p Value, pointer: &str) -> Option<&'p str> {
        patch.pointer(pointer).and_then(Value::as_str)
    }

    /// As istiod does it: the names of the HTTP filters that these patches make.
    fn chain(patches: &[Value], is_newer: bool) -> Vec<String> {
        let mut chain: Vec<String> = Vec::new();
        for patch in patches.iter().filter(|patch| patch["applyTo"] == "HTTP_FILTER") {
            let version = text(patch, "/match/proxy/proxyVersion");
            assert!(version.is_none_or(|version| version == NEWER), "{patch:#}");
            if version.is_some() && !is_newer {
                continue;
            }
            let name = text(patch, "/patch/value/name").expect("a name").to_owned();
            match text(patch, "/patch/operation") {
                Some("INSERT_FIRST") => chain.insert(0, name),
                Some("REPLACE") => {
                    let path = "/match/listener/filterChain/filter/subFilter/name";
                    let filter = text(patch, path).expect("a filter to replace");
                    let place = chain.iter().position(|there| there == filter).expect(filter);
                    chain[place] = name;
                }
                other => panic!("{other:?}"),
            }
        }
        chain
    }

    #[test]
    fn each_proxy_has_one_engine_and_one_counter_whatever_its_version() {
        let show = "envoy.filters.http.set_filter_state";
        for (more, scope) in [
            ("}\nstreams: {show: path}", "gateway"),
            ("}\nstreams: {show: path}\nplacement: {gateway_api: {gateway: g}}", "gateway"),
            ("}\nstreams: {show: path}\nplacement: {sidecar: {}}", "inbound"),
            (", fallback: http}\nstreams: {show: path}\nplacement: {sidecar: {}}", "inbound"),
            ("}\nstreams: {show: path}\ndelivery: image_volume", "gateway"),
        ] {
            let is_outbound =
                |patch: &Value| text(patch, "/match/context") == Some("SIDECAR_OUTBOUND");
            let (outbound, patches): (Vec<_>, Vec<_>) =
                patches(more).into_iter().partition(is_outbound);
            let named = |part: &str| format!("laststream.a.{part}");
            let counted =
                if scope == "inbound" { vec![show.into(), named("outbound")] } else { vec![] };
            assert_eq!(chain(&outbound, true), counted, "{more}");
            let older = [show.into(), named("peer"), named(scope)];
            assert_eq!(chain(&patches, false), older, "{more}");
            let newer = [show.into(), named(&format!("{scope}-counter")), named("scheme")];
            assert_eq!(chain(&patches, true), newer, "{more}");
        }
    }
}
