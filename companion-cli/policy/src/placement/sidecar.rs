//! Istio sidecars.

use std::collections::BTreeMap;

use laststream_filter::config::wire::{Admin, Scope};
use schemars::JsonSchema;
use serde::Deserialize;

use super::facts::{
    BEHIND_A_GATEWAY, ClientAddress, Controller, Facts, GateModule, GateParts, HAS_MODULE, Place,
};
use crate::checker::Checker;
use crate::file::Starts;
use crate::sizing::UsualDrain;

/// Istio sidecars.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Sidecars {
    /// Labels of the pods. The default is all sidecars of the namespace; in Istio's root namespace,
    /// all of the mesh.
    pub selector: BTreeMap<String, String>,
    /// The streams that are counted, by default both directions.
    pub directions: Vec<Direction>,
    /// `true`: the sidecars are init containers with `restartPolicy: Always`, as Istio 1.27 and
    /// newer inject them by default. `false`: they are ordinary containers. If this is not
    /// written, `false` is assumed, with a warning.
    pub native: Option<bool>,
    /// The name of the Deployment that `render lifecycle` and `render proxy-config` patch, by
    /// default the policy's name.
    pub workload: Option<String>,
}

impl Sidecars {
    /// Whether the sidecars are init containers.
    pub fn is_native(&self) -> bool {
        self.native == Some(true)
    }
}

/// The direction of a stream, seen from the app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Requests to the app.
    Inbound,
    /// Requests from the app.
    Outbound,
}

impl Direction {
    fn scope(self) -> Scope {
        match self {
            Self::Inbound => Scope::Inbound,
            Self::Outbound => Scope::Outbound,
        }
    }
}

impl Place for Sidecars {
    fn check(&mut self, checker: &mut Checker, name: &str) {
        checker.labels("placement.sidecar.selector", &self.selector);
        if self.directions.is_empty() {
            self.directions = vec![Direction::Inbound, Direction::Outbound];
        }
        let directions = &self.directions;
        let is_doubled = |direction| directions.iter().filter(|one| **one == direction).count() > 1;
        if is_doubled(Direction::Inbound) || is_doubled(Direction::Outbound) {
            checker.problem(
                "placement.sidecar.directions",
                "names a direction twice: its streams would be counted twice",
            );
        }
        let workload = self.workload.get_or_insert_with(|| name.to_owned());
        checker.dns_subdomain("placement.sidecar.workload", workload);
    }

    fn check_gate(&self, _: &mut Checker, _: &GateParts<'_>) {}

    fn facts(&self) -> Facts<'_> {
        let has_inbound = self.directions.contains(&Direction::Inbound);
        let scopes = self.directions.iter().map(|one| (one.scope(), *one == Direction::Inbound));
        Facts {
            controller: Controller::Istio,
            class: None,
            scopes: scopes.collect(),
            has_app: true,
            has_app_calls: true,
            gate_module: GateModule::Fetched,
            admin: Admin::default(),
            drain: UsualDrain::ISTIO,
            starts: match self.native {
                Some(true) => Err(DRAINED),
                Some(false) => Ok(Starts::Agent),
                // A hook is right for both kinds.
                None => Ok(Starts::Hook),
            },
            takes_sds: true,
            no_forwarded_proto: (!has_inbound).then_some(NO_INBOUND),
            no_nlb: Some(REDIRECTED),
            no_identities: None,
            client_address: ClientAddress::Refused(BEHIND_A_GATEWAY),
            no_show: None,
            no_tcp: Some(NO_TCP),
            no_program: Some(HAS_MODULE),
            no_websockets: None,
            warning: self.native.is_none().then_some(CLASSIC),
        }
    }
}

const NO_INBOUND: &str = "is about requests to the app, which `placement.sidecar.directions` \
    leaves out: add `inbound`";

/// Redirection by iptables also replaces the local address.
const REDIRECTED: &str = "`nlb` does not work at a sidecar: its connections are redirected, so the \
    app's own port would pass for the load balancer's. Restore the header at the gateway";

/// Why no gate can wait for SIGTERM in a native sidecar.
const DRAINED: &str = "`agent` does not work in native sidecars: Istio's own hook has drained the \
    agent, which then ends Envoy at SIGTERM at once. Write `hook`";

const CLASSIC: &str = "placement.sidecar.native: is not written, so `false` is assumed. Istio 1.27 \
    and newer inject native sidecars by default (`kubectl get pod POD --output \
    jsonpath='{.spec.initContainers[*].name}'` lists `istio-proxy`): write `true` or `false`";

const NO_TCP: &str = "is for gateways: at a sidecar the app's own connections, such as those to \
    its database, are in the same statistics. Take it out";
