//! What selects proxies, and what it selects: LS654 to LS656.

use std::collections::{HashMap, HashSet};

use crate::{Findings, Inputs, Node, Object, ROOT_NAMESPACE, named, of_kind, pods};

/// Proxy containers that wait for an image, in pods that Istio does not inject.
pub(super) fn without_injection<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    for pod in pods(inputs).filter(|pod| !pod.is_overlay()) {
        let proxies = pod.proxies_named(&["istio-proxy"]);
        let mut images = proxies.filter_map(|proxy| proxy.get("image"));
        let Some(image) = images.find(|image| image.text() == Some("auto")) else { continue };
        let is_off = |space: Object<'_>| {
            let labels = space.node.fields("metadata.labels");
            labels.and_then(|labels| labels.text_of("istio-injection")) == Some("disabled")
        };
        let mut spaces = pod.namespace().into_iter().flat_map(|n| named(inputs, "Namespace", n));
        if !pod.has_proxy() {
            findings.at(image, "the pod forbids its injection, or uses the network of its node");
        } else if pod.label("sidecar.istio.io/inject").is_none() && spaces.any(is_off) {
            findings.at(image, "its namespace has `istio-injection: disabled`");
        }
    }
}

/// The kinds whose selectors are compared with pods, and the paths of these.
const SELECTORS: [(&str, &str); 7] = [
    ("EnvoyFilter", "spec.workloadSelector.labels"),
    ("Sidecar", "spec.workloadSelector.labels"),
    ("WasmPlugin", "spec.selector.matchLabels"),
    ("TrafficExtension", "spec.selector.matchLabels"),
    ("AuthorizationPolicy", "spec.selector.matchLabels"),
    ("PeerAuthentication", "spec.selector.matchLabels"),
    ("ProxyConfig", "spec.selector.matchLabels"),
];
/// The most slips between a label of a selector and the one that is meant.
const SLIPS: usize = 2;

pub(super) fn selects_nothing<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let mut labels: HashMap<&str, HashSet<(&str, &str)>> = HashMap::new();
    for pod in pods(inputs).filter(|pod| !pod.is_overlay()) {
        labels.entry(pod.namespace().unwrap_or_default()).or_default().extend(pod.labels());
    }
    for (kind, path) in SELECTORS {
        for object in of_kind(inputs, kind) {
            let namespace = object.namespace().filter(|name| *name != ROOT_NAMESPACE);
            let Some(of_pods) = namespace.and_then(|namespace| labels.get(namespace)) else {
                continue;
            };
            let selector = object.node.fields(path).into_iter().flat_map(Node::entries);
            for (key, value) in selector {
                let label = (key, value.text().unwrap_or_default());
                if let Some((key, text)) = near(label, of_pods) {
                    findings
                        .at(value, format!("no pod has this label, and one has `{key}: {text}`"));
                }
            }
        }
    }
}

/// The label of a pod that differs little from one that no pod has.
fn near<'g>(
    label: (&str, &str),
    of_pods: &HashSet<(&'g str, &'g str)>,
) -> Option<(&'g str, &'g str)> {
    let slips = |one: (&str, &str)| {
        strsim::damerau_levenshtein(one.0, label.0) + strsim::damerau_levenshtein(one.1, label.1)
    };
    if of_pods.contains(&label) {
        return None;
    }
    of_pods.iter().copied().filter(|one| slips(*one) <= SLIPS).min()
}

/// The proxies, port, address and host of a server with TLS.
type Place<'g> = (Vec<(&'g str, &'g str)>, u64, &'g str, &'g str);

pub(super) fn host_taken<'g>(inputs: &'g Inputs, findings: &mut Findings<'g>) {
    let mut taken: HashMap<Place<'g>, Object<'g>> = HashMap::new();
    let is_istios = |gateway: &Object<'g>| gateway.group().ends_with("istio.io");
    for gateway in of_kind(inputs, "Gateway").filter(is_istios) {
        let selector = gateway.node.fields("spec.selector").into_iter().flat_map(Node::entries);
        let mut labels: Vec<_> =
            selector.filter_map(|(key, value)| Some((key, value.text()?))).collect();
        labels.sort_unstable();
        for server in gateway.node.list("spec.servers") {
            let protocol = server.text_of("port.protocol").unwrap_or_default();
            let port = server.fields("port.number").and_then(Node::number);
            let Some(port) = port.filter(|_| ["HTTPS", "TLS"].contains(&protocol)) else {
                continue;
            };
            let bind = server.text_of("bind").unwrap_or_default();
            for host in server.list("hosts") {
                let place = (labels.clone(), port, bind, host.text().unwrap_or_default());
                let first = *taken.entry(place).or_insert(gateway);
                let name = first.name();
                // Files of a repository may hold one Gateway in several forms.
                let is_same = name == gateway.name() && first.is_near(gateway);
                if !is_same && !labels.is_empty() {
                    findings.at(host, format!("the Gateway `{name}` has it on port {port}"));
                }
            }
        }
    }
}
