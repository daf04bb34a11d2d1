//! A Gateway of the Gateway API, whose Deployment Istio makes: its pods are in the overlay.

use super::facts::{Facts, Form, Leaves, Listeners, NO_PLUGIN_GATE, NoOwnPod, Rendering};
use crate::objects::reference;
use laststream_base::yaml::{List, Map};
use laststream_policy::placement::GatewayApi;
use laststream_policy::{Policy, PolicyProblem};

impl Rendering for GatewayApi {
    fn facts<'p>(&'p self, _: &'p Policy) -> Facts<'p> {
        let specs = [
            ("horizontalPodAutoscaler", &self.autoscaler),
            ("podDisruptionBudget", &self.disruption_budget),
        ];
        let specs = specs.into_iter().filter_map(|(key, spec)| Some((key, spec.as_ref()?)));
        let class = self.class.as_deref();
        Facts {
            form: Form::EnvoyFilter,
            no_envoyfilter: None,
            plugin_gate: Ok([NO_PLUGIN_GATE; 2]),
            selector: class
                .map(|name| Map::of("gateway.networking.k8s.io/gateway-class-name", name)),
            targets: self.gateway.as_deref().map(|name| List::of(reference("Gateway", name))),
            gateway: self.gateway.as_deref(),
            overlay: Some(specs.collect()),
            pod: Err(NoOwnPod {
                lifecycle: PolicyProblem::new("placement.gateway_api", NO_CHART),
                proxy_config: "is a Gateway of the Gateway API: `render overlay` writes its annotations",
                image_volume: "is a Gateway of the Gateway API: `render overlay` writes its volume",
            }),
            hook: None,
            native_sidecar: None,
            vm_id: Some("laststream".into()),
            listeners: Ok(Listeners::Any),
            no_composite: None,
            leaves: Leaves::Connection,
        }
    }
}

const NO_CHART: &str = "Istio makes this gateway's Deployment, from no chart: `render overlay`";
