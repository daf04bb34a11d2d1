//! The proxies that run in a cluster, and their streams.

use std::collections::BTreeMap;

use manifest_text::time_span::TimeSpan;
use serde_json::Value;

use crate::places::{self, read_pod};
use crate::{Node, PROXIES, Pod};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProxyRole {
    #[default]
    Sidecar,
    Gateway,
    Waypoint,
    /// A proxy of Envoy Gateway.
    EnvoyGateway,
}

/// A proxy that runs in a cluster.
#[derive(Debug, Clone, Default)]
pub struct RunningProxy {
    /// The object that makes its pods, such as `Deployment shop/web`.
    pub workload: String,
    /// The namespace of its pod, or of the Gateway that Envoy Gateway made it for.
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
    pub role: ProxyRole,
    /// Its drain time, if its pod says one.
    pub drain: Option<TimeSpan>,
}

/// The streams of a running proxy.
#[derive(Debug, Clone, Default)]
pub struct ProxyStreams {
    /// The number in flight, by scope.
    pub in_flight: BTreeMap<String, u64>,
    /// The scope and the age in milliseconds of each stream that is listed.
    pub listed: Vec<(String, u64)>,
    /// Why streams may be missing here.
    pub unknown: Option<String>,
}

impl RunningProxy {
    /// The proxy in a pod's container with this name.
    #[must_use]
    pub fn of(pod: &Value, container: &str) -> Option<Self> {
        let workload = places::owner(pod).to_string();
        read_pod(pod, |pod| Self::of_pod(pod, container, workload))?
    }

    fn of_pod(pod: Pod<'_>, container: &str, workload: String) -> Option<Self> {
        let proxy = pod.proxies_named(&[container]).next()?;
        let arguments: Vec<&str> = proxy.all("args[]").filter_map(Node::text).collect();
        let [gateway_namespace, gateway] = places::ENVOY_GATEWAY.map(|label| pod.label(label));
        let template = pod.annotation("inject.istio.io/templates").and_then(Node::text);
        let role = if gateway.is_some() {
            ProxyRole::EnvoyGateway
        } else if arguments.contains(&"waypoint") {
            ProxyRole::Waypoint
        } else if arguments.contains(&"router") || template == Some("gateway") {
            ProxyRole::Gateway
        } else {
            ProxyRole::Sidecar
        };
        let drain = if container == PROXIES[0] {
            pod.proxy_config().and_then(|config| config.text_of("drainDuration")?.parse().ok())
        } else {
            let mut after = arguments.iter().skip_while(|word| **word != "--drain-time-s");
            after.nth(1).and_then(|seconds| format!("{seconds}s").parse().ok())
        };
        let labels = pod.labels().into_iter();
        Some(Self {
            workload,
            namespace: gateway_namespace.or(pod.object.namespace()).unwrap_or_default().to_owned(),
            labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            role,
            drain,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_role_and_the_drain_time_are_those_of_the_running_proxy() {
        let of = |labels: Value, config: &str, name: &str, arguments: Value| {
            let pod = json!({
                "kind": "Pod",
                "metadata": {
                    "name": "a", "namespace": "system", "labels": labels,
                    "annotations": { "proxy.istio.io/config": config },
                },
                "spec": { "containers": [{ "name": name, "args": arguments }] },
            });
            let proxy = RunningProxy::of(&pod, name).unwrap();
            (proxy.role, proxy.namespace, proxy.drain.map(TimeSpan::whole_seconds))
        };
        let none = || json!({});
        for (config, drain) in [
            ("drainDuration: 60s\n", Some(60)),
            ("{\"drainDuration\":\"1m30s\",\"a\":1}", Some(90)),
            ("{}", None),
        ] {
            let expected = (ProxyRole::Sidecar, "system".to_owned(), drain);
            assert_eq!(of(none(), config, PROXIES[0], json!(["proxy", "sidecar"])), expected);
        }
        let (role, ..) = of(none(), "", PROXIES[0], json!(["proxy", "router"]));
        assert_eq!(role, ProxyRole::Gateway);
        let (role, ..) = of(none(), "", PROXIES[0], json!(["proxy", "waypoint"]));
        assert_eq!(role, ProxyRole::Waypoint);
        let [namespace, name] = places::ENVOY_GATEWAY;
        let labels = json!({ namespace: "shop", name: "edge" });
        let gateway = of(labels, "", "envoy", json!(["--drain-time-s", "50", "--x"]));
        assert_eq!(gateway, (ProxyRole::EnvoyGateway, "shop".to_owned(), Some(50)));
    }
}
