//! The progress of a rollout, by the rules of `kubectl rollout status`.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use kube::{Api, Resource};

use super::argo;
use super::call::Call;
use super::client::Cluster;
use super::error::FleetError;
use super::objects::ROLLOUTS;
use laststream_base::names;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    pub kind: WorkloadKind,
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkloadKind {
    Deployment,
    StatefulSet,
    DaemonSet,
    /// A Rollout of Argo Rollouts.
    Rollout,
}

impl WorkloadKind {
    fn resource(self) -> &'static str {
        match self {
            Self::Deployment => "deployments",
            Self::StatefulSet => "statefulsets",
            Self::DaemonSet => "daemonsets",
            Self::Rollout => ROLLOUTS.resource,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.resource().trim_end_matches('s'), self.name)
    }
}

impl FromStr for Workload {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WANTED: &str = "write it like `deployment/NAME`, `statefulset/NAME`, \
            `daemonset/NAME` or `rollout/NAME`";
        let (kind, name) = text.split_once('/').ok_or(WANTED)?;
        let kind = match kind.trim_end_matches(".apps").trim_end_matches(".argoproj.io") {
            "deployment" | "deployments" | "deploy" => WorkloadKind::Deployment,
            "statefulset" | "statefulsets" | "sts" => WorkloadKind::StatefulSet,
            "daemonset" | "daemonsets" | "ds" => WorkloadKind::DaemonSet,
            "rollout" | "rollouts" | "ro" => WorkloadKind::Rollout,
            _ => return Err(WANTED),
        };
        if name.is_empty() || name.contains('/') {
            return Err(WANTED);
        }
        names::subdomain(name)?;
        Ok(Self { kind, name: name.to_owned() })
    }
}

/// The API server's facts about a rollout.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolloutFacts {
    /// The labels of its pods.
    pub selector: String,
    /// Whether its controller has seen the newest specification.
    pub observed: bool,
    /// Pods that must have the newest specification.
    pub wanted: i32,
    /// Pods that have the newest specification.
    pub updated: i32,
    /// Pods of any specification; 0 for a StatefulSet or a DaemonSet, where no old pod is left
    /// over.
    pub total: i32,
    /// Pods that take traffic.
    pub available: i32,
    /// Pods that must take traffic in the end.
    pub needed: i32,
    /// What its controller waits for, if that is not a number of pods.
    pub waits_for: Option<String>,
    /// Why the rollout cannot be followed, or has failed.
    pub failed: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The rollout goes on; the text says what it waits for.
    Waiting(String),
    /// All new pods take traffic, and all old ones are deleted or ending.
    Done,
    /// The rollout has failed or cannot be followed.
    Failed(String),
}

/// Decides the progress as `kubectl rollout status` does.
pub fn progress(workload: &Workload, facts: &RolloutFacts) -> Progress {
    let waiting = |what: String| Progress::Waiting(format!("waiting for {workload}: {what}"));
    let RolloutFacts { wanted, updated, total, available, needed, .. } = *facts;
    if !facts.observed {
        // The conditions are still those of the previous specification.
        return waiting("its controller has not seen the newest specification".to_owned());
    }
    if let Some(why) = &facts.failed {
        return Progress::Failed(format!("{workload}: {why}"));
    }
    if let Some(what) = &facts.waits_for {
        waiting(what.clone())
    } else if updated < wanted {
        waiting(format!("{updated} of {wanted} new pods are there"))
    } else if total > updated {
        waiting(format!("{} old pods are still to be deleted", total - updated))
    } else if available < needed {
        waiting(format!("{available} of {needed} pods are available"))
    } else {
        Progress::Done
    }
}

impl Cluster {
    /// Reads a workload's facts from the API server.
    pub async fn rollout(&self, workload: &Workload) -> Result<RolloutFacts, FleetError> {
        let call = Call::new("get", workload.kind.resource());
        let call = call.within(self.namespace()).named(&workload.name);
        match workload.kind {
            WorkloadKind::Deployment => of_deployment(&self.object(&call, workload).await?),
            WorkloadKind::StatefulSet => of_stateful_set(&self.object(&call, workload).await?),
            WorkloadKind::DaemonSet => of_daemon_set(&self.object(&call, workload).await?),
            WorkloadKind::Rollout => {
                argo::facts(&self.read(&call, ROLLOUTS, self.namespace(), &workload.name).await?)
            }
        }
    }

    async fn object<K>(&self, call: &Call, workload: &Workload) -> Result<K, FleetError>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + fmt::Debug
            + serde::de::DeserializeOwned,
        K: k8s_openapi::Metadata,
        <K as Resource>::DynamicType: Default,
    {
        let api: Api<K> = Api::namespaced(self.client(), self.namespace());
        self.repeat(call, || api.get(&workload.name)).await
    }
}

fn of_deployment(object: &Deployment) -> Result<RolloutFacts, FleetError> {
    let (Some(spec), status) = (&object.spec, object.status.clone().unwrap_or_default()) else {
        return Ok(RolloutFacts::default());
    };
    let too_late = status.conditions.iter().flatten().any(|condition| {
        condition.type_ == "Progressing"
            && condition.reason.as_deref() == Some("ProgressDeadlineExceeded")
    });
    let updated = status.updated_replicas.unwrap_or_default();
    Ok(RolloutFacts {
        selector: selector(&spec.selector)?,
        observed: status.observed_generation >= object.metadata.generation,
        wanted: spec.replicas.unwrap_or(1),
        updated,
        needed: updated,
        total: status.replicas.unwrap_or_default(),
        available: status.available_replicas.unwrap_or_default(),
        waits_for: None,
        failed: too_late.then(|| "it exceeded its progress deadline".to_owned()),
    })
}

