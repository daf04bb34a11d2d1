//! A Gateway of the Gateway API, whose Deployment Istio makes.

use std::collections::BTreeMap;

use laststream_filter::config::wire::{Admin, Scope};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::facts::{
    ClientAddress, Controller, Facts, GateModule, GateParts, HAS_MODULE, KEEPS_REMOTE_ADDRESS,
    Place,
};
use crate::checker::Checker;
use crate::file::Starts;
use crate::sizing::UsualDrain;
use laststream_base::istio::{AGENTGATEWAYS, WAYPOINTS};

/// A Gateway of the Gateway API, whose Deployment Istio makes (Istio 1.28 and newer). Write either
/// `gateway` or `class`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GatewayApi {
    /// The name of the Gateway, in the policy's namespace.
    pub gateway: Option<String>,
    /// The GatewayClass of all Gateways that are meant, such as `istio`. The resources are then in
    /// the namespace of istiod.
    pub class: Option<String>,
    /// The `spec` of a HorizontalPodAutoscaler that Istio then makes, such as `{minReplicas: 2,
    /// maxReplicas: 5}`.
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    pub autoscaler: Option<Value>,
    /// The `spec` of a PodDisruptionBudget that Istio then makes, such as `{minAvailable: 1}`.
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    pub disruption_budget: Option<Value>,
}

const PATH: &str = "placement.gateway_api";

impl Place for GatewayApi {
    fn check(&mut self, checker: &mut Checker, _: &str) {
        checker.gateway_or_class(PATH, self.gateway.as_deref(), self.class.as_deref());
        match self.class.as_deref() {
            Some(WAYPOINTS) => checker.problem(
                &format!("{PATH}.class"),
                format!(
                    "waypoints take no EnvoyFilter: write `placement: {{waypoint: {{class: \
                        {WAYPOINTS}}}}}`"
                ),
            ),
            Some(class) if AGENTGATEWAYS.contains(&class) => checker.problem(
                &format!("{PATH}.class"),
                "is agentgateway, which is not an Envoy: it reads no EnvoyFilter and runs no Wasm",
            ),
            _ => {}
        }
        self.check_specs(checker);
    }

    fn check_gate(&self, _: &mut Checker, _: &GateParts<'_>) {}

    fn facts(&self) -> Facts<'_> {
        Facts {
            controller: Controller::Istio,
            class: self.class.as_deref(),
            scopes: vec![(Scope::Gateway, true)],
            has_app: false,
            has_app_calls: false,
            gate_module: GateModule::Fetched,
            admin: Admin::default(),
            drain: UsualDrain::ISTIO,
            starts: Ok(Starts::Agent),
            takes_sds: false,
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

impl GatewayApi {
    /// If the API server rejects one of these two, istiod only logs it.
    fn check_specs(&self, checker: &mut Checker) {
        for (field, spec, example) in [
            ("autoscaler", &self.autoscaler, "{maxReplicas: 5}"),
            ("disruption_budget", &self.disruption_budget, "{minAvailable: 1}"),
        ] {
            if spec.as_ref().is_some_and(|spec| !spec.is_object()) {
                let message = format!("is not a map, such as `{example}`");
                checker.problem(&format!("{PATH}.{field}"), message);
            }
        }
        if let Some(Value::Object(autoscaler)) = &self.autoscaler {
            let least = autoscaler.get("minReplicas").map_or(Some(1), Value::as_u64);
            let most = autoscaler.get("maxReplicas").and_then(Value::as_u64);
            if !least.zip(most).is_some_and(|(least, most)| (1..=most).contains(&least)) {
                let message = "needs `maxReplicas`, and `minReplicas` from 1 to it";
                checker.problem(&format!("{PATH}.autoscaler"), message);
            }
        }
        if let Some(Value::Object(budget)) = &self.disruption_budget
            && budget.contains_key("minAvailable") == budget.contains_key("maxUnavailable")
        {
            let message = "needs either `minAvailable` or `maxUnavailable`";
            checker.problem(&format!("{PATH}.disruption_budget"), message);
        }
    }
}
