//! The annotation `controller.kubernetes.io/pod-deletion-cost` from the streams in flight, so that
//! a scale-down deletes the pods with the fewest streams first. The steps are coarse, because each
//! write goes to every watcher of the pod. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::answers::answer::Answer;
use crate::pods::facts::{DELETION_COST, OWN_COST, PodFacts};
use laststream_gate::text::many;

/// The step of a number of streams: 0 for none, and one more for each doubling.
fn step(streams: u64) -> i32 {
    streams.checked_ilog2().map_or(0, |doublings| i32::try_from(doublings).unwrap_or(0) + 1)
}

/// The new cost. A number of streams that is below the current step by at most a quarter keeps the
/// step, so that a pod at the edge of two steps is not written again and again.
fn cost(streams: u64, current: Option<i32>) -> i32 {
    let (new, current) = (step(streams), current.unwrap_or(0));
    let is_near = new + 1 == current && streams > 1 && step(streams + streams / 3) == current;
    if is_near { current } else { new }
}

/// Whether a ReplicaSet reads the pod's cost, and an operator or another program has written it.
fn is_foreign(pod: &PodFacts) -> bool {
    is_of_replica_set(pod) && pod.cost_is_foreign && !pod.terminating
}

/// Whether a ReplicaSet owns the pod. No other controller reads the cost.
fn is_of_replica_set(pod: &PodFacts) -> bool {
    pod.owner.as_deref().is_some_and(|owner| owner.starts_with("ReplicaSet/"))
}

/// Whether the pod keeps its cost because no count has all of its streams.
fn is_uncounted(pod: &PodFacts, answer: &Answer) -> bool {
    let is_counted = answer.in_flight().is_some();
    is_of_replica_set(pod) && !pod.terminating && answer.has_gate() && !is_counted
}

/// A change of a pod's cost.
#[derive(Debug, Clone, PartialEq)]
pub struct CostChange {
    pub pod: PodFacts,
    /// The new cost, and the streams in flight that it stands for. `None` removes the cost.
    cost: Option<(i32, u64)>,
}

impl CostChange {
    /// The change for a pod of a ReplicaSet that has answered. `None` if the pod is terminating, if
    /// no count has all of its streams, or if the cost stays the same.
    fn of(pod: &PodFacts, answer: &Answer) -> Option<Self> {
        let streams = answer.in_flight().filter(|_| is_of_replica_set(pod) && !pod.terminating)?;
        let cost = cost(streams, pod.deletion_cost);
        let is_new = pod.deletion_cost.unwrap_or(0) != cost;
        is_new.then(|| Self { pod: pod.clone(), cost: Some((cost, streams)) })
    }

    /// The removal of the cost. `None` if the pod has none, or another program's.
    pub fn removal(pod: &PodFacts) -> Option<Self> {
        let has_cost = pod.deletion_cost.is_some() && !pod.cost_is_foreign;
        has_cost.then(|| Self { pod: pod.clone(), cost: None })
    }

    /// Whether there are fewer streams, which may be so for a moment only.
    fn lowers(&self) -> bool {
        self.cost.is_some_and(|(cost, _)| cost < self.pod.deletion_cost.unwrap_or(0))
    }

    /// The new annotations. `null` removes one.
    pub(crate) fn annotations(&self) -> Value {
        let cost = self.cost.map(|(cost, _)| cost.to_string());
        json!({ DELETION_COST: cost, OWN_COST: cost })
    }

    pub fn text(&self) -> String {
        let path = self.pod.path();
        let Some((cost, streams)) = self.cost else {
            return format!("{path}: removed {DELETION_COST}, {OWN_COST}");
        };
        let last = self.pod.deletion_cost.map_or("none".to_owned(), |cost| cost.to_string());
        format!("{path}: {last} -> {cost}, {} in flight", many(streams, "stream"))
    }

