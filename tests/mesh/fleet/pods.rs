//! Pods that are only objects, in a known mixture of all kinds that `status` distinguishes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use laststream_fleet::{self as fleet, STATS_PORT_ANNOTATION};

use super::kwok;
use super::operator::KEPT;
use super::stand_in::SILENT;
use super::world::send;
use crate::cluster::Cluster;
use kit::prelude::*;

pub(super) const NAMESPACE: &str = "many";
const PODS: &str = "/api/v1/namespaces/many/pods";
/// How many objects are written at a time.
const AT_A_TIME: usize = 32;
const ON_A_NODE: usize = 100;
/// The limit for everything that concerns all pods: KWOK must run them, and a command ask them.
pub(super) const SETTLED: Duration = Duration::from_secs(900);
const PAUSE: Duration = Duration::from_millis(500);
/// The output format: a pod in each line with its name, its address, and whether it is ready.
const LINES: &str = "jsonpath={range .items[*]}{.metadata.name} {.status.podIP} \
    {.status.conditions[?(@.type==\"Ready\")].status}{\"\\n\"}{end}";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Serving,
    Draining,
    /// The pod was deleted, and its gate drains.
    Terminating,
    Without,
    Half,
    /// Its port refuses connections.
    Refused,
    /// Its port never answers.
    Silent,
    NotReady,
    /// Its containers have ended, and start again later.
    NotRunning,
    /// It has no proxy.
    Plain,
}

impl Kind {
    pub(super) fn of(index: usize) -> Self {
        match (index, index % 100) {
            (50, _) => Self::Silent,
            (_, 1) => Self::Draining,
            (_, 2) => Self::Without,
            (_, 3) => Self::Half,
            (_, 4) => Self::Refused,
            (_, 5) => Self::NotReady,
            (_, 6) => Self::Terminating,
            (_, 7) => Self::Plain,
            (_, 8) => Self::NotRunning,
            _ => Self::Serving,
        }
    }

    /// The label by which KWOK chooses its stages.
    fn label(self) -> &'static str {
        match self {
            Self::NotReady => "not-ready",
            Self::NotRunning => "not-running",
            _ => "running",
        }
    }

    fn is_ready(self) -> bool {
        !matches!(self, Self::NotReady | Self::NotRunning)
    }
}

/// How many of the first pods are of this kind.
pub(super) fn count(kind: Kind, pods: usize) -> usize {
    (0..pods).filter(|index| Kind::of(*index) == kind).count()
}

/// Writes nodes and pods, and waits until KWOK has brought every pod into its intended state.
/// Returns the address of each pod, which KWOK has chosen.
pub(super) async fn create(
    cluster: &Cluster,
    client: &fleet::Cluster,
    from: usize,
    to: usize,
) -> Outcome<BTreeMap<Ipv4Addr, usize>> {
    let node = |index: usize| kwok::node(&node_name(index), &format!("10.244.{index}.0/24"));
    let nodes: Vec<Value> = (from / ON_A_NODE..to.div_ceil(ON_A_NODE)).map(node).collect();
    cluster.apply_all(&nodes).await?;
    kwok::nodes_ready(cluster).await?;
    each(from..to, async |index| send(client, "POST", PODS, &pod(index)).await).await?;
    let look = async || {
        tokio::time::sleep(PAUSE).await;
        addresses(cluster, client, to).await
    };
    let addresses = wait_for(SETTLED, "KWOK to run all pods", look).await?;
    let terminating = (from..to).filter(|index| Kind::of(*index) == Kind::Terminating);
    each(terminating, async |index| {
        let path = format!("{PODS}/{}", name(index));
        send(client, "DELETE", &path, &Value::Null).await
    })
    .await?;
    Ok(addresses)
}

async fn each(
    indices: impl Iterator<Item = usize>,
    step: impl AsyncFn(usize) -> Outcome,
) -> Outcome {
    let steps = stream::iter(indices).map(|index| step(index)).buffer_unordered(AT_A_TIME);
    steps.try_collect::<Vec<()>>().await.map(drop)
}

/// Addresses of the pods, or an error while any pod is not yet in its intended state.
async fn addresses(
    cluster: &Cluster,
    client: &fleet::Cluster,
    pods: usize,
) -> Outcome<BTreeMap<Ipv4Addr, usize>> {
    let path = format!("{PODS}?limit=1&fieldSelector=status.phase%21%3DRunning");
    let waiting: Value = serde_json::from_str(&cluster.run(&["get", "--raw", &path]).await?)?;
    ensure_eq!(waiting["items"].as_array().map(Vec::len), Some(0), "pods that do not run yet");
    let all = ["get", "pods", "--namespace", NAMESPACE, "--output", LINES];
    let said = cluster.run(&all).await?;
    let (mut addresses, mut doubles) = (BTreeMap::new(), BTreeSet::new());
    for line in said.lines() {
        let mut words = line.split(' ');
        let (name, address, ready) = (words.next(), words.next(), words.next());
        let index = name.and_then(|name| name.strip_prefix("pod-")).context("a pod")?.parse()?;
        let is_ready = ready == Some("True");
        ensure_eq!(is_ready, Kind::of(index).is_ready(), "whether it is ready: {line}");
        if let Some(other) = addresses.insert(address.context("an address")?.parse()?, index) {
            doubles.extend([other, index]);
        }
    }
    // KWOK gives a few of 10,000 pods an address that another pod has.
    for index in &doubles {
        let free = json!({ "metadata": { "finalizers": null } }).to_string();
        let pod = format!("pod/{}", name(*index));
        cluster.patch(NAMESPACE, &pod, &["--type=merge", "--patch", &free]).await?;
        let path = format!("{PODS}/{}?gracePeriodSeconds=0", name(*index));
        send(client, "DELETE", &path, &Value::Null).await?;
    }
    for index in doubles {
        send(client, "POST", PODS, &pod(index)).await?;
    }
    ensure_eq!(addresses.len(), pods, "addresses, one for each pod");
    Ok(addresses)
}

fn name(index: usize) -> String {
    format!("pod-{index:05}")
}

fn node_name(index: usize) -> String {
    format!("node-{index:03}")
}

fn pod(index: usize) -> Value {
    let kind = Kind::of(index);
    let proxy = if kind == Kind::Plain { "app" } else { "istio-proxy" };
    let port = match kind {
        Kind::Refused => Some("9".to_owned()),
        Kind::Silent => Some(SILENT.to_string()),
        _ => None,
    };
    // KWOK removes a deleted pod at once unless it has a finalizer.
    let finalizers: &[&str] = if kind == Kind::Terminating { &[KEPT] } else { &[] };
    let set = format!("app-{}", index / ON_A_NODE);
    let hook = [
        "pilot-agent",
        "wait",
        "--url=http://127.0.0.1:16091/prestop?wait=10s",
        "--timeoutSeconds=24",
    ];
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name(index),
            "labels": { "app": "many", "kind": kind.label(), "controller-revision-hash": "1" },
            "annotations": port.map(|port| json!({ STATS_PORT_ANNOTATION: port })),
            "finalizers": finalizers,
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": set,
                "uid": "2c1f7a56-3f0e-4b7a-9d53-0d3c5f1c7a10", "controller": true,
            }],
        },
        "spec": {
            "nodeName": node_name(index / ON_A_NODE),
            "containers": [{
                "name": proxy, "image": "none",
                "lifecycle": { "preStop": { "exec": { "command": hook } } },
            }],
        },
    })
}
