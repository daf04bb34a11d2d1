//! The settings of a pod or of a template for pods, and the answer of a gate, as `lint` takes them.

use laststream_fleet::{Class, GRACE, OWN_COST, PROXIES, PodReport};
use laststream_lint::live::{GateAnswer, PodSettings};
use serde_json::Value;

/// The annotations that say how a proxy stops.
const ANNOTATIONS: [&str; 3] = ["sidecar.istio.io/", "proxy.istio.io/", "laststream.io/"];
/// The settings of an object with `metadata` and `spec` of a pod.
pub(super) fn of(pod: &Value) -> PodSettings {
    let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
    let annotations = annotations.filter(|(name, _)| {
        // `laststream deletion-cost` writes this one while the pod runs.
        name.as_str() != OWN_COST && ANNOTATIONS.iter().any(|prefix| name.starts_with(prefix))
    });
    PodSettings {
        hook: containers(pod).find(|one| is_named(one, &PROXIES)).and_then(hook),
        grace: pod["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap_or(GRACE),
        annotations: annotations
            .filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned())))
            .collect(),
        module: module(pod),
    }
}

/// The containers and native sidecars of a pod.
pub(super) fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["initContainers", "containers"].into_iter();
    lists.filter_map(|list| pod["spec"][list].as_array()).flatten()
}

pub(super) fn is_named(container: &Value, names: &[&str]) -> bool {
    container["name"].as_str().is_some_and(|name| names.contains(&name))
}

/// The command of a container's stop hook, or the hook itself if it has no command.
fn hook(proxy: &Value) -> Option<String> {
    let hook = proxy["lifecycle"].get("preStop")?;
    let Some(command) = hook["exec"]["command"].as_array() else { return Some(hook.to_string()) };
    let words: Vec<&str> = command.iter().filter_map(Value::as_str).collect();
    Some(words.join(" "))
}

/// The image of the volume that has the module.
fn module(pod: &Value) -> Option<String> {
    let volumes = pod["spec"]["volumes"].as_array()?.iter();
    let mut images = volumes.filter_map(|volume| {
        let image = volume["image"]["reference"].as_str()?;
        let name = volume["name"].as_str().unwrap_or_default();
        [image, name].iter().any(|text| text.contains("laststream")).then(|| image.to_owned())
    });
    images.next()
}

/// The answer of a gate from the report on its pod. `is_refused`: a right for all pods is missing,
/// which is one finding of its own.
pub(super) fn answer(report: PodReport, is_refused: bool) -> GateAnswer {
    let why = report.why.filter(|_| !(is_refused && report.gate_unreachable));
    match report.class {
        Class::NotRunning => GateAnswer::Unasked,
        Class::Unreachable if is_refused => GateAnswer::Unasked,
        Class::Unreachable => GateAnswer::Silent(why.unwrap_or_default()),
        Class::Without => GateAnswer::Missing("the proxy has no metric of laststream".to_owned()),
        Class::HalfUpgraded if report.state.is_none() => {
            GateAnswer::Missing(why.unwrap_or_default())
        }
        Class::HalfUpgraded | Class::Installed => GateAnswer::Here {
            count: report.count.unwrap_or_else(|| "asking".to_owned()),
            why,
            version: report.version.filter(|version| !version.is_empty()),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_settings_of_a_pod_are_those_of_its_proxy() {
        let pod = json!({
            "metadata": { "annotations": {
                "sidecar.istio.io/nativeSidecar": "true", "app/own": "1", OWN_COST: "3",
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
        let settings = of(&pod);
        assert_eq!(settings.hook.as_deref(), Some("sleep 5"));
        assert_eq!((settings.grace, settings.annotations.len()), (30, 1));
        assert_eq!(settings.module.as_deref(), Some("a.test/b:1"));
    }
}
