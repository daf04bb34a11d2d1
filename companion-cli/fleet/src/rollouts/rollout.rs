//! The progress of a rollout, by the rules of `kubectl rollout status`. Pure.

use std::fmt;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use serde_json::Value;

use crate::api::error::FleetError;
use crate::api::kinds::{DAEMON_SETS, DEPLOYMENTS, ObjectKind, ROLLOUTS, STATEFUL_SETS};
use laststream_base::names;

/// A Deployment, a StatefulSet, a DaemonSet, or a Rollout of Argo Rollouts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    pub kind: ObjectKind,
    pub name: String,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.resource.trim_end_matches('s'), self.name)
    }
}

impl FromStr for Workload {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WANTED: &str = "write it like `deployment/NAME`, `statefulset/NAME`, \
            `daemonset/NAME` or `rollout/NAME`";
        let (kind, name) = text.split_once('/').ok_or(WANTED)?;
        let kind = match kind.trim_end_matches(".apps").trim_end_matches(".argoproj.io") {
            "deployment" | "deployments" | "deploy" => DEPLOYMENTS,
            "statefulset" | "statefulsets" | "sts" => STATEFUL_SETS,
            "daemonset" | "daemonsets" | "ds" => DAEMON_SETS,
            "rollout" | "rollouts" | "ro" => ROLLOUTS,
            _ => return Err(WANTED),
        };
        if name.is_empty() || name.contains('/') {
            return Err(WANTED);
        }
        Ok(Self { kind, name: names::subdomain(name)? })
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
    if let Some(reason) = &facts.waits_for {
        waiting(reason.clone())
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

impl RolloutFacts {
    /// Adds the numbers of an object that makes ReplicaSets.
    pub(crate) fn with_replicas(self, object: &Value) -> Self {
        Self {
            wanted: number(&object["spec"]["replicas"]).unwrap_or(1),
            updated: count(object, "updatedReplicas"),
            needed: count(object, "updatedReplicas"),
            total: count(object, "replicas"),
            available: count(object, "availableReplicas"),
            ..self
        }
    }
}

pub(crate) fn number(value: &Value) -> Option<i32> {
    value.as_i64().and_then(|value| i32::try_from(value).ok())
}

/// A number of the object's status.
pub(crate) fn count(object: &Value, field: &str) -> i32 {
    number(&object["status"][field]).unwrap_or_default()
}

/// The selector as text, for the request that lists pods.
pub(crate) fn selector(selector: &LabelSelector) -> Result<String, FleetError> {
    let selector = Selector::try_from(selector.clone());
    let selector = selector.map_err(|error| FleetError::Selector(error.to_string()))?;
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
        let text = |facts: &RolloutFacts| match progress(&workload, facts) {
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
            assert_eq!(text(&facts(numbers)), expected);
        }
        let unseen = RolloutFacts { observed: false, ..facts([3, 3, 3, 3]) };
        assert!(text(&unseen).contains("has not seen"));
        let late = RolloutFacts { failed: Some("late".into()), ..facts([3, 1, 4, 3]) };
        assert_eq!(text(&late), "deployment/web: late");
        let before = RolloutFacts { observed: false, ..late };
        assert!(text(&before).contains("has not seen"), "a failure before this change");
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
