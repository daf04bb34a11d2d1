//! The cluster by which a gate notices the stop of Istio's agent.

use std::net::{Ipv4Addr, SocketAddr};

use laststream_filter::config::wire::Scope;

use super::patch::{Patch, context_at, patch};
use crate::envoy::endpoints;
use crate::parts;
use laststream_base::ports::ISTIO_AGENT;
use laststream_base::yaml::Map;
use laststream_policy::Policy;
use laststream_policy::file::Starts;
use laststream_policy::module_json::AGENT_CLUSTER;

const WHY: &str = "Istio's agent, for the gate alone. When its port refuses connections, it stops: \
    the gate drains, and ends Envoy at zero.";

/// The patch, where the agent's stop starts the drain.
pub(super) fn cluster(policy: &Policy) -> Option<Patch> {
    if policy.starts == Starts::Hook {
        return None;
    }
    let one_request = Map::of("max_requests_per_connection", 1_u16);
    let cluster = Map::of("name", AGENT_CLUSTER)
        .with("type", "STATIC")
        .with("connect_timeout", "1s")
        .note("A connection that is open is answered even after the stop.")
        .with(
            "typed_extension_protocol_options",
            parts::protocol_options("http_protocol_options", Some(one_request)),
        )
        .with(
            "load_assignment",
            endpoints(AGENT_CLUSTER, SocketAddr::from((Ipv4Addr::LOCALHOST, ISTIO_AGENT))),
        );
    let context = Map::of("context", context_at(policy, Scope::Outbound));
    Some((WHY, patch("CLUSTER", Some(context), "ADD", cluster)))
}