    pub fn json(&self, is_written: bool) -> Value {
        let (namespace, pod) = (&self.pod.namespace, &self.pod.name);
        match self.cost {
            Some((cost, streams)) => json!({
                "namespace": namespace, "pod": pod, "written": is_written,
                "streams": streams, "from": self.pod.deletion_cost, "to": cost,
            }),
            None => json!({
                "namespace": namespace, "pod": pod, "written": is_written,
                "removed": [DELETION_COST, OWN_COST],
            }),
        }
    }
}

/// The number of looks in a row that must see fewer streams before a cost falls, because streams
/// come and go, and each write goes to every watcher of the pod.
const LOOKS: u32 = 3;

const FOREIGN: &str = "{} with a cost that another program or an operator wrote; it stays, and \
    `--overwrite` replaces it";
const UNCOUNTED: &str = "the costs of {} stay, because no count has all streams there; `laststream \
    status -o wide` says why";

/// What a look asks for.
#[derive(Debug, Default, PartialEq)]
pub struct Look {
    /// The changes that are due.
    pub changes: Vec<CostChange>,
    /// Warnings that were not given before.
    pub warnings: Vec<String>,
    /// Whether a pod keeps its cost because no count has all of its streams.
    pub is_incomplete: bool,
}

/// The costs of pods, look by look.
#[derive(Debug)]
pub struct Costs {
    /// Whether costs of others are replaced.
    overwrites: bool,
    /// The looks in a row that saw fewer streams of a pod. `None` if there is one look only, which
    /// lowers costs at once.
    lowering: Option<BTreeMap<String, u32>>,
    /// The pods that the last look warned of.
    foreign: usize,
    uncounted: usize,
}

impl Costs {
    pub fn new(overwrites: bool, is_once: bool) -> Self {
        let lowering = (!is_once).then(BTreeMap::new);
        Self { overwrites, lowering, foreign: 0, uncounted: 0 }
    }

    /// The changes of a look at these pods.
    pub fn look(&mut self, pods: &[(PodFacts, Answer)]) -> Look {
        let keeps = |pod: &PodFacts| !self.overwrites && is_foreign(pod);
        let foreign = pods.iter().filter(|(pod, _)| keeps(pod)).count();
        let uncounted = pods.iter().filter(|(pod, answer)| is_uncounted(pod, answer)).count();
        let changes = pods.iter().filter(|(pod, _)| !keeps(pod));
        let changes = changes.filter_map(|(pod, answer)| CostChange::of(pod, answer)).collect();
        let mut warnings = Vec::new();
        for (text, count, last) in
            [(FOREIGN, foreign, &mut self.foreign), (UNCOUNTED, uncounted, &mut self.uncounted)]
        {
            if std::mem::replace(last, count) != count && count > 0 {
                warnings.push(text.replace("{}", &many(count as u64, "pod")));
            }
        }
        Look { changes: self.due(changes), warnings, is_incomplete: uncounted > 0 }
    }

