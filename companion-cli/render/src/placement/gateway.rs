//! An Istio gateway with its own Deployment: values of Istio's gateway chart.

use super::facts::{Facts, Form, Leaves, Listeners, NO_PLUGIN_GATE, OwnPod, PodFile};
use crate::deployment::Deployment;
use crate::files::other;
use crate::hook::{self, grace_without_hook, pod_with_grace};
use crate::image_volume::{UPDATE, WHERE, WHY_SECRET, pull_secrets};
use crate::kind::{HookPlace, misplaced};
use crate::lifecycle;
use crate::objects::{in_namespace, texts, unless_empty};
use crate::proxy_config::{REPLACES, START};
use crate::volume::Volume;
use laststream_base::yaml::{List, Map};
use laststream_policy::Policy;
use laststream_policy::placement::Gateways;

pub(super) fn facts(place: &Gateways) -> Facts<'_> {
    Facts {
        form: Form::EnvoyFilter,
        no_envoyfilter: None,
        plugin_gate: Ok([NO_PLUGIN_GATE; 2]),
        selector: unless_empty(texts(&place.selector)),
        targets: None,
        gateway: None,
        overlay: None,
        pod: Ok(place),
        hook: Some(HookPlace::GatewayChart),
        native_sidecar: None,
        vm_id: Some("laststream".into()),
        listeners: Ok(Listeners::Any),
        no_composite: None,
        leaves: Leaves::Connection,
    }
}

impl OwnPod for Gateways {
    fn lifecycle(&self, policy: &Policy, port: u16, home: HookPlace) -> PodFile {
        match home {
            HookPlace::NativeSidecar => misplaced(
                "a gateway has no app, so its proxy is no sidecar: `--for gateway-chart` or \
                    `--for pod`",
            ),
            HookPlace::Pod => {
                let deployment = Deployment::in_mesh("istio-ingressgateway", policy);
                Ok(lifecycle::pod(policy, port, &deployment, BESIDE_NO_HOOK))
            }
            HookPlace::HelmValues => Ok(lifecycle::helm_values(policy, port)),
            HookPlace::GatewayChart => {
                const FILE: &str = "lifecycle.gateway-chart.yaml";
                let about = [how_to_upgrade(FILE), REPLACES_NONE.to_owned()];
                let lifecycle = hook::lifecycle(port, policy);
                Ok(other(FILE, &about, pod_with_grace(policy).with("lifecycle", lifecycle)))
            }
        }
    }

    fn proxy_config(&self, policy: &Policy, annotations: Map) -> PodFile {
        const FILE: &str = "proxy-config.yaml";
        let about = [how_to_upgrade(FILE), START.to_owned(), REPLACES.to_owned()];
        let values = grace_without_hook(policy).with("podAnnotations", annotations);
        Ok(other(FILE, &about, values))
    }

    fn image_volume(&self, policy: &Policy, volumes: &[Volume]) -> PodFile {
        let how = how_to_upgrade("image-volume.yaml");
        let about = [how, REPLACES_LISTS.to_owned(), UPDATE.to_owned(), WHERE.to_owned()];
        let values = Map::of("volumes", volumes.iter().map(Volume::item).collect::<List>())
            .with("volumeMounts", volumes.iter().map(Volume::mount).collect::<List>())
            .note(WHY_SECRET)
            .with_some("imagePullSecrets", pull_secrets(policy));
        Ok(other("image-volume.yaml", &about, values))
    }

    fn steps(&self, policy: &Policy, files: &[String]) -> Vec<String> {
        if files.is_empty() {
            return Vec::new();
        }
        let place = in_namespace(policy.namespace.as_deref());
        vec![format!(
            "helm upgrade --wait{place} RELEASE istio/gateway --version CHART_VERSION \
                --reuse-values --values {}",
            files.join(" --values ")
        )]
    }
}

/// The comment of values for the gateway chart, and the command. Without a version helm takes the
/// newest chart, and upgrades the gateway.
fn how_to_upgrade(file: &str) -> String {
    format!(
        "Values for Istio's gateway chart: helm upgrade --reuse-values --namespace NAMESPACE \
            RELEASE istio/gateway --version CHART_VERSION -f {file} (RELEASE and CHART_VERSION: \
            as `helm list` shows them; without a version helm also upgrades the gateway)"
    )
}

const REPLACES_NONE: &str = "They replace no hook of Istio's: gateways have none, unless \
    global.proxy.lifecycle gives them one. A gateway's pod has no app that would keep it; this \
    hook, or the agent's five seconds, is all there is.";

const BESIDE_NO_HOOK: [&str; 2] = [
    "For a gateway with its own Deployment, with a container `istio-proxy` and the \
        image `auto`. It replaces no hook: Istio gives gateways none, unless \
        global.proxy.lifecycle does.",
    "A gateway's pod has no app that would keep it; this hook, or the agent's five seconds, is \
        all there is.",
];

const REPLACES_LISTS: &str = "Helm replaces lists: add the items of your own `volumes`, \
    `volumeMounts` and `imagePullSecrets` to these, or the gateway loses them.";
