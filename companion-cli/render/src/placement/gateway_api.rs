//! A Gateway of the Gateway API, whose Deployment Istio makes: its pods are in the overlay.

use super::facts::{Facts, Form, Leaves, Listeners, NO_PLUGIN_GATE, NoOwnPod};
use crate::objects::reference;
use laststream_base::yaml::{List, Map};
use laststream_policy::PolicyProblem;
use laststream_policy::placement::GatewayApi;

pub(super) fn facts(place: &GatewayApi) -> Facts<'_> {
    let specs = [
        ("horizontalPodAutoscaler", &place.autoscaler),
        ("podDisruptionBudget", &place.disruption_budget),
    ];
    let specs = specs.into_iter().filter_map(|(key, spec)| Some((key, spec.as_ref()?)));
    let class = place.class.as_deref();
    Facts {
        form: Form::EnvoyFilter,
        no_envoyfilter: None,
        plugin_gate: Ok([NO_PLUGIN_GATE; 2]),
        selector: class.map(|name| Map::of("gateway.networking.k8s.io/gateway-class-name", name)),
        targets: place.gateway.as_deref().map(|name| List::of(reference("Gateway", name))),
        gateway: place.gateway.as_deref(),
        overlay: Some(specs.collect()),
        pod: Err(NoOwnPod {
            lifecycle: PolicyProblem::new("placement.gateway_api", NO_CHART),
            proxy_config: "is a Gateway of the Gateway API, whose pods need more than annotations: \
                `render overlay` writes all of it",
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

const NO_CHART: &str = "Istio makes this gateway's Deployment, from no chart: `render overlay`";
