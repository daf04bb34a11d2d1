//! The volume with the module's image in each of its places: the gateway chart's values, a
//! sidecar's annotations, the pod of an Envoy without a mesh. A Gateway of the Gateway API has it
//! in its overlay.

use serde_json::{Value, json};

use super::volume::Volume;
use super::{File, lifecycle, misplaced, other};
use laststream_base::yaml::{List, Map};
use laststream_policy::file::Placement;
use laststream_policy::{Policy, PolicyProblem, Resolve};

const WHERE: &str = "Needs Kubernetes 1.35, or 1.33 with the feature gate `ImageVolume` on API \
    server and kubelet, and containerd 2.1. With the gate off the API server drops the volume and \
    its mount without an error; the proxy then refuses its listeners and never becomes ready.";

const UPDATE: &str = "Another module is another digest here, so the pods are replaced: a running \
    proxy keeps the module that it began with.";

const REPLACES_LISTS: &str = "Helm replaces lists: add the items of your own `volumes`, \
    `volumeMounts` and `imagePullSecrets` to these, or the gateway loses them.";

const REPLACES_ANNOTATIONS: &str = "These annotations replace the pod's own of the same name: add \
    the volumes and mounts of yours to the JSON.";

pub(super) fn render(policy: &Policy, resolve: Resolve<'_>) -> Result<File, PolicyProblem> {
    let volumes = Volume::of_modules(policy, resolve)?;
    if volumes.is_empty() {
        return Err(PolicyProblem::new(
            "delivery",
            "is not `image_volume`, so kubelet mounts nothing: write `delivery: image_volume`",
        ));
    }
    match &policy.placement {
        Placement::Gateway(_) => Ok(gateway_chart(policy, &volumes)),
        Placement::Sidecar(_) => Ok(sidecar(policy, &volumes)),
        Placement::Envoy(_) => Ok(plain(policy, &volumes)),
        Placement::GatewayApi(_) => {
            misplaced("is a Gateway of the Gateway API: `render overlay` writes its volume")
        }
        Placement::Waypoint(_) | Placement::EnvoyGateway(_) => misplaced(
            "has a Deployment that a controller makes: `render all` writes its volume where that \
                controller takes it from",
        ),
    }
}

/// The pod's `imagePullSecrets`, with which kubelet pulls a volume's image.
pub(super) fn pull_secrets(policy: &Policy) -> Option<List> {
    let secret = policy.file.pull_secret.as_deref()?;
    Some(List::of(Map::of("name", secret)))
}

pub(super) const WHY_SECRET: &str =
    "Kubelet pulls the image of a volume with the pod's own secrets.";

fn gateway_chart(policy: &Policy, volumes: &[Volume]) -> File {
    let how = lifecycle::how_to_upgrade("image-volume.yaml");
    let about = [how, REPLACES_LISTS.to_owned(), UPDATE.to_owned(), WHERE.to_owned()];
    let values = Map::of("volumes", volumes.iter().map(Volume::item).collect::<List>())
        .with("volumeMounts", volumes.iter().map(Volume::mount).collect::<List>())
        .note(WHY_SECRET)
        .with_some("imagePullSecrets", pull_secrets(policy));
    other("image-volume.yaml", &about, values)
}

/// The annotations that Istio's webhook reads; both are JSON.
fn sidecar(policy: &Policy, volumes: &[Volume]) -> File {
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
    let metadata = Map::of("annotations", annotations);
    let secrets = pull_secrets(policy)
        .map(|secrets| Map::new().note(WHY_SECRET).with("imagePullSecrets", secrets));
    let template = Map::of("metadata", metadata).with_some("spec", secrets);
    let how = lifecycle::how_to_patch(policy, "image-volume.yaml");
    let about = [
        format!(
            "{how}. Every pod that the EnvoyFilter chooses needs it: without the file a proxy \
                refuses its listeners."
        ),
        REPLACES_ANNOTATIONS.to_owned(),
        UPDATE.to_owned(),
        WHERE.to_owned(),
    ];
    other("image-volume.yaml", &about, lifecycle::patch(policy, template))
}

