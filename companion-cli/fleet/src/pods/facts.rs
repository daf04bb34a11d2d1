//! The facts about a pod in the API server's object: its proxy, whether that runs and how it stops,
//! and what the annotations of this program say. Pure.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::pods::hook::{self, Hook};
use laststream_base::pods::{DEFAULT_GRACE, ENVOY_GATEWAY, PROXIES};
use laststream_base::ports;

/// The annotation with settings of Istio's proxies.
const PROXY_CONFIG: &str = "proxy.istio.io/config";
/// The port on which Envoy Gateway's proxies serve their statistics.
const ENVOY_GATEWAY_STATS: u16 = 19001;
/// The annotation that names another port for the statistics.
pub const STATS_PORT_ANNOTATION: &str = "laststream.io/stats-port";
pub const GATE_PORT_ANNOTATION: &str = "laststream.io/gate-port";
/// The annotation by which a ReplicaSet chooses the pods that it deletes; the lowest goes first.
pub(crate) const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// The annotation with the cost that this program wrote last. A deletion cost that differs from it
/// was written by an operator or another program.
pub const OWN_COST: &str = "laststream.io/deletion-cost";
/// The time after the end of the grace period from which a pod is overdue. A running kubelet ends a
/// pod within seconds of its grace period, and clocks differ.
const OVERDUE: SignedDuration = SignedDuration::from_mins(2);

/// Ports that override the default ports and the annotations of all pods.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ports {
    /// The port with the statistics.
    pub stats: Option<u16>,
    pub gate: Option<u16>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodFacts {
    pub namespace: String,
    pub name: String,
    /// Its UID, which differs from that of a later pod with the same name.
    pub uid: String,
    pub node: String,
    /// Its owner, such as `ReplicaSet/web-5d`.
    pub owner: Option<String>,
    pub proxy: Option<String>,
    pub proxy_runs: bool,
    /// Whether the proxy is a native sidecar.
    pub is_native: bool,
    pub ready: bool,
    /// Whether it has been deleted.
    pub terminating: bool,
    /// The end of its grace period, if it has been deleted.
    pub grace_ends: Option<Timestamp>,
    /// Its grace period, in seconds.
    pub grace: u64,
    pub hook: Hook,
    pub stats_port: u16,
    pub gate_port: u16,
    pub deletion_cost: Option<i32>,
    /// Whether an operator or another program has written that cost.
    pub cost_is_foreign: bool,
}

impl PodFacts {
    /// Reads the API server's object.
    pub fn of(pod: &Pod, ports: Ports) -> Self {
        let (meta, spec) = (&pod.metadata, pod.spec.as_ref());
        let owner = meta.owner_references.iter().flatten().next();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let grace = spec.and_then(|spec| spec.termination_grace_period_seconds);
        let grace = meta.deletion_grace_period_seconds.or(grace);
        let labels = meta.labels.as_ref();
        let is_envoy_gateway = labels.is_some_and(|labels| labels.contains_key(ENVOY_GATEWAY[1]));
        let (proxy, is_native) = spec.and_then(|spec| proxy_of(spec, is_envoy_gateway)).unzip();
        let stats = if is_envoy_gateway { ENVOY_GATEWAY_STATS } else { ports::ISTIO_AGENT };
        let annotation = |name: &str| meta.annotations.as_ref()?.get(name);
        let annotated = |name: &str| annotation(name)?.parse().ok();
        Self {
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            uid: text(&meta.uid),
            node: spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
            owner: owner.map(|owner| format!("{}/{}", owner.kind, owner.name)),
            proxy: proxy.map(|container| container.name.clone()),
            proxy_runs: proxy.is_some_and(|proxy| runs(pod, &proxy.name)),
            is_native: is_native == Some(true),
            ready: is_ready(pod),
            terminating: meta.deletion_timestamp.is_some(),
            grace_ends: meta.deletion_timestamp.as_ref().map(|time| time.0),
            grace: grace.and_then(|grace| grace.try_into().ok()).unwrap_or(DEFAULT_GRACE),
            hook: match proxy.map(Hook::of) {
                Some(Hook::Missing) => {
                    annotation(PROXY_CONFIG).map_or(Hook::Missing, |config| hook::without(config))
                }
                hook => hook.unwrap_or_default(),
            },
            stats_port: ports.stats.or_else(|| annotated(STATS_PORT_ANNOTATION)).unwrap_or(stats),
            gate_port: ports
                .gate
                .or_else(|| annotated(GATE_PORT_ANNOTATION))
                .or_else(|| hook::question(proxy?)?.port)
                .unwrap_or(ports::GATE),
            deletion_cost: annotation(DELETION_COST).and_then(|cost| cost.parse().ok()),
            cost_is_foreign: annotation(DELETION_COST)
                .is_some_and(|cost| annotation(OWN_COST) != Some(cost)),
        }
    }

