//! The gateway in front of all pods: a listener for each lane. Retries are Istio's; the lane
//! `retries` adds `reset`.

use serde_json::{Value, json};

use super::bootstrap;
use super::lane::Lane;
use super::pod::Pod;
use super::proxy::{Proxy, Starter};

/// Istio's default retries: only requests that the app has not begun.
const DEFAULT_RETRIES: &str = "connect-failure,refused-stream,unavailable,cancelled";

/// Starts the gateway in front of each lane's pods.
pub(super) fn start(starter: &Starter, pods: &[(Lane, Vec<Pod>)]) -> Result<Proxy, String> {
    let listeners = pods
        .iter()
        .map(|(lane, _)| bootstrap::listener(lane.key(), lane.key(), &retries(*lane), &[]));
    let clusters = pods.iter().map(|(lane, pods)| {
        let ports: Vec<u16> = pods.iter().map(|pod| pod.inbound).collect();
        bootstrap::cluster(lane.key(), &ports)
    });
    starter.start(
        "gateway",
        &bootstrap::plain(&starter.admin("gateway"), listeners.collect(), clusters.collect()),
    )
}

const PREVIOUS_HOSTS: &str = concat!(
    "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.",
    "PreviousHostsPredicate"
);

fn retries(lane: Lane) -> Value {
    let reset = if lane == Lane::Retries { ",reset" } else { "" };
    json!({
        "retry_on": format!("{DEFAULT_RETRIES}{reset}"),
        "num_retries": 2,
        "retry_host_predicate": [{
            "name": "envoy.retry_host_predicates.previous_hosts",
            "typed_config": { "@type": PREVIOUS_HOSTS },
        }],
        "host_selection_retry_max_attempts": 5,
    })
}
