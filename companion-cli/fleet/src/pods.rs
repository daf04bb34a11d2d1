//! The facts from the API server that the verbs over many pods need about a pod.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::ListParams;

use super::call::Call;
use super::client::Cluster;
use super::error::FleetError;
use laststream_base::ports;

/// The names of proxy containers: Istio's and Envoy Gateway's.
pub const PROXIES: [&str; 2] = [ISTIO_PROXY, ENVOY_GATEWAYS];
pub const ISTIO_PROXY: &str = "istio-proxy";
const ENVOY_GATEWAYS: &str = "envoy";
/// The port on which Istio's agent serves Envoy's statistics.
const ISTIO_STATS: u16 = 15020;
/// The port on which Envoy Gateway's proxies serve their statistics.
const ENVOY_GATEWAY_STATS: u16 = 19001;
/// The annotation that names another port for the statistics.
pub const STATS_PORT_ANNOTATION: &str = "laststream.io/stats-port";
pub const GATE_PORT_ANNOTATION: &str = "laststream.io/gate-port";
const OWNED_BY_ENVOY_GATEWAY: &str = "gateway.envoyproxy.io/owning-gateway-name";
/// The annotation by which a ReplicaSet chooses the pods that it deletes; the lowest goes first.
pub(super) const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// The annotation with the cost that this program wrote last. A deletion cost that differs from it
/// was written by an operator or another program.
pub const OWN_COST: &str = "laststream.io/deletion-cost";
/// The number of names that are looked up at a time.
const AT_A_TIME: usize = 16;
/// Kubernetes' default grace period, in seconds.
pub const GRACE: u64 = 30;
/// The time after the end of the grace period from which a pod is overdue. A running kubelet ends a
/// pod within seconds of its grace period, and clocks differ.
const OVERDUE: SignedDuration = SignedDuration::from_mins(2);

/// The pods that a command asks.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The names of the pods, if they are asked by name.
    pub names: Vec<String>,
    /// Whether pods of all namespaces are asked, instead of those of the cluster's own.
    pub everywhere: bool,
    pub labels: Option<String>,
    pub node: Option<String>,
    pub ports: Ports,
}

