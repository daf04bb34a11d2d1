//! How Prometheus finds the proxies, and the labels that it gives them. The same list for a
//! PodMonitor and for a plain scrape configuration.

use super::Settings;
use super::rules::EXPECTED;
use crate::policy::Policy;
use crate::policy::file::{EnvoyGateway, GatewayApi, Placement, Waypoint};
use crate::policy::warnings::ROOT_NAMESPACE;

/// A rule that makes labels of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Relabel {
    pub(super) sources: Vec<String>,
    pub(super) regex: Option<String>,
    pub(super) target: Option<&'static str>,
    pub(super) replacement: Option<String>,
    pub(super) action: Option<&'static str>,
    pub(super) reason: &'static str,
}

/// The path of Envoy's metrics.
pub(super) const PATH: &str = "/stats/prometheus";
/// The label of a pod's own annotation; Prometheus replaces all but letters and digits by `_`.
const ANNOTATION: &str = "__meta_kubernetes_pod_annotation_sidecar_istio_io_statsInclusionSuffixes";
/// A pattern for the value of `render proxy-config`, with any other suffixes beside it.
const ANNOTATED: &str = ".*downstream_rq_active.*";

/// The name of the container port with Envoy's metrics.
pub(super) fn port(policy: &Policy) -> &'static str {
    match policy.placement {
        Placement::EnvoyGateway(_) => "metrics",
        _ => "http-envoy-prom",
    }
}

/// The namespace of the pods; none if they may be in any.
pub(super) fn namespace(policy: &Policy) -> Option<&str> {
    match &policy.placement {
        // The pods are in Envoy Gateway's namespace or in the Gateway's, by Envoy Gateway's own
        // configuration. The labels name the Gateway.
        Placement::EnvoyGateway(_) => None,
        Placement::GatewayApi(GatewayApi { class: Some(_), .. })
        | Placement::Waypoint(Waypoint { class: Some(_), .. }) => None,
        // In the root namespace an EnvoyFilter or a WasmPlugin is for the proxies of all
        // namespaces.
        Placement::Sidecar(_) | Placement::Gateway(_)
            if policy.namespace.as_deref() == Some(ROOT_NAMESPACE) =>
        {
            None
        }
        _ => policy.namespace.as_deref(),
    }
}

