//! An Istio gateway with its own Deployment.

use std::collections::BTreeMap;

use laststream_filter::config::wire::{Admin, Scope};
use schemars::JsonSchema;
use serde::Deserialize;

use super::facts::{
    ClientAddress, Controller, Facts, GateModule, GateParts, HAS_MODULE, KEEPS_REMOTE_ADDRESS,
    Place,
};
use crate::checker::Checker;
use crate::file::drain::Starts;
use crate::sizing::UsualDrain;

/// An Istio gateway with its own Deployment, from Istio's chart for example.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gateways {
    /// Labels of the gateway's pods, by default `istio: ingressgateway`. In Istio's root namespace
    /// they select gateways of all namespaces.
    pub selector: BTreeMap<String, String>,
}

impl Place for Gateways {
    fn check(&mut self, checker: &mut Checker, _: &str) {
        checker.labels("placement.gateway.selector", &self.selector);
        if self.selector.is_empty() {
            self.selector = BTreeMap::from([("istio".into(), "ingressgateway".into())]);
        }
    }

    fn check_gate(&self, _: &mut Checker, _: &GateParts<'_>) {}

    fn facts(&self) -> Facts<'_> {
        Facts {
            controller: Controller::Istio,
            class: None,
            scopes: vec![(Scope::Gateway, true)],
            has_app: false,
            has_app_calls: false,
            gate_module: GateModule::Fetched,
            admin: Admin::default(),
            drain: UsualDrain::ISTIO,
            starts: Ok(Starts::Agent),
            takes_sds: true,
            no_forwarded_proto: None,
            no_nlb: None,
            no_identities: None,
            client_address: ClientAddress::Refused(KEEPS_REMOTE_ADDRESS),
            no_show: None,
            no_tcp: None,
            no_program: Some(HAS_MODULE),
            no_websockets: None,
            warning: None,
        }
    }
}
