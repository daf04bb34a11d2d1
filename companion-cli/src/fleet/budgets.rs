//! The evictions of a node drain that PodDisruptionBudgets refuse or delay, by the rules of the
//! eviction API. Pure, except for listing the budgets.

use std::collections::BTreeMap;

use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::ListParams;
use kube::core::{Selector, SelectorExt as _};
use serde::Serialize;

use super::call::Call;
use super::client::Cluster;
use super::error::FleetError;
use super::pods::PodFacts;
use crate::gate::text::many;

/// A PodDisruptionBudget.
#[derive(Debug, Clone)]
pub struct Budget {
    namespace: String,
    name: String,
    /// `None` for a budget that applies to no pod.
    selector: Option<Selector>,
    /// The number of evictions that the budget allows now.
    allowed: usize,
    /// Whether its status is older than its specification.
    is_outdated: bool,
    /// Whether pods that are not ready may be evicted regardless of `allowed`.
    ignores_unready: bool,
}

/// Pods of a node whose eviction a budget refuses or delays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldEvictions {
    /// `NAMESPACE/NAME` of the budget; several, with commas, if they select the same pods.
    pub budget: String,
    /// `NAMESPACE/NAME` of each pod.
    pub pods: Vec<String>,
    /// Whether none of these pods can be evicted now. Otherwise they are evicted in turns.
    pub would_block: bool,
    /// Why the budget refuses or delays the evictions.
    pub why: String,
}

impl Budget {
    fn of(object: &PodDisruptionBudget) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let spec = object.spec.clone().unwrap_or_default();
        let status = object.status.clone().unwrap_or_default();
        let is_always = spec.unhealthy_pod_eviction_policy.as_deref() == Some("AlwaysAllow");
        let is_undisturbed =
            status.desired_healthy > 0 && status.current_healthy >= status.desired_healthy;
        Self {
            namespace: text(&object.metadata.namespace),
            name: text(&object.metadata.name),
            // An invalid selector selects no pod either.
            selector: spec.selector.and_then(|selector| selector.try_into().ok()),
            allowed: usize::try_from(status.disruptions_allowed).unwrap_or_default(),
            is_outdated: status.observed_generation < object.metadata.generation,
            ignores_unready: is_always || is_undisturbed,
        }
    }

    fn is_of(&self, pod: &PodFacts) -> bool {
        let matches = |selector: &Selector| selector.matches(&pod.labels);
        self.namespace == pod.namespace && self.selector.as_ref().is_some_and(matches)
    }

    /// Whether the pod can be evicted only if the budget allows an eviction.
    fn counts(&self, pod: &PodFacts) -> bool {
        pod.ready || !self.ignores_unready
    }

    /// Whether the budget blocks the evictions of this many pods, and why; `None` if all can go at
    /// once.
    fn verdict(&self, pods: usize) -> Option<(bool, String)> {
        if pods == 0 {
            None
        } else if self.is_outdated {
            Some((true, "its last change has not been taken up yet".to_owned()))
        } else if self.allowed == 0 {
            Some((true, "it allows no eviction now".to_owned()))
        } else if pods > self.allowed {
            Some((false, format!("it allows {} now", many(self.allowed as u64, "eviction"))))
        } else {
            None
        }
    }
}

/// The pods that cannot all be evicted at once, with the budgets that hold them.
#[must_use]
pub fn held_evictions(budgets: &[Budget], pods: &[PodFacts]) -> Vec<HeldEvictions> {
    let mut alike: BTreeMap<String, (Vec<&Budget>, Vec<&PodFacts>)> = BTreeMap::new();
    // The eviction API evicts terminating and pending pods regardless of budgets.
    for pod in pods.iter().filter(|pod| !pod.terminating && !pod.pending) {
        let own: Vec<&Budget> = budgets.iter().filter(|budget| budget.is_of(pod)).collect();
        let names = own.iter().map(|budget| format!("{}/{}", budget.namespace, budget.name));
        let names = names.collect::<Vec<_>>().join(", ");
        alike.entry(names).or_insert_with(|| (own, Vec::new())).1.push(pod);
    }
    let mut held = Vec::new();
    for (budget, (budgets, mut pods)) in alike {
        let verdict = match budgets.as_slice() {
            [] => None,
            [alone] => {
                pods.retain(|pod| alone.counts(pod));
                alone.verdict(pods.len())
            }
            _ => Some((true, "the eviction API takes no pod with several budgets".to_owned())),
        };
        if let Some((would_block, why)) = verdict {
            let pods = pods.iter().map(|pod| pod.path()).collect();
            held.push(HeldEvictions { budget, pods, would_block, why });
        }
    }
    held
}

