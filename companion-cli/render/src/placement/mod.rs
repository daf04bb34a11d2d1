//! What the kinds of files have for each placement, in a file each.

mod envoy_gateway;
mod facts;
mod gateway;
mod gateway_api;
mod plain_envoy;
mod sidecar;
mod waypoint;

pub(crate) use facts::{Facts, Form, Leaves, Listeners};
use laststream_policy::Policy;
use laststream_policy::placement::Placement;

/// The facts of a policy's placement.
pub(crate) fn facts(policy: &Policy) -> Facts<'_> {
    match &policy.placement {
        Placement::Gateway(place) => gateway::facts(place),
        Placement::GatewayApi(place) => gateway_api::facts(place),
        Placement::Sidecar(place) => sidecar::facts(place),
        Placement::Waypoint(place) => waypoint::facts(place),
        Placement::EnvoyGateway(place) => envoy_gateway::facts(place, policy),
        Placement::Envoy(place) => plain_envoy::facts(place, policy),
    }
}
