//! Reads the facts about a rollout from its workload's object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize as _;
use serde_json::Value;

use crate::api::call::Call;
use crate::api::client::Cluster;
use crate::api::error::FleetError;
use crate::api::kinds::{DEPLOYMENTS, ObjectKind, ROLLOUTS, STATEFUL_SETS};
use crate::rollouts::argo;
use crate::rollouts::rollout::{RolloutFacts, Workload, count, number, selector};

impl Cluster {
    /// Reads a workload's facts from the API server.
    pub async fn rollout(
        &self,
        Workload { kind, name }: &Workload,
    ) -> Result<RolloutFacts, FleetError> {
        let call = Call::new("get", kind.resource).within(self.namespace()).named(name);
        let object = self.read(&call, *kind, self.namespace(), name).await?;
        if *kind == ROLLOUTS { argo::facts(&object) } else { facts(*kind, &object) }
    }
}

fn facts(kind: ObjectKind, object: &Value) -> Result<RolloutFacts, FleetError> {
    let labels = LabelSelector::deserialize(&object["spec"]["selector"]);
    let labels = labels.map_err(|error| FleetError::Selector(error.to_string()))?;
    let observed = object["status"]["observedGeneration"].as_i64();
    let facts = RolloutFacts {
        selector: selector(&labels)?,
        observed: observed >= object["metadata"]["generation"].as_i64(),
        ..RolloutFacts::default()
    };
    Ok(match kind {
        DEPLOYMENTS => {
            RolloutFacts { failed: missed_deadline(object), ..facts.with_replicas(object) }
        }
        STATEFUL_SETS => RolloutFacts { failed: on_delete(object), ..of_set(facts, object) },
        _ => RolloutFacts { failed: on_delete(object), ..of_daemons(facts, object) },
    })
}

fn missed_deadline(deployment: &Value) -> Option<String> {
    let mut conditions = deployment["status"]["conditions"].as_array().into_iter().flatten();
    let is_late = conditions.any(|condition| {
        condition["type"] == "Progressing" && condition["reason"] == "ProgressDeadlineExceeded"
    });
    is_late.then(|| "it exceeded its progress deadline".to_owned())
}

fn on_delete(object: &Value) -> Option<String> {
    (object["spec"]["updateStrategy"]["type"] == "OnDelete")
        .then(|| "its update strategy is OnDelete, so nothing rolls by itself".to_owned())
}

/// Adds the numbers of a StatefulSet.
fn of_set(facts: RolloutFacts, set: &Value) -> RolloutFacts {
    let (spec, status) = (&set["spec"], &set["status"]);
    let replicas = number(&spec["replicas"]).unwrap_or(1);
    let partition = number(&spec["updateStrategy"]["rollingUpdate"]["partition"]).unwrap_or(0);
    // Once all pods are new, the two revisions are the same, and the controller counts no pod as
    // updated to another one.
    let is_new = status["currentRevision"] == status["updateRevision"];
    RolloutFacts {
        wanted: replicas.saturating_sub(partition),
        needed: replicas, // pods below the partition too, as in kubectl
        updated: count(set, if is_new { "replicas" } else { "updatedReplicas" }),
        available: count(set, "readyReplicas"),
        ..facts
    }
}

/// Adds the numbers of a DaemonSet.
fn of_daemons(facts: RolloutFacts, set: &Value) -> RolloutFacts {
    RolloutFacts {
        wanted: count(set, "desiredNumberScheduled"),
        needed: count(set, "desiredNumberScheduled"),
        updated: count(set, "updatedNumberScheduled"),
        available: count(set, "numberAvailable"),
        ..facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollouts::rollout::{Progress, progress};

    #[test]
    fn a_stateful_set_waits_for_pods_below_its_partition() {
        let set = |ready: i32| {
            let set = serde_json::json!({
                "metadata": { "generation": 2 },
                "spec": {
                    "replicas": 5, "selector": {}, "serviceName": "s", "template": {},
                    "updateStrategy": {
                        "type": "RollingUpdate", "rollingUpdate": { "partition": 3 },
                    },
                },
                "status": {
                    "observedGeneration": 2, "replicas": 5, "readyReplicas": ready,
                    "updatedReplicas": 2, "currentRevision": "a", "updateRevision": "b",
                },
            });
            let facts = facts(STATEFUL_SETS, &set).unwrap();
            progress(&"sts/cart".parse().unwrap(), &facts)
        };
        assert_eq!(set(5), Progress::Done);
        let waiting = "waiting for statefulset/cart: 4 of 5 pods are available".to_owned();
        assert_eq!(set(4), Progress::Waiting(waiting));
    }
}