impl Selection {
    /// The names that none of these pods has.
    pub fn missing(&self, pods: &[PodFacts]) -> Vec<String> {
        let is_missing = |name: &&String| !pods.iter().any(|pod| pod.name == **name);
        self.names.iter().filter(is_missing).cloned().collect()
    }
}

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

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Hook {
    /// There is no stop hook.
    #[default]
    Missing,
    /// The stop hook does not ask the gate.
    Other,
    /// The stop hook asks the gate, and names no time limit.
    Untimed,
    /// The stop hook asks the gate for at most this many seconds.
    Within(u64),
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
        let is_envoy_gateway =
            labels.is_some_and(|labels| labels.contains_key(OWNED_BY_ENVOY_GATEWAY));
        let proxy = spec.and_then(|spec| proxy_of(spec, is_envoy_gateway));
        let stats = if is_envoy_gateway { ENVOY_GATEWAY_STATS } else { ISTIO_STATS };
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
            ready: is_ready(pod),
            terminating: meta.deletion_timestamp.is_some(),
            grace_ends: meta.deletion_timestamp.as_ref().map(|time| time.0),
            grace: grace.and_then(|grace| grace.try_into().ok()).unwrap_or(GRACE),
            hook: proxy.map(hook_of).unwrap_or_default(),
            stats_port: ports.stats.or_else(|| annotated(STATS_PORT_ANNOTATION)).unwrap_or(stats),
            gate_port: ports
                .gate
                .or_else(|| annotated(GATE_PORT_ANNOTATION))
                .or_else(|| port_of_hook(proxy?))
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

/// The pod's proxy container. A pod of Envoy Gateway may also have a sidecar of Istio, which has no
/// gate.
fn proxy_of(spec: &PodSpec, is_envoy_gateway: bool) -> Option<&Container> {
    let names: &[&str] = if is_envoy_gateway { &[ENVOY_GATEWAYS] } else { &PROXIES };
    let is_sidecar = |init: &&Container| init.restart_policy.as_deref() == Some("Always");
    let sidecars = spec.init_containers.iter().flatten().filter(is_sidecar);
    sidecars.chain(&spec.containers).find(|container| names.contains(&container.name.as_str()))
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

fn hook_of(proxy: &Container) -> Hook {
    let lifecycle = proxy.lifecycle.as_ref();
    let Some(hook) = lifecycle.and_then(|lifecycle| lifecycle.pre_stop.as_ref()) else {
        return Hook::Missing;
    };
    if let Some(get) = &hook.http_get {
        let asks_gate = get.path.as_deref().is_some_and(|path| path.starts_with("/prestop"));
        return if asks_gate { Hook::Untimed } else { Hook::Other };
    }
    let Some(exec) = &hook.exec else { return Hook::Other }; // such as `sleep`
    let command = exec.command.iter().flatten();
    hook_of_command(&command.map(String::as_str).collect::<Vec<_>>().join(" "))
}

/// The gate's port in a stop hook, such as `http://127.0.0.1:16091/prestop?wait`.
fn port_of_hook(proxy: &Container) -> Option<u16> {
    let hook = proxy.lifecycle.as_ref()?.pre_stop.as_ref()?;
    let words = hook.exec.as_ref()?.command.iter().flatten();
    words.flat_map(|word| word.split_once("http://127.0.0.1:")).find_map(|(_, rest)| {
        let digits = rest.find(|character: char| !character.is_ascii_digit());
        rest.get(..digits.unwrap_or(rest.len()))?.parse().ok()
    })
}

/// Reads a command such as `pilot-agent wait --url=…/prestop --timeoutSeconds=23` or `laststream
/// prestop --timeout 23s`.
fn hook_of_command(command: &str) -> Hook {
    let runs_program = command.contains("laststream") && command.contains(" prestop");
    if !runs_program && !command.contains("/prestop") {
        return if command.is_empty() { Hook::Missing } else { Hook::Other };
    }
    let mut words = command.split([' ', '=']).map(|word| word.trim_matches('"'));
    while let Some(word) = words.next() {
        let time = match word {
            "--timeoutSeconds" => words.next().and_then(|value| value.parse().ok()),
            "--timeout" => words.next().and_then(|value| {
                let span: laststream_base::time_span::TimeSpan = value.parse().ok()?;
                Some(span.whole_seconds())
            }),
            _ => continue,
        };
        return time.map_or(Hook::Untimed, Hook::Within);
    }
    // The defaults of `pilot-agent wait` and `laststream prestop`.
    match (command.contains("pilot-agent wait"), command.contains("/prestop")) {
        (true, _) => Hook::Within(60),
        (false, true) => Hook::Untimed,
        (false, false) => Hook::Within(25),
    }
}

impl Cluster {
    /// The pods of a selection that have not ended, or those with its names.
    pub async fn pods(&self, selection: &Selection) -> Result<Vec<PodFacts>, FleetError> {
        if selection.names.is_empty() {
            return self.listed(selection, fields(selection)).await;
        }
        let names = selection.names.iter().collect::<BTreeSet<_>>();
        let pods = stream::iter(names)
            .map(|name| self.listed(selection, format!("metadata.name={name}")))
            .buffered(AT_A_TIME);
        pods.try_concat().await
    }

    async fn listed(
        &self,
        selection: &Selection,
        fields: String,
    ) -> Result<Vec<PodFacts>, FleetError> {
        let call = Call::new("list", "pods");
        let (pods, call): (Api<Pod>, _) = if selection.everywhere {
            (Api::all(self.client()), call)
        } else {
            (Api::namespaced(self.client(), self.namespace()), call.within(self.namespace()))
        };
        let page = async |params: &ListParams| pods.list(params).await;
        let facts = |pod| PodFacts::of(&pod, selection.ports);
        self.pages(&call, params(selection, &fields), page, facts).await
    }
}

pub(super) fn params(selection: &Selection, fields: &str) -> ListParams {
    let label_selector = selection.labels.clone();
    ListParams { label_selector, ..ListParams::default().fields(fields) }
}

/// The fields by which the API server selects pods that have not ended.
pub(super) fn fields(selection: &Selection) -> String {
    let running = "status.phase!=Succeeded,status.phase!=Failed";
    match &selection.node {
        Some(node) => format!("{running},spec.nodeName={node}"),
        None => running.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn facts(pod: serde_json::Value) -> PodFacts {
        PodFacts::of(&serde_json::from_value(pod).unwrap(), Ports::default())
    }

    #[test]
    fn the_stop_hook_names_the_gates_port() {
        let of = |command: serde_json::Value| {
            facts(serde_json::json!({ "metadata": { "name": "a" }, "spec": { "containers": [{
                "name": "istio-proxy",
                "lifecycle": { "preStop": { "exec": { "command": command } } },
            }] } }))
            .gate_port
        };
        let shell = "pilot-agent wait --url=http://127.0.0.1:9001/prestop?wait=10s";
        assert_eq!(of(serde_json::json!(["sh", "-c", shell])), 9001);
        let own = ["/laststream", "prestop", "--gate=http://127.0.0.1:9000", "--timeout=24s"];
        assert_eq!(of(serde_json::json!(own)), 9000);
        assert_eq!(of(serde_json::json!(["sleep", "5"])), ports::GATE);
    }

    #[test]
    fn a_native_sidecar_is_a_proxy_and_an_init_container_is_not() {
        let of = |policy: Option<&str>| {
            facts(serde_json::json!({ "metadata": { "name": "a" }, "spec": {
                "initContainers": [{ "name": "istio-proxy", "restartPolicy": policy }],
                "containers": [{ "name": "app" }],
            } }))
        };
        assert_eq!(of(Some("Always")).proxy.as_deref(), Some("istio-proxy"));
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
        let owned = of(serde_json::json!({ OWNED_BY_ENVOY_GATEWAY: "edge" }));
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
                "labels": { OWNED_BY_ENVOY_GATEWAY: "x" } },
        }))
        .unwrap();
        let of = |ports| PodFacts::of(&pod, ports);
        assert_eq!(of(Ports::default()).stats_port, 9000);
        assert_eq!(of(Ports::default()).gate_port, ports::GATE);
        assert_eq!(of(Ports { stats: Some(1), gate: Some(2) }).stats_port, 1);
        let mut bare = pod.clone();
        bare.metadata.annotations = None;
        assert_eq!(PodFacts::of(&bare, Ports::default()).stats_port, ENVOY_GATEWAY_STATS);
        assert_eq!(PodFacts::of(&Pod::default(), Ports::default()).stats_port, ISTIO_STATS);
    }

    #[test]
    fn a_sleep_action_is_a_stop_hook() {
        let pod = facts(serde_json::json!({ "metadata": {}, "spec": { "containers": [{
            "name": "envoy", "lifecycle": { "preStop": { "sleep": { "seconds": 10 } } } }] } }));
        assert_eq!(pod.hook, Hook::Other);
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
    fn a_hook_command_gives_its_time_limit() {
        for (command, expected) in [
            ("", Hook::Missing),
            ("sleep 5", Hook::Other),
            (
                "pilot-agent wait --url=http://127.0.0.1:16091/prestop?wait --timeoutSeconds=23",
                Hook::Within(23),
            ),
            (
                "sh -c exec pilot-agent wait --url=\"http://127.0.0.1:1/prestop?secret=$x\" \
                --timeoutSeconds=40 --periodMillis=250",
                Hook::Within(40),
            ),
            ("/usr/local/bin/laststream prestop --timeout 1m30s", Hook::Within(90)),
            ("laststream prestop", Hook::Within(25)),
            ("laststream wait", Hook::Other),
            ("pilot-agent wait --url=http://127.0.0.1:16091/prestop?wait", Hook::Within(60)),
            ("curl http://127.0.0.1:16091/prestop?wait", Hook::Untimed),
        ] {
            assert_eq!(hook_of_command(command), expected, "{command}");
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
