//! Rollouts of Argo Rollouts.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use laststream_base::visible::brief;
use serde::Deserialize as _;
use serde_json::Value;

use crate::api::error::FleetError;
use crate::rollouts::rollout::{RolloutFacts, selector};

/// The label with which Argo tells the pods of one template from those of another.
const HASH: &str = "rollouts-pod-template-hash=";
/// The generation of the Deployment that has the template, if the Rollout itself has none.
const WORKLOAD_GENERATION: &str = "rollout.argoproj.io/workload-generation";

pub(crate) fn facts(object: &Value) -> Result<RolloutFacts, FleetError> {
    let status = &object["status"];
    let phase = status["phase"].as_str().unwrap_or_default();
    let facts = RolloutFacts {
        selector: selector_of(&object["spec"], status)?,
        observed: is_observed(object),
        waits_for: waits_for(phase, status),
        failed: (phase == "Degraded").then(|| format!("it is degraded{}", message(status))),
        ..RolloutFacts::default()
    };
    // Argo keeps the old pods for a while after the new ones have taken over.
    Ok(facts.with_replicas(object))
}

/// Whether Argo has seen the newest specification, also of the Deployment that it refers to.
fn is_observed(object: &Value) -> bool {
    let generation = |field: &str| object["status"][field].as_str();
    let is_seen = |seen: &str, newest: Option<i64>| match seen.parse::<i64>() {
        Ok(seen) => newest.is_none_or(|newest| seen >= newest),
        Err(_) => true, // an old version of Argo wrote a hash
    };
    let metadata = &object["metadata"];
    let referred = metadata["annotations"][WORKLOAD_GENERATION].as_str();
    let referred = referred.and_then(|text| text.parse().ok());
    generation("observedGeneration")
        .is_some_and(|seen| is_seen(seen, metadata["generation"].as_i64()))
        && generation("workloadObservedGeneration").is_none_or(|seen| is_seen(seen, referred))
}

fn waits_for(phase: &str, status: &Value) -> Option<String> {
    let pauses = status["pauseConditions"].as_array().is_some_and(|pauses| !pauses.is_empty());
    match phase {
        // A user has ended the pause, and Argo has not seen that.
        _ if status["controllerPause"] == true && !pauses => Some("its pause ends".to_owned()),
        "Paused" => Some(format!("it is paused{}", message(status))),
        "Progressing" => Some(format!("it progresses{}", message(status))),
        _ => None,
    }
}

fn message(status: &Value) -> String {
    match status["message"].as_str().map(brief).filter(|text| !text.is_empty()) {
        Some(text) => format!(": {text}"),
        None => String::new(),
    }
}

/// The selector of old and new pods. A Rollout that refers to a Deployment has it in its status
/// alone, with a blue-green strategy narrowed to the pods that are active.
fn selector_of(spec: &Value, status: &Value) -> Result<String, FleetError> {
    if let Ok(labels) = LabelSelector::deserialize(&spec["selector"]) {
        return selector(&labels);
    }
    let resolved = status["selector"].as_str().unwrap_or_default();
    let parts: Vec<&str> = resolved.split(',').filter(|part| !part.starts_with(HASH)).collect();
    match parts.join(",") {
        // An empty selector would mean all pods of the namespace.
        none if none.is_empty() => Err(FleetError::NoSelector),
        selector => Ok(selector),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rollouts::rollout::{Progress, progress};

    fn rollout() -> Value {
        json!({
            "metadata": { "generation": 4 },
            "spec": { "replicas": 2, "selector": { "matchLabels": { "app": "web" } } },
            "status": {
                "observedGeneration": "4", "phase": "Healthy", "replicas": 2,
                "updatedReplicas": 2, "availableReplicas": 2,
            },
        })
    }

    #[test]
    fn a_rollout_of_argo_follows_its_phase() {
        for (path, value, expected) in [
            ("/metadata/generation", json!(4), "done"),
            ("/status/observedGeneration", json!("6f7d"), "done"),
            ("/metadata/generation", json!(5), "has not seen the newest specification"),
            ("/status/observedGeneration", json!(null), "has not seen"),
            ("/status/phase", json!("Paused"), "rollout/web: it is paused: step 1"),
            ("/status/phase", json!("Progressing"), "it progresses: step 1"),
            ("/status/phase", json!("Degraded"), "failed: rollout/web: it is degraded: step 1"),
            ("/status/controllerPause", json!(true), "its pause ends"),
            ("/status/replicas", json!(3), "1 old pods are still to be deleted"),
            ("/spec/replicas", json!(3), "2 of 3 new pods are there"),
        ] {
            let mut object = rollout();
            object["status"]["message"] = json!("step 1");
            object["status"]["controllerPause"] = json!(false);
            *object.pointer_mut(path).unwrap() = value;
            let said = match progress(&"ro/web".parse().unwrap(), &facts(&object).unwrap()) {
                Progress::Waiting(what) => what,
                Progress::Done => "done".to_owned(),
                Progress::Failed(why) => format!("failed: {why}"),
            };
            let fails = |text: &str| text.starts_with("failed: ");
            let is_right = if fails(expected) { said == expected } else { said.contains(expected) };
            assert!(is_right && fails(&said) == fails(expected), "{path}: {said}");
        }
    }

    #[test]
    fn a_referred_deployment_gives_the_selector_and_a_generation() {
        let mut object = rollout();
        object["spec"]["selector"] = json!(null);
        assert!(facts(&object).is_err(), "never all pods of the namespace");
        object["status"]["selector"] = json!("app=web,tier in (a,b),rollouts-pod-template-hash=6f");
        object["status"]["workloadObservedGeneration"] = json!("7");
        object["metadata"]["annotations"] = json!({ WORKLOAD_GENERATION: "7" });
        let read = facts(&object).unwrap();
        assert_eq!((read.selector.as_str(), read.observed), ("app=web,tier in (a,b)", true));
        object["metadata"]["annotations"] = json!({ WORKLOAD_GENERATION: "8" });
        assert!(!facts(&object).unwrap().observed);
    }
}