fn of_stateful_set(object: &StatefulSet) -> Result<RolloutFacts, FleetError> {
    let (Some(spec), status) = (&object.spec, object.status.clone().unwrap_or_default()) else {
        return Ok(RolloutFacts::default());
    };
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    let partition = strategy.rolling_update.and_then(|update| update.partition).unwrap_or(0);
    let needed = spec.replicas.unwrap_or(1);
    // Once all pods are new, the two revisions are the same, and the controller counts no pod as
    // updated to another one.
    let is_new = status.current_revision == status.update_revision;
    let updated = status.updated_replicas.unwrap_or_default();
    Ok(RolloutFacts {
        selector: selector(&spec.selector)?,
        observed: status.observed_generation >= object.metadata.generation,
        wanted: needed.saturating_sub(partition),
        needed, // pods below the partition too, as in kubectl
        updated: if is_new { status.replicas } else { updated },
        total: 0, // pods are replaced one by one, so none is left over
        available: status.ready_replicas.unwrap_or_default(),
        waits_for: None,
        failed: on_delete(strategy.type_.as_deref()),
    })
}

fn of_daemon_set(object: &DaemonSet) -> Result<RolloutFacts, FleetError> {
    let (Some(spec), status) = (&object.spec, object.status.clone().unwrap_or_default()) else {
        return Ok(RolloutFacts::default());
    };
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    Ok(RolloutFacts {
        selector: selector(&spec.selector)?,
        observed: status.observed_generation >= object.metadata.generation,
        wanted: status.desired_number_scheduled,
        needed: status.desired_number_scheduled,
        updated: status.updated_number_scheduled.unwrap_or_default(),
        total: 0,
        available: status.number_available.unwrap_or_default(),
        waits_for: None,
        failed: on_delete(strategy.type_.as_deref()),
    })
}

fn on_delete(strategy: Option<&str>) -> Option<String> {
    (strategy == Some("OnDelete"))
        .then(|| "its update strategy is OnDelete, so nothing rolls by itself".to_owned())
}

/// The selector as text, for the request that lists pods.
pub(super) fn selector(selector: &LabelSelector) -> Result<String, FleetError> {
    let selector = Selector::try_from(selector.clone());
    let selector = selector.map_err(|error| FleetError::Other(format!("its selector: {error}")))?;
    Ok(selector.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(numbers: [i32; 4]) -> RolloutFacts {
        let [wanted, updated, total, available] = numbers;
        let needed = updated;
        RolloutFacts {
            observed: true,
            wanted,
            updated,
            total,
            available,
            needed,
            ..Default::default()
        }
    }

    #[test]
    fn progress_follows_the_rules_of_kubectl() {
        let workload: Workload = "deploy/web".parse().unwrap();
        let said = |facts: &RolloutFacts| match progress(&workload, facts) {
            Progress::Waiting(what) => what,
            Progress::Done => "done".into(),
            Progress::Failed(why) => why,
        };
        for (numbers, expected) in [
            ([3, 1, 4, 3], "waiting for deployment/web: 1 of 3 new pods are there"),
            ([3, 3, 4, 3], "waiting for deployment/web: 1 old pods are still to be deleted"),
            ([3, 3, 3, 2], "waiting for deployment/web: 2 of 3 pods are available"),
            ([3, 3, 3, 3], "done"),
        ] {
            assert_eq!(said(&facts(numbers)), expected);
        }
        let unseen = RolloutFacts { observed: false, ..facts([3, 3, 3, 3]) };
        assert!(said(&unseen).contains("has not seen"));
        let late = RolloutFacts { failed: Some("late".into()), ..facts([3, 1, 4, 3]) };
        assert_eq!(said(&late), "deployment/web: late");
        let before = RolloutFacts { observed: false, ..late };
        assert!(said(&before).contains("has not seen"), "a failure before this change");
    }

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
            let facts = of_stateful_set(&serde_json::from_value(set).unwrap()).unwrap();
            progress(&"sts/cart".parse().unwrap(), &facts)
        };
        assert_eq!(set(5), Progress::Done);
        let waiting = "waiting for statefulset/cart: 4 of 5 pods are available".to_owned();
        assert_eq!(set(4), Progress::Waiting(waiting));
    }

    #[test]
    fn workloads_are_written_as_kubectl_takes_them() {
        for text in ["deployment/a", "deploy/a", "deployments.apps/a"] {
            assert_eq!(text.parse::<Workload>().unwrap().to_string(), "deployment/a");
        }
        assert_eq!("sts/b".parse::<Workload>().unwrap().to_string(), "statefulset/b");
        assert_eq!("ds/c".parse::<Workload>().unwrap().to_string(), "daemonset/c");
        for text in ["rollout/d", "ro/d", "rollouts.argoproj.io/d"] {
            assert_eq!(text.parse::<Workload>().unwrap().to_string(), "rollout/d");
        }
        for text in ["", "a", "pod/a", "deployment/", "deployment/a/b", "deployment/a?x"] {
            assert!(text.parse::<Workload>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_selector_is_written_for_a_list() {
        let selector_of = |text: &str| selector(&serde_json::from_str(text).unwrap()).ok();
        let text = r#"{"matchLabels": {"a": "b"}, "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["d", "e"]},
            {"key": "f", "operator": "NotIn", "values": ["g"]},
            {"key": "h", "operator": "Exists"}, {"key": "i", "operator": "DoesNotExist"}]}"#;
        assert_eq!(selector_of(text).as_deref(), Some("a=b,c in (d,e),f notin (g),h,!i"));
        assert_eq!(selector_of("{}").as_deref(), Some(""));
        let newer = text.replace("NotIn", "Newer");
        assert_eq!(selector_of(&newer), None, "an operator that is not known");
    }
}
