//! A waypoint: plugins count, and the overlay of its Deployment has the gate.

use super::facts::{Facts, Form, Leaves, NoOwnPod};
use crate::objects::reference;
use laststream_base::yaml::List;
use laststream_policy::placement::Waypoint;

pub(super) fn facts(place: &Waypoint) -> Facts<'_> {
    let class = place.class.as_deref().map(|name| reference("GatewayClass", name));
    let gateway = place.gateway.as_deref().map(|name| reference("Gateway", name));
    Facts {
        form: Form::WasmPlugin,
        no_envoyfilter: Some(
            "a waypoint takes no EnvoyFilter: `render wasmplugin` has the counter, `render \
                overlay` the gate",
        ),
        plugin_gate: Ok(ABOUT_THE_GATE),
        selector: None,
        targets: gateway.or(class).map(List::of),
        gateway: place.gateway.as_deref(),
        overlay: Some(Vec::new()),
        pod: Err(NoOwnPod::by_controller()),
        hook: None,
        native_sidecar: None,
        vm_id: None, // Istio gives the VM of a WasmPlugin none.
        listeners: Err("a waypoint takes no filters of Envoy's from an EnvoyFilter"),
        no_composite: None,
        leaves: Leaves::Connection,
    }
}

const ABOUT_THE_GATE: [&str; 2] = [
    "The counter. The gate and the stop hook are in overlay.yaml: a WasmPlugin has no \
        listener. Apply that first, and wait until the pods are replaced: a waypoint \
        without the module's file takes no new listeners.",
    "A WasmPlugin has no listener, so there is no gate here: streams are counted, and \
        nothing holds a drain. With `delivery: image_volume` or `program` a waypoint \
        can have one.",
];
