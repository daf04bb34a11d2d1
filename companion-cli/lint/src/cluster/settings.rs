//! The settings of running pods and of templates, read from the same nodes as those of files.

use manifest_lint::places::read_pod;
use manifest_lint::{DEFAULT_GRACE, Node, PROXIES, Pod, value_of};
use serde_json::Value;

use crate::live::PodSettings;

/// The annotations that say how a proxy stops.
const ANNOTATIONS: [&str; 3] = ["sidecar.istio.io/", "proxy.istio.io/", "laststream.io/"];
/// The annotation that `laststream deletion-cost` writes while a pod runs.
const DELETION_COST: &str = "laststream.io/deletion-cost";
/// More values than a stop hook has, and a deeper one.
const MOST_OF_HOOK: (usize, u16) = (10_000, 64);

impl PodSettings {
    /// The settings of a pod, or of the template in an object that makes pods.
    pub(super) fn of(object: &Value) -> Self {
        read_pod(object, Self::of_pod).unwrap_or_default()
    }

    fn of_pod(pod: Pod<'_>) -> Self {
        let says_how_to_stop = |name: &str| {
            name != DELETION_COST && ANNOTATIONS.iter().any(|prefix| name.starts_with(prefix))
        };
        let annotations = pod.template.fields("metadata.annotations");
        let annotations = annotations.into_iter().flat_map(Node::entries);
        let annotations = annotations.filter(|(name, _)| says_how_to_stop(name));
        let mut proxies = pod.proxies_named(&PROXIES);
        Self {
            hook: proxies.next().and_then(|proxy| proxy.fields("lifecycle.preStop")).map(hook),
            grace: pod.grace().and_then(Node::number).unwrap_or(DEFAULT_GRACE),
            annotations: annotations
                .filter_map(|(name, value)| Some((name.to_owned(), value.text()?.to_owned())))
                .collect(),
            module: module(pod),
        }
    }
}

/// The command of a stop hook, or the hook itself if it has no command.
fn hook(hook: Node<'_>) -> String {
    let Some(command) = hook.fields("exec.command") else {
        let (most, depth) = MOST_OF_HOOK;
        return value_of(hook, most, depth).unwrap_or_default().to_string();
    };
    command.items().filter_map(Node::text).collect::<Vec<_>>().join(" ")
}

/// The image of the volume that has the module.
fn module(pod: Pod<'_>) -> Option<String> {
    pod.spec.list("volumes").find_map(|volume| {
        let image = volume.text_of("image.reference")?;
        let name = volume.text_of("name").unwrap_or_default();
        [image, name].iter().any(|text| text.contains("laststream")).then(|| image.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_settings_of_a_pod_are_those_of_its_proxy() {
        let pod = json!({
            "kind": "Pod",
            "metadata": { "annotations": {
                "sidecar.istio.io/nativeSidecar": "true", "app/own": "1", DELETION_COST: "3",
            } },
            "spec": {
                "initContainers": [{
                    "name": "istio-proxy",
                    "lifecycle": { "preStop": { "exec": { "command": ["sleep", "5"] } } },
                }],
                "containers": [{
                    "name": "app", "lifecycle": { "preStop": { "sleep": { "seconds": 9 } } },
                }],
                "volumes": [{ "name": "laststream", "image": { "reference": "a.test/b:1" } }],
            },
        });
        let settings = PodSettings::of(&pod);
        assert_eq!(settings.hook.as_deref(), Some("sleep 5"));
        assert_eq!((settings.grace, settings.annotations.len()), (30, 1));
        assert_eq!(settings.module.as_deref(), Some("a.test/b:1"));
        let mut pod = pod;
        pod["spec"]["initContainers"] = json!([]);
        pod["spec"]["containers"][0]["name"] = json!("envoy");
        let hook = PodSettings::of(&pod).hook;
        assert_eq!(hook.as_deref(), Some("{\"sleep\":{\"seconds\":9}}"));
    }
}
