//! A Gateway that Envoy Gateway runs: its own policies, and an EnvoyProxy for the pods.

use super::facts::{Facts, Form, Leaves, Listeners, NoOwnPod};
use laststream_policy::Policy;
use laststream_policy::placement::EnvoyGateway;

pub(super) fn facts<'p>(place: &'p EnvoyGateway, policy: &'p Policy) -> Facts<'p> {
    let namespace = policy.namespace.as_deref().unwrap_or_default();
    Facts {
        form: Form::EnvoyGateway(place),
        no_envoyfilter: Some("Envoy Gateway knows no EnvoyFilters: `render envoy-gateway`"),
        plugin_gate: Err("Envoy Gateway knows no WasmPlugins: `render envoy-gateway`"),
        selector: None,
        targets: None,
        gateway: Some(&place.gateway),
        overlay: None,
        pod: Err(NoOwnPod::by_controller()),
        hook: None,
        native_sidecar: None,
        vm_id: Some(format!("envoyextensionpolicy/{namespace}/{}/wasm/0", policy.name)),
        listeners: Ok(Listeners::Plaintext),
        no_composite: Some(HAS_DELEGATE),
        leaves: Leaves::Connection,
    }
}

const HAS_DELEGATE: &str = "`composite` is for Istio, whose Envoy lacks match_delegate. The Envoy \
    of Envoy Gateway has it: write `auto` or `native`, which costs less";