/// The labels of the pods.
pub(super) fn labels(policy: &Policy) -> Vec<(String, String)> {
    let one = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
    let own = |labels: &std::collections::BTreeMap<String, String>| {
        labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    match &policy.placement {
        Placement::Gateway(gateway) => own(&gateway.selector),
        Placement::Sidecar(sidecar) => own(&sidecar.selector),
        Placement::GatewayApi(GatewayApi { gateway: Some(name), .. })
        | Placement::Waypoint(Waypoint { gateway: Some(name), .. }) => {
            one("gateway.networking.k8s.io/gateway-name", name)
        }
        Placement::GatewayApi(GatewayApi { class: Some(class), .. })
        | Placement::Waypoint(Waypoint { class: Some(class), .. }) => {
            one("gateway.networking.k8s.io/gateway-class-name", class)
        }
        // One namespace may have the proxies of all Gateways.
        Placement::EnvoyGateway(EnvoyGateway { gateway, .. }) => {
            let mut labels = one("gateway.envoyproxy.io/owning-gateway-name", gateway);
            if let Some(namespace) = &policy.namespace {
                labels.extend(one("gateway.envoyproxy.io/owning-gateway-namespace", namespace));
            }
            labels
        }
        Placement::GatewayApi(_) | Placement::Waypoint(_) | Placement::Envoy(_) => Vec::new(),
    }
}

/// A target label that is copied from a label of Prometheus' pod discovery.
fn copy(source: &str, target: &'static str, reason: &'static str) -> Relabel {
    Relabel {
        sources: vec![source.to_owned()],
        regex: None,
        target: Some(target),
        replacement: None,
        action: None,
        reason,
    }
}

/// A target label with a constant value.
fn constant(target: &'static str, value: &str, reason: &'static str) -> Relabel {
    let replacement = Some(value.replace('$', "$$"));
    Relabel {
        sources: Vec::new(),
        regex: None,
        target: Some(target),
        replacement,
        action: None,
        reason,
    }
}

/// Rules for targets that are pods.
pub(super) fn of_pods(policy: &Policy, settings: &Settings) -> Vec<Relabel> {
    let (key, expected) = EXPECTED;
    let mut all = vec![
        copy("__meta_kubernetes_namespace", "namespace", "which pod"),
        copy("__meta_kubernetes_pod_name", "pod", "which pod"),
        copy("__meta_kubernetes_pod_node_name", "node", "where it runs"),
        copy("__meta_kubernetes_pod_controller_name", "workload", "what made it"),
        Relabel {
            sources: ["kind", "name"]
                .map(|part| format!("__meta_kubernetes_pod_controller_{part}"))
                .to_vec(),
            regex: Some("ReplicaSet;(.+)-[^-]+".into()),
            target: Some("workload"),
            replacement: None,
            action: None,
            reason: "the Deployment of a ReplicaSet, which each rollout makes anew",
        },
        constant("job", &settings.job, "what the rules ask for"),
    ];
    if policy.gate_port.is_some() {
        let why = "which proxies should have a gate";
        all.push(match policy.placement {
            Placement::EnvoyGateway(_) => constant(key, expected, why),
            _ => Relabel {
                regex: Some(ANNOTATED.into()),
                replacement: Some(expected.into()),
                reason: "the pod's annotation says that there should be a gate",
                ..copy(ANNOTATION, key, "")
            },
        });
    }
    all
}

/// Rules that select the pods, where there is no PodMonitor.
pub(super) fn selection(policy: &Policy) -> Vec<Relabel> {
    let keep = |source: String, regex: String, reason| Relabel {
        sources: vec![source],
        regex: Some(regex),
        target: None,
        replacement: None,
        action: Some("keep"),
        reason,
    };
    let mut all = vec![keep(
        "__meta_kubernetes_pod_container_port_name".into(),
        port(policy).into(),
        "Envoy's metrics",
    )];
    for (key, value) in labels(policy) {
        let plain: String =
            key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let label = format!("__meta_kubernetes_pod_label_{plain}");
        all.push(keep(label, value.replace('.', "\\."), "the policy's proxies"));
    }
    all.push(Relabel {
        action: Some("drop"),
        ..keep(
            "__meta_kubernetes_pod_phase".into(),
            "(Failed|Succeeded)".into(),
            "pods that have ended",
        )
    });
    all
}

/// Rules for targets that the policy lists.
pub(super) fn of_targets(policy: &Policy, settings: &Settings) -> Vec<Relabel> {
    let (key, expected) = EXPECTED;
    let mut all = vec![
        copy("__address__", "pod", "which proxy: there are no pods"),
        constant("workload", &policy.name, "the policy's name"),
        constant("job", &settings.job, "what the rules ask for"),
    ];
    if policy.gate_port.is_some() {
        all.push(constant(key, expected, "which proxies should have a gate"));
    }
    all
}

/// Keeps only laststream's metrics of a scrape.
pub(super) fn of_metrics() -> Vec<Relabel> {
    vec![Relabel {
        sources: vec!["__name__".into()],
        regex: Some("laststream_.+".into()),
        target: None,
        replacement: None,
        action: Some("keep"),
        reason: "Envoy has thousands of other series, which another monitor may want",
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests;

    #[test]
    fn proxies_are_scraped_in_all_their_namespaces() {
        for (placement, in_root, in_shop) in [
            ("{sidecar: {}}", None, Some("shop")),
            ("{gateway: {}}", None, Some("shop")),
            ("{gateway_api: {gateway: edge}}", Some("istio-system"), Some("shop")),
            ("{envoy_gateway: {gateway: edge}}", None, None),
        ] {
            for (place, expected) in [("istio-system", in_root), ("shop", in_shop)] {
                let text = format!("module: /a.wasm\nplacement: {placement}\nnamespace: {place}\n");
                assert_eq!(namespace(&tests::policy(&text)), expected, "{placement} {place}");
            }
        }
    }
}
