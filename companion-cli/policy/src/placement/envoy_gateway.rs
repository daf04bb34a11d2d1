//! A Gateway that Envoy Gateway runs. Its gate needs the module as a file of the pod, and a program
//! for the stop hook.

use laststream_filter::config::wire::{Admin, Scope};
use schemars::JsonSchema;
use serde::Deserialize;

use super::facts::{ClientAddress, Controller, Facts, GateModule, GateParts, NO_AGENT, Place};
use crate::checker::Checker;
use crate::file::gate::GateSecret;
use crate::sizing::UsualDrain;
use laststream_base::env_vars::LASTSTREAM_SECRET;

/// A Gateway that Envoy Gateway runs.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvoyGateway {
    /// The name of the Gateway.
    pub gateway: String,
    /// Names of the Gateway's plain HTTP listeners, by default `http`. `render` patches
    /// them, because no policy resource of Envoy Gateway can restore the header.
    #[serde(default)]
    pub listeners: Vec<String>,
}

/// Stat prefixes of connection managers whose requests do not hold the drain: those of the gate and
/// of its queries to Envoy, and Envoy Gateway's for kubelet's probes and for scrapes of the
/// metrics.
const IGNORED: [&str; 4] = ["admin", "laststream", "eg-ready-http", "eg-stats-http"];

impl Place for EnvoyGateway {
    fn check(&mut self, checker: &mut Checker, _: &str) {
        checker.dns_label("placement.envoy_gateway.gateway", &self.gateway);
        if self.listeners.is_empty() {
            self.listeners = vec!["http".into()];
        }
        for (index, listener) in self.listeners.iter().enumerate() {
            let path = format!("placement.envoy_gateway.listeners[{index}]");
            checker.dns_label(&path, listener);
            if self.listeners.iter().take(index).any(|other| other == listener) {
                checker.problem(&path, format!("`{listener}` is named twice: keep one"));
            }
        }
    }

    fn check_gate(&self, checker: &mut Checker, parts: &GateParts<'_>) {
        let has_gate = parts.port.is_some();
        match (has_gate, parts.program_image.is_some()) {
            (true, false) => checker.problem("program_image", NO_PROGRAM),
            (false, true) => checker.problem("program_image", NO_HOOK),
            _ => {}
        }
        match parts.gate.secret.as_ref().filter(|_| has_gate) {
            Some(GateSecret::Environment(name)) if name != LASTSTREAM_SECRET => checker.problem(
                "gate.secret.environment",
                format!("is not what the stop hook reads: write `{LASTSTREAM_SECRET}`"),
            ),
            Some(GateSecret::Sds(_)) => checker.problem(
                "gate.secret.sds",
                format!(
                    "cannot be read by the stop hook here: write `environment: \
                        {LASTSTREAM_SECRET}`"
                ),
            ),
            _ => {}
        }
        if parts.is_mounted && !has_gate {
            checker.problem("delivery", NO_GATE);
        }
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            controller: Controller::EnvoyGateway,
            class: None,
            scopes: vec![(Scope::Gateway, true)],
            has_app: false,
            has_app_calls: false,
            gate_module: GateModule::Mounted(NOT_FETCHED),
            admin: Admin { ignore: IGNORED.map(String::from).into(), ..Admin::default() },
            drain: UsualDrain::ENVOY_GATEWAY,
            starts: Err(NO_AGENT),
            takes_sds: true,
            no_forwarded_proto: None,
            no_nlb: None,
            no_identities: Some(NO_TLS),
            client_address: ClientAddress::Xff(NO_CHAIN),
            no_show: Some(NO_STATE_FILTER),
            no_tcp: Some(NO_TCP),
            no_program: None,
            no_websockets: Some(NO_SHARED_VM),
            warning: None,
        }
    }
}

const NO_PROGRAM: &str = "is required for the gate's stop hook, because Envoy Gateway's proxies \
    have no program for it: write an image with laststream's static program, or take `delivery` \
    out, and there is no gate";

const NO_HOOK: &str =
    "is for a gate, and there is no gate without `delivery: program` or `image_volume`";

const NO_GATE: &str = "is the gate's here, and there is none: take it out. Envoy Gateway's \
    controller fetches the module that counts";

/// The gate's listener is in the bootstrap, which can load the module only from a file in the pod.
const NOT_FETCHED: &str = "needs the module as a file in Envoy Gateway's proxies: write \
    `delivery: image_volume`, or for a gate without the module `delivery: program`";

/// The rendered patches do not reach listeners with TLS, whose filter chains have another path.
const NO_TLS: &str = "do not work in Envoy Gateway: a certificate needs TLS, the rendered patches \
    are for listeners without, and without them any client may write the header in which the \
    original one is saved. Name address ranges in `peers`";

const NO_CHAIN: &str = "Envoy believes such a header of every peer, and Envoy Gateway has no \
    filter chain for the trusted ones alone: write `xff`";

const NO_STATE_FILTER: &str = "needs Envoy's `set_filter_state` filter in front of the module, and \
    no resource of Envoy Gateway has it: take it out";

const NO_SHARED_VM: &str = "do not work in Envoy Gateway: it gives each Wasm filter a VM id of \
    its own, so the gate could not reach the frame filter. Its WebSockets are reset (1006)";

const NO_TCP: &str = "needs Envoy's `connection_limit` filter in the listener, and no resource of \
    Envoy Gateway has it: take it out";