    /// Whether the pod is overdue: its node does not run, or cannot be reached.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.grace_ends.is_some_and(|end| now.duration_since(end) > OVERDUE)
    }

    /// `NAMESPACE/NAME`.
    pub fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The pod's proxy container, and whether it is a native sidecar. A pod of Envoy Gateway may also
/// have a sidecar of Istio, which has no gate.
fn proxy_of(spec: &PodSpec, is_envoy_gateway: bool) -> Option<(&Container, bool)> {
    let names: &[&str] = if is_envoy_gateway { &PROXIES[1..] } else { &PROXIES };
    let is_sidecar = |init: &&Container| init.restart_policy.as_deref() == Some("Always");
    let sidecars = spec.init_containers.iter().flatten().filter(is_sidecar);
    let sidecars = sidecars.map(|sidecar| (sidecar, true));
    let mut all = sidecars.chain(spec.containers.iter().map(|container| (container, false)));
    all.find(|(container, _)| names.contains(&container.name.as_str()))
}

fn runs(pod: &Pod, container: &str) -> bool {
    let Some(status) = &pod.status else { return false };
    let all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let mut states = all.filter(|status| status.name == container);
    states.any(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn facts(pod: serde_json::Value) -> PodFacts {
        PodFacts::of(&serde_json::from_value(pod).unwrap(), Ports::default())
    }

    #[test]
    fn a_native_sidecar_is_a_proxy_and_an_init_container_is_not() {
        let of = |policy: Option<&str>| {
            facts(serde_json::json!({ "metadata": { "name": "a" }, "spec": {
                "initContainers": [{ "name": "istio-proxy", "restartPolicy": policy }],
                "containers": [{ "name": "app" }],
            } }))
        };
        let native = of(Some("Always"));
        assert_eq!((native.proxy.as_deref(), native.is_native), (Some("istio-proxy"), true));
        assert_eq!(of(None).proxy, None);
    }

    #[test]
    fn a_sidecar_of_istio_is_not_the_proxy_of_envoy_gateway() {
        let of = |labels: serde_json::Value| {
            facts(serde_json::json!({ "metadata": { "labels": labels }, "spec": {
                "initContainers": [{ "name": "istio-proxy", "restartPolicy": "Always" }],
                "containers": [{ "name": "envoy" }],
            } }))
        };
        let owned = of(serde_json::json!({ ENVOY_GATEWAY[1]: "edge" }));
        assert_eq!(owned.proxy.as_deref(), Some("envoy"));
        assert_eq!(of(serde_json::json!({})).proxy.as_deref(), Some("istio-proxy"));
    }

    #[test]
    fn ports_come_from_the_flag_the_annotation_and_the_kind_in_this_order() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": { "annotations": {
                STATS_PORT_ANNOTATION: "9000",
                GATE_PORT_ANNOTATION: "text",
            },
                "labels": { ENVOY_GATEWAY[1]: "x" } },
        }))
        .unwrap();
        let of = |ports| PodFacts::of(&pod, ports);
        assert_eq!(of(Ports::default()).stats_port, 9000);
        assert_eq!(of(Ports::default()).gate_port, ports::GATE);
        assert_eq!(of(Ports { stats: Some(1), gate: Some(2) }).stats_port, 1);
        let mut bare = pod.clone();
        bare.metadata.annotations = None;
        assert_eq!(PodFacts::of(&bare, Ports::default()).stats_port, ENVOY_GATEWAY_STATS);
        assert_eq!(PodFacts::of(&Pod::default(), Ports::default()).stats_port, ports::ISTIO_AGENT);
    }

    #[test]
    fn a_cost_is_foreign_unless_this_program_wrote_it() {
        for (cost, own, is_foreign) in [
            (None, None, false),
            (Some("2"), Some("2"), false),
            (Some("2"), None, true),
            (Some("-100"), Some("2"), true),
            (None, Some("2"), false),
        ] {
            let annotations = [(DELETION_COST, cost), (OWN_COST, own)].into_iter();
            let annotations: BTreeMap<_, _> =
                annotations.filter_map(|(name, value)| Some((name, value?))).collect();
            let pod = facts(serde_json::json!({ "metadata": { "annotations": annotations } }));
            assert_eq!(pod.cost_is_foreign, is_foreign, "{cost:?} {own:?}");
        }
    }

    #[test]
    fn the_grace_period_of_a_deletion_replaces_that_of_the_pod() {
        let pod = facts(serde_json::json!({
            "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z",
                "deletionGracePeriodSeconds": 5,
                "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d",
                    "uid": "u" }] },
            "spec": { "terminationGracePeriodSeconds": 60, "containers": [] },
        }));
        assert!(pod.terminating);
        assert_eq!(pod.grace, 5);
        let overdue = |time: &str| pod.is_overdue(time.parse().unwrap());
        assert!(!overdue("2026-01-01T00:02:00Z") && overdue("2026-01-01T00:02:01Z"));
        assert!(!PodFacts::default().is_overdue(Timestamp::MAX));
    }
}
