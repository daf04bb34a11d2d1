//! Running pods as their users wrote them: without what Istio's webhook has written.

use manifest_text::pods::ISTIO_PROXY;
use serde_json::Value;

/// The label that keeps Istio's webhook away from a pod.
const INJECT: &str = "sidecar.istio.io/inject";
/// The annotations in which the webhook keeps copies of what it was given.
const COPIES: [&str; 2] = ["proxy.istio.io/overrides", "sidecar.istio.io/status"];

/// The pod without what Istio's webhook has written for itself. A running pod is never injected
/// later, so the label of one without a proxy says that injection is off.
pub fn as_written(mut pod: Value) -> Value {
    let lists = ["initContainers", "containers"].map(|list| pod["spec"][list].as_array());
    if !lists.into_iter().flatten().flatten().any(is_proxy) {
        pod["metadata"]["labels"][INJECT] = "false".into();
    }
    if let Some(annotations) = pod["metadata"]["annotations"].as_object_mut() {
        annotations.retain(|name, _| !COPIES.contains(&name.as_str()));
    }
    for init in pod["spec"]["initContainers"].as_array_mut().into_iter().flatten() {
        if is_proxy(init) && has_istios_hook(init) {
            init["lifecycle"]["preStop"] = Value::Null;
        }
    }
    pod
}

fn is_proxy(container: &Value) -> bool {
    container["name"] == ISTIO_PROXY
}

/// Whether a native sidecar has the stop hook that Istio gives it: no user has written it, and the
/// proxy outlives the app with it.
fn has_istios_hook(sidecar: &Value) -> bool {
    let words = sidecar["lifecycle"]["preStop"]["exec"]["command"].as_array();
    let words: Vec<&str> = words.into_iter().flatten().filter_map(Value::as_str).collect();
    words.starts_with(&["pilot-agent", "request"]) && words.ends_with(&["POST", "drain"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(hook: &[&str]) -> Value {
        json!({
            "metadata": { "name": "a", "annotations": { COPIES[0]: "{}", "own": "1" } },
            "spec": { "initContainers": [{
                "name": ISTIO_PROXY, "restartPolicy": "Always",
                "lifecycle": { "preStop": { "exec": { "command": hook } } },
            }] },
        })
    }

    #[test]
    fn what_istio_has_written_is_not_a_user_s_mistake() {
        let own = ["pilot-agent", "request", "--debug-port=15020", "POST", "drain"];
        let pod_of_istio = as_written(pod(&own));
        let hook = |pod: &Value| pod["spec"]["initContainers"][0]["lifecycle"]["preStop"].clone();
        assert_eq!(hook(&pod_of_istio), Value::Null);
        assert_eq!(pod_of_istio["metadata"]["annotations"], json!({ "own": "1" }));
        assert!(hook(&as_written(pod(&["pilot-agent", "wait"]))).is_object());
    }

    #[test]
    fn a_pod_that_was_not_injected_says_so() {
        let plain = json!({ "metadata": { "name": "a" }, "spec": {
            "containers": [{ "name": "app" }] } });
        assert_eq!(as_written(plain)["metadata"]["labels"][INJECT], "false");
        assert_eq!(as_written(pod(&[]))["metadata"]["labels"], Value::Null);
    }
}
