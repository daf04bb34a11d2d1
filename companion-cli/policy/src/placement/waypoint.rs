//! A waypoint of Istio's ambient mode.

use laststream_filter::config::wire::{Admin, Scope};
use schemars::JsonSchema;
use serde::Deserialize;

use super::facts::{
    BEHIND_A_GATEWAY, ClientAddress, Controller, Facts, GateModule, GateParts, Place,
};
use crate::checker::Checker;
use crate::sizing::UsualDrain;
use laststream_base::istio::WAYPOINTS;

/// A waypoint of Istio's ambient mode. It has a gate if the module is a file in it, with `delivery:
/// image_volume` for example, or with `delivery: program`. Write either `gateway` or `class`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Waypoint {
    /// The name of the waypoint's Gateway, in the policy's namespace.
    pub gateway: Option<String>,
    /// `istio-waypoint`: all waypoints. The resources are then in Istio's root namespace.
    pub class: Option<String>,
}

/// The stat prefix of the connection manager that terminates the HBONE tunnels of a waypoint.
pub const TUNNELS: &str = "connect_terminate";

impl Place for Waypoint {
    fn check(&mut self, checker: &mut Checker, _: &str) {
        const PATH: &str = "placement.waypoint";
        checker.gateway_or_class(PATH, self.gateway.as_deref(), self.class.as_deref());
        if self.class.as_deref().is_some_and(|class| class != WAYPOINTS) {
            checker.problem(
                &format!("{PATH}.class"),
                format!("Istio has one class of waypoints: write `{WAYPOINTS}`"),
            );
        }
    }

    fn check_gate(&self, _: &mut Checker, _: &GateParts<'_>) {}

    fn facts(&self) -> Facts<'_> {
        Facts {
            controller: Controller::Istio,
            class: self.class.as_deref(),
            scopes: vec![(Scope::Inbound, true)],
            has_app: false,
            has_app_calls: false,
            gate_module: GateModule::File(NOT_FETCHED),
            admin: Admin { tunnels: vec![TUNNELS.into()], ..Admin::default() },
            drain: UsualDrain::ISTIO,
            starts: Err(NO_CLUSTER),
            takes_sds: false,
            no_forwarded_proto: Some(NO_LOAD_BALANCER),
            no_nlb: None,
            no_identities: None,
            client_address: ClientAddress::Refused(BEHIND_A_GATEWAY),
            no_show: Some(NO_FILTER_IN_FRONT),
            no_tcp: Some(NO_TCP),
            no_program: None,
            no_websockets: Some(NO_FRAME_FILTER),
            warning: None,
        }
    }
}

const NOT_FETCHED: &str = "a waypoint's gate is in Envoy's bootstrap, where no agent fetches a \
    module: write `delivery: image_volume`, or the path of a file in the waypoint as `module`, or \
    `delivery: program`";

const NO_CLUSTER: &str = "`agent` needs a cluster, and a waypoint takes no EnvoyFilter that \
    could add one: write `hook`";

const NO_LOAD_BALANCER: &str = "does not work at a waypoint, because the load balancer never \
    connects to it: restore the header at the gateway";

const NO_FILTER_IN_FRONT: &str = "needs a filter of Envoy in front of the module, and a waypoint \
    takes WasmPlugins only: take it out";

const NO_FRAME_FILTER: &str = "do not work at a waypoint: it takes WasmPlugins only, which are on \
    for every route. Its WebSockets are reset (1006)";

const NO_TCP: &str = "needs a filter of Envoy in the listener, and a waypoint takes WasmPlugins \
    only: take it out";
