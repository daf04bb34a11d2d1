//! What the kinds of files have for each placement, in a file each.

mod envoy_gateway;
mod facts;
mod gateway;
mod gateway_api;
mod plain_envoy;
mod sidecar;
mod waypoint;

use facts::Rendering;
pub(crate) use facts::{Facts, Form, Leaves, Listeners};
use laststream_policy::Policy;
use laststream_policy::placement::Placement;

/// The facts of a policy's placement.
pub(crate) fn facts(policy: &Policy) -> Facts<'_> {
    let place: &dyn Rendering = match &policy.placement {
        Placement::Gateway(place) => place,
        Placement::GatewayApi(place) => place,
        Placement::Sidecar(place) => place,
        Placement::Waypoint(place) => place,
        Placement::EnvoyGateway(place) => place,
        Placement::Envoy(place) => place,
    };
    place.facts(policy)
}
