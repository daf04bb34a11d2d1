//! Pods that are only objects, of every kind that `status` tells apart, in a known mixture.

use std::net::Ipv4Addr;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::Request;
use laststream::fleet::{Cluster, STATS_PORT};
use serde_json::{Value, json};

use super::stand_in::SILENT;
use kit::prelude::*;

pub(super) const NAMESPACE: &str = "many";
/// Objects that are written at a time.
const AT_A_TIME: usize = 32;
const IN_A_SUBNET: usize = 250;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Serving,
    Draining,
    Without,
    Half,
    /// Nothing listens on its port.
    Refused,
    /// Its port never answers.
    Silent,
    NotReady,
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
            (_, 7) => Self::Plain,
            _ => Self::Serving,
        }
    }
}

/// How many of the first pods are of this kind.
pub(super) fn count(kind: Kind, pods: usize) -> usize {
    (0..pods).filter(|index| Kind::of(*index) == kind).count()
}

fn address(index: usize) -> Ipv4Addr {
    let part = |number: usize| u8::try_from(number).unwrap_or_default();
    Ipv4Addr::new(10, 244, part(index / IN_A_SUBNET), part(index % IN_A_SUBNET + 1))
}

pub(super) fn index_of(address: Ipv4Addr) -> usize {
    let [_, _, subnet, host] = address.octets();
    usize::from(subnet) * IN_A_SUBNET + usize::from(host).saturating_sub(1)
}

/// Writes pods and their status.
pub(super) async fn create(cluster: &Cluster, from: usize, to: usize) -> Outcome {
    stream::iter(from..to)
        .map(|index| async move {
            let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
            send(cluster, "POST", &path, "application/json", &pod(index)).await?;
            let path = format!("{path}/{}/status", name(index));
            let patch = "application/merge-patch+json";
            send(cluster, "PATCH", &path, patch, &status(index)).await
        })
        .buffer_unordered(AT_A_TIME)
        .try_collect::<Vec<()>>()
        .await
        .map(drop)
}

async fn send(cluster: &Cluster, method: &str, path: &str, kind: &str, body: &Value) -> Outcome {
    let request = Request::builder().method(method).uri(path).header("content-type", kind);
    let request = request.body(body.to_string().into_bytes())?;
    cluster.client().request_text(request).await.map(drop).map_err(Error::msg)
}

fn name(index: usize) -> String {
    format!("pod-{index:05}")
}

fn pod(index: usize) -> Value {
    let kind = Kind::of(index);
    let proxy = if kind == Kind::Plain { "app" } else { "istio-proxy" };
    let port = match kind {
        Kind::Refused => Some("9".to_owned()),
        Kind::Silent => Some(SILENT.to_string()),
        _ => None,
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name(index), "labels": { "app": "many" },
            "annotations": port.map(|port| json!({ STATS_PORT: port })),
        },
        "spec": {
            "nodeName": format!("node-{:03}", index / 100),
            "containers": [{ "name": proxy, "image": "none" }],
        },
    })
}

fn status(index: usize) -> Value {
    let ready = Kind::of(index) != Kind::NotReady;
    let address = address(index).to_string();
    let proxy = if Kind::of(index) == Kind::Plain { "app" } else { "istio-proxy" };
    json!({ "status": {
        "phase": "Running", "podIP": address, "podIPs": [{ "ip": address }],
        "conditions": [{
            "type": "Ready", "status": if ready { "True" } else { "False" },
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
        "containerStatuses": [{
            "name": proxy, "image": "none", "imageID": "", "ready": ready, "restartCount": 0,
            "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
        }],
    } })
}
