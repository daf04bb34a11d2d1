//! The Envoy in front of all gateways, such as a load balancer: a listener for each lane. Retries
//! are Istio's; the lane `retries` adds `reset`.

use serde_json::{Value, json};

use super::bootstrap;
use super::lane::Lane;
use super::pod::Pod;
use super::proxy::{Proxy, Starter};

/// Istio's default retries: only requests that the app has not begun.
const DEFAULT_RETRIES: &str = "connect-failure,refused-stream,unavailable,cancelled";

/// Starts the caller of each lane's pods.
pub(super) fn start(starter: &Starter, pods: &[(Lane, Vec<Pod>)]) -> Result<Proxy, String> {
    let listeners = pods.iter().map(|(lane, _)| {
        let mut listener = bootstrap::listener(lane.key(), lane.key(), route(*lane), &[]);
        // The client sees at once that its WebSocket is cut.
        let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
        manager["delayed_close_timeout"] = "0s".into();
        listener
    });
    let clusters = pods.iter().map(|(lane, pods)| {
        let ports: Vec<u16> = pods.iter().map(|pod| pod.inbound).collect();
        let mut cluster = bootstrap::cluster(lane.key(), &ports);
        cluster["lb_policy"] = "RING_HASH".into();
        cluster
    });
    starter.start(
        "caller",
        &bootstrap::plain(&starter.admin("caller"), listeners.collect(), clusters.collect()),
    )
}

const PREVIOUS_HOSTS: &str = concat!(
    "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.",
    "PreviousHostsPredicate"
);

/// How many places of the ring are tried for another pod. Neighbours are often the same pod's: of
/// Istio's five tries none finds another one in three demos of a hundred.
const PLACES: u32 = 100;

/// Both streams of a client go to the same pod. What is repeated goes to another one.
fn route(lane: Lane) -> Value {
    let reset = if lane == Lane::Retries { ",reset" } else { "" };
    let retries = json!({
        "retry_on": format!("{DEFAULT_RETRIES}{reset}"),
        "num_retries": 2,
        "retry_host_predicate": [{
            "name": "envoy.retry_host_predicates.previous_hosts",
            "typed_config": { "@type": PREVIOUS_HOSTS },
        }],
        "host_selection_retry_max_attempts": PLACES,
    });
    let client = json!([{ "connection_properties": { "source_ip": true } }]);
    json!({ "retry_policy": retries, "hash_policy": client })
}