    /// The changes that are due now.
    fn due(&mut self, mut changes: Vec<CostChange>) -> Vec<CostChange> {
        let Some(lowering) = &mut self.lowering else { return changes };
        let last_looks = std::mem::take(lowering);
        changes.retain(|change| {
            let looks = last_looks.get(&change.pod.uid).copied().unwrap_or_default() + 1;
            let is_due = !change.lowers() || looks >= LOOKS;
            if !is_due {
                lowering.insert(change.pod.uid.clone(), looks);
            }
            is_due
        });
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::stats::Stats;
    use crate::rollouts::old_pods::tests::of_partial;
    use proptest::prelude::*;

    #[test]
    fn a_step_is_a_doubling() {
        let steps = [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (50, 6), (200, 8), (u64::MAX, 64)];
        for (streams, expected) in steps {
            assert_eq!(step(streams), expected, "{streams}");
        }
        // The step of 8 streams stays down to 6 streams, and falls at 5.
        let kept: Vec<i32> = (5..=8).map(|streams| cost(streams, Some(4))).collect();
        assert_eq!(kept, [3, 4, 4, 4]);
        assert_eq!((cost(0, Some(1)), cost(1, Some(2))), (0, 1));
    }

    fn pod(owner: &str, from: i32) -> PodFacts {
        let (owner, deletion_cost) = (Some(owner.to_owned()), Some(from));
        PodFacts { owner, deletion_cost, uid: "u".into(), ..PodFacts::default() }
    }

    fn stats(streams: u64) -> Stats {
        let in_flight = BTreeMap::from([("inbound".to_owned(), streams)]);
        Stats { state: Some("serving"), in_flight, ..Stats::default() }
    }

    fn new_cost(pod: &PodFacts, answer: &Answer) -> Option<i32> {
        CostChange::of(pod, answer)?.cost.map(|(cost, _)| cost)
    }

    #[test]
    fn an_incomplete_count_changes_no_cost() {
        let counted =
            |count: &str| Answer::Stats(Stats { count: Some(count.to_owned()), ..stats(4) });
        let partial = |active| Answer::Detail(Box::new(of_partial("serving", active)));
        for (answer, cost) in [
            (counted("exact"), Some(3)),
            (counted("assumed"), Some(3)),
            (counted("partial"), None),
            (counted("rejected"), None),
            (counted("leaking"), None),
            (partial(Some(200)), Some(8)),
            (partial(None), None),
        ] {
            let pod = pod("ReplicaSet/web-5d", 0);
            assert_eq!(new_cost(&pod, &answer), cost, "{answer:?}");
            assert_eq!(is_uncounted(&pod, &answer), cost.is_none(), "{answer:?}");
        }
        let without = Answer::Stats(Stats::default());
        assert!(!is_uncounted(&pod("ReplicaSet/web-5d", 0), &without), "nothing counts there");
    }

    #[test]
    fn only_pods_of_replica_sets_have_a_cost() {
        let answer = Answer::Stats(stats(4));
        assert_eq!(new_cost(&pod("ReplicaSet/web-5d", 0), &answer), Some(3));
        assert_eq!(new_cost(&pod("StatefulSet/cart", 0), &answer), None);
    }

    #[test]
    fn a_cost_rises_at_once_and_falls_after_several_looks() {
        let mut costs = Costs::new(false, false);
        let mut changes = |streams, from| {
            let answer = Answer::Stats(stats(streams));
            costs.look(&[(pod("ReplicaSet/a", from), answer)]).changes.len()
        };
        assert_eq!(changes(1, 0), 1);
        assert_eq!(changes(0, 1), 0);
        assert_eq!(changes(1, 1), 0, "there is a stream again");
        assert_eq!([0; 3].map(|streams| changes(streams, 1)), [0, 0, 1]);
    }

    #[test]
    fn a_warning_is_given_when_the_number_of_its_pods_changes() {
        let foreign = PodFacts { cost_is_foreign: true, ..pod("ReplicaSet/a", 9) };
        let partial = Answer::Detail(Box::new(of_partial("serving", None)));
        let pods = [(foreign, Answer::Stats(stats(1))), (pod("ReplicaSet/b", 0), partial)];
        let mut costs = Costs::new(false, true);
        let look = costs.look(&pods);
        assert_eq!((look.changes.len(), look.warnings.len(), look.is_incomplete), (0, 2, true));
        assert!(look.warnings[0].starts_with("1 pod with a cost that another program"));
        assert_eq!(costs.look(&pods).warnings, [""; 0], "given before");
        assert_eq!(costs.look(&pods[..1]).warnings, [""; 0], "no pod is uncounted");
        assert_eq!(costs.look(&pods).warnings.len(), 1, "again");
        assert_eq!(Costs::new(true, true).look(&pods).changes.len(), 1, "overwritten");
    }

    proptest! {
        #[test]
        fn more_streams_cost_no_less(streams in 0_u64..1 << 40, more in 0_u64..1 << 40) {
            prop_assert!(step(streams + more) >= step(streams));
        }

        /// A cost is not written again while the number of streams stays the same.
        #[test]
        fn a_cost_is_stable(streams in 0_u64..1 << 40, current in proptest::option::of(0..64_i32)) {
            let written = cost(streams, current);
            prop_assert_eq!(cost(streams, Some(written)), written);
            prop_assert!((written - step(streams)).abs() <= 1);
        }
    }
}
