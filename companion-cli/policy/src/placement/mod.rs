//! The kinds of proxies. What a check must know of one stands in its own file; only this file knows
//! them all.

mod envoy_gateway;
mod facts;
mod gateway;
mod gateway_api;
mod plain_envoy;
mod sidecar;
mod waypoint;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::checker::Checker;
pub use envoy_gateway::EnvoyGateway;
pub(crate) use facts::{ClientAddress, GateParts, Place, Site};
pub use facts::{Controller, Facts, GateModule};
pub use gateway::Gateways;
pub use gateway_api::GatewayApi;
pub use plain_envoy::{ADMIN_CLUSTER, AppProtocol, PlainEnvoy};
pub use sidecar::Sidecars;
pub use waypoint::{TUNNELS, Waypoint};

/// The kind of proxy.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Placement {
    /// An Istio gateway with its own Deployment, from Istio's chart for example.
    Gateway(Gateways),
    /// A Gateway of the Gateway API, whose Deployment Istio makes.
    GatewayApi(GatewayApi),
    /// Istio sidecars.
    Sidecar(Sidecars),
    /// A waypoint of Istio's ambient mode.
    Waypoint(Waypoint),
    /// A Gateway that Envoy Gateway runs.
    EnvoyGateway(EnvoyGateway),
    /// An Envoy without a mesh.
    Envoy(PlainEnvoy),
}

macro_rules! place {
    ($placement:expr) => {
        match $placement {
            Self::Gateway(place) => place,
            Self::GatewayApi(place) => place,
            Self::Sidecar(place) => place,
            Self::Waypoint(place) => place,
            Self::EnvoyGateway(place) => place,
            Self::Envoy(place) => place,
        }
    };
}

impl Default for Placement {
    fn default() -> Self {
        Self::Gateway(Gateways::default())
    }
}

impl Placement {
    /// An Envoy without a mesh, with the usual addresses.
    pub fn plain() -> Self {
        Self::Envoy(PlainEnvoy::default())
    }

    pub fn facts(&self) -> Facts<'_> {
        self.place().facts()
    }

    fn place(&self) -> &dyn Place {
        place!(self)
    }

    /// Checks its own fields, and fills in defaults.
    pub(crate) fn check(&mut self, checker: &mut Checker, name: &str) {
        let place: &mut dyn Place = place!(self);
        place.check(checker, name);
    }

    pub(crate) fn check_gate(&self, checker: &mut Checker, gate: &GateParts<'_>) {
        self.place().check_gate(checker, gate);
    }

    pub fn is_istio(&self) -> bool {
        self.facts().controller == Controller::Istio
    }

    /// Whether Envoy ends streams that are silent; istiod switches that off.
    pub(crate) fn limits_silence(&self) -> bool {
        !self.is_istio()
    }
}
