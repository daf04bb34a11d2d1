//! An Envoy without a mesh.

use std::net::SocketAddr;

use laststream_filter::config::wire::{Admin, Scope};
use schemars::JsonSchema;
use serde::Deserialize;

use super::facts::{ClientAddress, Controller, Facts, GateModule, GateParts, NO_AGENT, Place};
use crate::checker::Checker;
use crate::sizing::UsualDrain;

/// An Envoy without a mesh.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PlainEnvoy {
    /// Where Envoy listens, by default `127.0.0.1:10000`.
    pub listen: Option<String>,
    /// Where the app listens, by default `127.0.0.1:8080`.
    pub app: Option<String>,
    /// The protocol of requests to the app.
    pub app_protocol: AppProtocol,
    /// Where Envoy's admin interface listens, by default `127.0.0.1:9901`.
    pub admin: Option<String>,
}

/// The protocol of requests to the app.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AppProtocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2 without TLS. Servers of gRPC need it.
    Http2,
}

/// The cluster of the admin interface in a rendered bootstrap.
pub const ADMIN_CLUSTER: &str = "admin";

impl Place for PlainEnvoy {
    fn check(&mut self, checker: &mut Checker, _: &str) {
        for (path, address, usual) in [
            ("placement.envoy.listen", &mut self.listen, "127.0.0.1:10000"),
            ("placement.envoy.app", &mut self.app, "127.0.0.1:8080"),
            ("placement.envoy.admin", &mut self.admin, "127.0.0.1:9901"),
        ] {
            checker.address(path, address.get_or_insert_with(|| usual.into()));
        }
    }

    /// In the rendered bootstrap the app's cluster is `app`, and the gate's listener needs another
    /// port than `listen` and `admin`.
    fn check_gate(&self, checker: &mut Checker, parts: &GateParts<'_>) {
        let app = parts.drain.wait_for_app.as_ref().map(|app| &app.cluster);
        let notify = parts.gate.notify.as_ref().map(|call| &call.cluster);
        for (path, cluster) in
            [("drain.wait_for_app.cluster", app), ("gate.notify.cluster", notify)]
        {
            if cluster.is_some_and(|name| !name.is_empty() && name != "app") {
                let message = "is not in the rendered bootstrap: the app's cluster is `app`";
                checker.problem(path, message);
            }
        }
        let addresses = [&self.listen, &self.admin].into_iter().flatten();
        let mut addresses = addresses.filter_map(|text| text.parse::<SocketAddr>().ok());
        if let Some(port) = parts.port.filter(|port| addresses.any(|at| at.port() == *port)) {
            checker.taken_port(port, "the policy");
        }
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            controller: Controller::None,
            class: None,
            scopes: vec![(Scope::Gateway, true)],
            has_app: true,
            has_app_calls: false,
            gate_module: GateModule::Fetched,
            admin: Admin { cluster: ADMIN_CLUSTER.into(), ..Admin::default() },
            drain: UsualDrain::ENVOY,
            starts: Err(NO_AGENT),
            takes_sds: true,
            no_forwarded_proto: None,
            no_nlb: None,
            no_identities: None,
            client_address: ClientAddress::Header,
            no_show: None,
            no_tcp: None,
            no_program: None,
            no_websockets: None,
            warning: None,
        }
    }
}