fn plain(policy: &Policy, volumes: &[Volume]) -> File {
    let container = Map::new()
        .note("The name of Envoy's container.")
        .with("name", "envoy")
        .with("volumeMounts", volumes.iter().map(Volume::mount).collect::<List>());
    let pod = Map::new()
        .note(WHY_SECRET)
        .with_some("imagePullSecrets", pull_secrets(policy))
        .with("volumes", volumes.iter().map(Volume::item).collect::<List>())
        .with("containers", List::of(container));
    let how = lifecycle::how_to_patch(policy, "image-volume.yaml");
    let about = [format!("{how}."), UPDATE.to_owned(), WHERE.to_owned()];
    other("image-volume.yaml", &about, lifecycle::patch(policy, Map::of("spec", pod)))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::{File, Kind, tests};

    const REFERENCE: &str =
        "h/r@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const MOUNTED: &str =
        "module: oci://h/r:t\nnamespace: a\ndelivery: image_volume\npull_secret: s\n";

    fn rendered(kind: Kind, more: &str) -> Result<Vec<File>, String> {
        tests::try_render(kind, &format!("{MOUNTED}{more}"))
    }

    fn file(kind: Kind, more: &str) -> Value {
        tests::yaml(&rendered(kind, more).expect(more)[0])
    }

    #[test]
    fn every_pod_of_the_user_gets_volume_mount_and_secret() {
        let values = file(Kind::ImageVolume, "");
        let patch = file(Kind::ImageVolume, "placement: {envoy: {}}");
        let pod = &patch["spec"]["template"]["spec"];
        for (spec, mounts) in
            [(&values, &values["volumeMounts"]), (pod, &pod["containers"][0]["volumeMounts"])]
        {
            assert_eq!(spec["volumes"][0]["image"]["reference"], REFERENCE, "{spec}");
            assert_eq!(spec["volumes"][0]["name"], mounts[0]["name"], "{spec}");
            assert_eq!(mounts[0]["mountPath"], "/opt/laststream", "{spec}");
            assert_eq!(spec["imagePullSecrets"][0]["name"], "s", "{spec}");
        }
    }

    #[test]
    fn the_head_warns_about_replaced_lists_and_annotations() {
        let sidecar = "placement: {sidecar: {workload: shop}}";
        for (more, words) in [("", "Helm replaces lists"), (sidecar, "replace the pod's own")] {
            let text = &rendered(Kind::ImageVolume, more).expect(more)[0].text;
            assert!(text.replace("\n# ", " ").contains(words), "`{words}` in {text}");
        }
    }

    #[test]
    fn annotations_are_json_with_the_same_name() {
        let patch = file(Kind::ImageVolume, "placement: {sidecar: {workload: shop}}");
        assert_eq!(patch["metadata"]["name"], "shop");
        let template = &patch["spec"]["template"];
        let read = |name: &str| -> Value {
            let text = template["metadata"]["annotations"][name].as_str().expect(name);
            serde_json::from_str(text).expect("JSON")
        };
        let volumes = read("sidecar.istio.io/userVolume");
        let mounts = read("sidecar.istio.io/userVolumeMount");
        assert_eq!(volumes["laststream-module"]["image"]["reference"], REFERENCE);
        assert_eq!(mounts["laststream-module"]["mountPath"], "/opt/laststream");
        assert_eq!(template["spec"]["imagePullSecrets"][0]["name"], "s");
    }

    #[test]
    fn deployments_made_by_a_controller_are_refused() {
        for (more, words) in [
            ("placement: {gateway_api: {gateway: edge}}", "render overlay"),
            (
                "program_image: h/tools:1\nplacement: {envoy_gateway: {gateway: edge}}",
                "a controller makes",
            ),
        ] {
            let refused = rendered(Kind::ImageVolume, more).expect_err(more);
            assert!(refused.contains(words), "{refused}");
        }
    }

    /// Envoy's own image has no program that could be the hook.
    #[test]
    fn an_envoy_without_a_mesh_gets_the_program_and_the_hook() {
        let patch = file(Kind::Lifecycle, "placement: {envoy: {}}\nprogram_image: h/tools:1");
        let pod = &patch["spec"]["template"]["spec"];
        assert_eq!(pod["initContainers"][0]["image"], "h/tools:1");
        let hook = &pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"];
        assert_eq!(hook[0], "/opt/laststream-program/laststream");
        assert!(rendered(Kind::Lifecycle, "placement: {envoy: {}}").is_err());
    }
}