impl Cluster {
    /// The budgets of all namespaces, or of the cluster's own.
    ///
    /// # Errors
    /// The API server does not list them.
    pub async fn budgets(&self, everywhere: bool) -> Result<Vec<Budget>, FleetError> {
        let call = Call::new("list", "poddisruptionbudgets");
        self.list(call, everywhere, ListParams::default(), Budget::of).await
    }
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, app: &str) -> PodFacts {
        let labels = [("app".to_owned(), app.to_owned())].into();
        let (namespace, name) = ("shop".to_owned(), name.to_owned());
        PodFacts { namespace, name, labels, ready: true, ..PodFacts::default() }
    }

    fn budget(name: &str, selector: &Value, allowed: i32) -> Value {
        json!({
            "metadata": { "namespace": "shop", "name": name, "generation": 2 },
            "spec": { "selector": selector },
            "status": {
                "observedGeneration": 2, "disruptionsAllowed": allowed, "currentHealthy": 1,
                "desiredHealthy": 2, "expectedPods": 2,
            },
        })
    }

    fn held(budgets: &[Value], pods: &[PodFacts]) -> Vec<(String, usize, bool)> {
        let read = |budget: &Value| serde_json::from_value(budget.clone()).unwrap();
        let budgets: Vec<Budget> = budgets.iter().map(|budget| Budget::of(&read(budget))).collect();
        let held = held_evictions(&budgets, pods).into_iter();
        held.map(|held| (held.budget, held.pods.len(), held.would_block)).collect()
    }

    fn web() -> Value {
        json!({ "matchLabels": { "app": "web" } })
    }

    #[test]
    fn a_budget_blocks_or_lets_pods_go_in_turns() {
        let pods = [pod("a", "web"), pod("b", "web"), pod("c", "db")];
        let mut outdated = budget("x", &web(), 2);
        outdated["metadata"]["generation"] = json!(3);
        let mut unseen = budget("x", &web(), 2);
        unseen["status"] = json!(null);
        for (budget, expected) in [
            (budget("x", &web(), 0), Some((2, true))),
            (budget("x", &web(), 1), Some((2, false))),
            (budget("x", &web(), 2), None),
            (outdated, Some((2, true))),
            (unseen, Some((2, true))),
            (budget("x", &json!({}), 0), Some((3, true))),
            (budget("x", &json!(null), 0), None),
            (budget("x", &json!({ "matchLabels": { "app": "none" } }), 0), None),
        ] {
            let expected = expected.map(|(pods, blocks)| ("shop/x".to_owned(), pods, blocks));
            assert_eq!(held(from_ref(&budget), &pods), Vec::from_iter(expected), "{budget}");
        }
    }

    #[test]
    fn a_budget_applies_to_its_own_namespace_only() {
        let other = PodFacts { namespace: "other".to_owned(), ..pod("a", "web") };
        assert!(held(&[budget("x", &json!({}), 0)], &[other]).is_empty());
    }

    #[test]
    fn a_pod_with_several_budgets_is_refused() {
        let budgets = [budget("x", &web(), 9), budget("y", &json!({}), 1)];
        let pods = [pod("a", "web"), pod("b", "db")];
        assert_eq!(held(&budgets, &pods), [("shop/x, shop/y".to_owned(), 1, true)]);
    }

    #[test]
    fn pods_that_a_budget_does_not_protect_are_not_held() {
        let pods = [
            PodFacts { terminating: true, ..pod("a", "web") },
            PodFacts { pending: true, ready: false, ..pod("b", "web") },
            PodFacts { ready: false, ..pod("c", "web") },
        ];
        let mut budget = budget("x", &web(), 0);
        assert_eq!(held(from_ref(&budget), &pods), [("shop/x".to_owned(), 1, true)]);
        budget["spec"]["unhealthyPodEvictionPolicy"] = json!("AlwaysAllow");
        assert!(held(from_ref(&budget), &pods).is_empty());
        budget["spec"]["unhealthyPodEvictionPolicy"] = json!("IfHealthyBudget");
        budget["status"]["currentHealthy"] = json!(2);
        assert!(held(from_ref(&budget), &pods).is_empty());
    }
}
