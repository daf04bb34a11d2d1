//! Istio sidecars: patches of the app's Deployment.

use serde_json::{Value, json};

use super::facts::{Facts, Form, Leaves, Listeners, NO_PLUGIN_GATE, OwnPod, PodFile};
use crate::deployment::Deployment;
use crate::files::other;
use crate::hook::grace_without_hook;
use crate::image_volume::{UPDATE, WHERE, WHY_SECRET, pull_secrets};
use crate::kind::{HookPlace, misplaced};
use crate::lifecycle;
use crate::objects::{texts, unless_empty};
use crate::proxy_config::{REPLACES, START};
use crate::volume::Volume;
use laststream_base::yaml::Map;
use laststream_policy::Policy;
use laststream_policy::placement::Sidecars;

pub(super) fn facts(place: &Sidecars) -> Facts<'_> {
    let is_native = place.is_native();
    Facts {
        form: Form::EnvoyFilter,
        no_envoyfilter: None,
        plugin_gate: Ok([NO_PLUGIN_GATE; 2]),
        selector: unless_empty(texts(&place.selector)),
        targets: None,
        gateway: None,
        overlay: None,
        pod: Ok(place),
        hook: Some(if is_native { HookPlace::NativeSidecar } else { HookPlace::Pod }),
        native_sidecar: Some(is_native),
        vm_id: Some("laststream".into()),
        listeners: Ok(Listeners::Sidecar),
        no_composite: None,
        leaves: Leaves::Http,
    }
}

impl OwnPod for Sidecars {
    fn lifecycle(&self, policy: &Policy, port: u16, home: HookPlace) -> PodFile {
        let deployment = deployment(self, policy);
        match home {
            HookPlace::GatewayChart => misplaced(
                "a sidecar does not come from the gateway chart: `--for pod`, `--for \
                    native-sidecar` or `--for helm-values`",
            ),
            HookPlace::HelmValues => Ok(lifecycle::helm_values(policy, port)),
            HookPlace::Pod => Ok(lifecycle::pod(policy, port, &deployment, BESIDE_INJECTED)),
            HookPlace::NativeSidecar => Ok(lifecycle::native_sidecar(policy, port, &deployment)),
        }
    }

    fn proxy_config(&self, policy: &Policy, annotations: Map) -> PodFile {
        let deployment = deployment(self, policy);
        let how = deployment.how_to_patch("proxy-config.yaml");
        let about = [format!("{START} {how}."), REPLACES.to_owned()];
        let template = Map::of("metadata", Map::of("annotations", annotations))
            .with_some("spec", unless_empty(grace_without_hook(policy)));
        Ok(other("proxy-config.yaml", &about, deployment.patch(template)))
    }

    /// The annotations that Istio's webhook reads; both are JSON.
    fn image_volume(&self, policy: &Policy, volumes: &[Volume]) -> PodFile {
        let image = |volume: &Volume| {
            let image = json!({ "reference": volume.reference(), "pullPolicy": "IfNotPresent" });
            (volume.name.to_owned(), json!({ "image": image }))
        };
        let mount = |volume: &Volume| {
            let mount = json!({ "mountPath": volume.path, "readOnly": true });
            (volume.name.to_owned(), mount)
        };
        let mounts = Value::Object(volumes.iter().map(mount).collect());
        let volumes = Value::Object(volumes.iter().map(image).collect());
        let annotations = Map::new()
            .note("Istio's webhook adds the volume to the pod, and the mount to the proxy alone.")
            .with("sidecar.istio.io/userVolume", volumes.to_string())
            .with("sidecar.istio.io/userVolumeMount", mounts.to_string());
        let secrets = pull_secrets(policy)
            .map(|secrets| Map::new().note(WHY_SECRET).with("imagePullSecrets", secrets));
        let template =
            Map::of("metadata", Map::of("annotations", annotations)).with_some("spec", secrets);
        let deployment = deployment(self, policy);
        let how = deployment.how_to_patch("image-volume.yaml");
        let about = [
            format!(
                "{how}. Every pod that the EnvoyFilter chooses needs it: without the file a proxy \
                    refuses its listeners."
            ),
            REPLACES_ANNOTATIONS.to_owned(),
            UPDATE.to_owned(),
            WHERE.to_owned(),
        ];
        Ok(other("image-volume.yaml", &about, deployment.patch(template)))
    }

    fn steps(&self, policy: &Policy, files: &[String]) -> Vec<String> {
        let deployment = deployment(self, policy);
        files.iter().map(|file| deployment.patch_command(file)).collect()
    }
}

fn deployment<'p>(sidecars: &'p Sidecars, policy: &'p Policy) -> Deployment<'p> {
    Deployment::in_mesh(sidecars.workload.as_deref().unwrap_or(&policy.name), policy)
}

const BESIDE_INJECTED: [&str; 2] = [
    "Of Istio's own hooks it replaces none: an injected container has no preStop, and its \
        postStart (holdApplicationUntilProxyStarts) stays. Where sidecars are native, it \
        replaces their preStop: see `--for native-sidecar`.",
    "It delays SIGTERM for the proxy only: the app gets its own at once, and must finish what \
        it has begun.",
];

const REPLACES_ANNOTATIONS: &str = "These annotations replace the pod's own of the same name: add \
    the volumes and mounts of yours to the JSON.";
