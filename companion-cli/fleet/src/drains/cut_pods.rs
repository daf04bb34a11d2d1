//! Finds old pods of a rollout that ended with streams in flight, or with unknown streams. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::answers::answer::Answer;
use crate::pods::facts::PodFacts;
use laststream_gate::Status;

/// A pod that ended while streams were in flight, or may have been.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) pod: String,
    /// Streams that held the drain at its gate's last answer. `None` if they were not known, or if
    /// they may have ended well between that answer and the pod's end.
    pub(crate) streams: Option<u64>,
}

/// The streams that held each old pod at its gate's last answer.
#[derive(Debug, Default)]
pub(crate) struct CutPods {
    entries: BTreeMap<String, Holding>,
}

#[derive(Debug)]
struct Holding {
    cut: Cut,
    /// The time from which the streams may have ended well, and the pod after them. `None` if that
    /// is impossible, and after a look without an answer.
    in_doubt_from: Option<Instant>,
    /// Whether the answer came from a gate that drained. Otherwise any newer answer replaces it.
    is_of_drain: bool,
}

impl Holding {
    fn of_drain(pod: &PodFacts, status: &Status, began: Instant) -> Self {
        let cut = Cut { pod: pod.name.clone(), streams: status.held_streams() };
        // A gate that drains opens only after a quiet period without a stream.
        let quiet = Duration::from_millis(status.quiet_needed_ms);
        let in_doubt_from = began.checked_add(quiet).filter(|_| !status.gave_up());
        Self { cut, in_doubt_from, is_of_drain: true }
    }

    /// The entry for a pod whose gate has not drained in any look so far. `None` if the gate serves
    /// without a stream, because the pod then loses none.
    fn undrained(pod: &PodFacts, answer: &Answer) -> Option<Self> {
        let is_idle = match answer {
            Answer::Detail(detail) => detail.status.held_streams() == Some(0),
            _ => false,
        };
        let cut = Cut { pod: pod.name.clone(), streams: None };
        (!is_idle).then_some(Self { cut, in_doubt_from: None, is_of_drain: false })
    }

    /// The entry after a look that began at `now` and got no answer. The first such look decides,
    /// because a gate that ends is silent until its pod has gone.
    fn missed(mut self, now: Instant) -> Self {
        let is_in_doubt = self.in_doubt_from.take().is_some_and(|from| now > from);
        if is_in_doubt && self.cut.streams > Some(0) {
            self.cut.streams = None;
        }
        self
    }
}

impl CutPods {
    /// Records one look at all old pods, which began at this moment. Returns the pods whose proxy
    /// has ended since the last look with streams in flight or unknown.
    pub(crate) fn note(&mut self, pods: &[(PodFacts, Answer)], began: Instant) -> Vec<Cut> {
        let mut entries = std::mem::take(&mut self.entries);
        for (pod, answer) in pods.iter().filter(|(pod, _)| may_run(pod)) {
            let earlier = entries.remove(&pod.uid).map(|entry| entry.missed(began));
            let entry = of_drain(answer).map(|status| Holding::of_drain(pod, status, began));
            let entry = entry.or(earlier.filter(|entry| entry.is_of_drain));
            let entry = entry.or_else(|| Holding::undrained(pod, answer));
            self.entries.extend(entry.map(|entry| (pod.uid.clone(), entry)));
        }
        let cuts = entries.into_values().map(|entry| entry.missed(began).cut);
        cuts.filter(|cut| cut.streams != Some(0)).collect()
    }
}

/// Whether the pod's proxy may still run. A proxy with an unknown name may run until its pod has
/// gone.
fn may_run(pod: &PodFacts) -> bool {
    pod.proxy_runs || pod.proxy.is_none()
}

/// The status of a gate that drains or has drained. Pods are asked by name, so a gate that serves
/// may belong to a successor with the same name.
fn of_drain(answer: &Answer) -> Option<&Status> {
    match answer {
        Answer::Detail(detail) if detail.status.state != "serving" => Some(&detail.status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollouts::old_pods::tests::{answer, partial, pod};

    const QUIET: Duration = Duration::from_secs(1);

    #[test]
    fn a_pod_that_ends_with_streams_in_flight_is_reported_once() {
        let now = Instant::now();
        let cut = vec![Cut { pod: "a".into(), streams: Some(2) }];
        for after in [vec![], vec![(pod(false), Answer::Unasked)]] {
            let mut cut_pods = CutPods::default();
            assert!(cut_pods.note(&[(pod(true), answer("draining", 2, 0))], now).is_empty());
            // A silent gate does not change the last answer, however long it is silent.
            let silent = [(pod(true), Answer::Silent("late".into()))];
            assert!(cut_pods.note(&silent, now).is_empty());
            assert_eq!(cut_pods.note(&after, now + 3 * QUIET), cut);
            assert!(cut_pods.note(&after, now).is_empty());
        }
        let mut cut_pods = CutPods::default();
        cut_pods.note(&[(pod(true), answer("draining", 2, 0))], now);
        cut_pods.note(&[(pod(true), answer("drained", 0, 0))], now);
        assert!(cut_pods.note(&[], now).is_empty());
    }

    /// The reported streams of a pod that gave these answers and had gone after this time.
    fn cut_after(answers: &[Answer], after: Duration) -> Vec<Option<u64>> {
        let (mut cut_pods, began) = (CutPods::default(), Instant::now());
        for answer in answers {
            assert!(cut_pods.note(&[(pod(true), answer.clone())], began).is_empty());
        }
        cut_pods.note(&[], began + after).iter().map(|cut| cut.streams).collect()
    }

    /// The look may be late because another pod is silent until its time-out.
    #[test]
    fn streams_may_have_ended_well_after_a_quiet_period() {
        let late = QUIET + Duration::from_millis(1);
        for (state, streams, after, expected) in [
            ("draining", 1, QUIET, Some(Some(1))),
            ("draining", 1, late, Some(None)),
            ("draining", 0, late, None),
            ("drained", 0, late, None),
            ("expired", 1, late, Some(Some(1))),
            ("forced", 1, 10 * QUIET, Some(Some(1))),
        ] {
            let seen = cut_after(&[answer(state, streams, 0)], after);
            assert_eq!(seen, Vec::from_iter(expected), "{state} {streams} {after:?}");
        }
    }

    #[test]
    fn a_pod_whose_gate_never_drained_ends_with_unknown_streams() {
        let silent = || Answer::Silent("refused".into());
        for (answers, expected) in [
            (vec![silent()], Some(None)),
            (vec![answer("serving", 7, 0)], Some(None)),
            (vec![partial("serving", None)], Some(None)),
            (vec![answer("serving", 0, 0)], None),
            (vec![answer("serving", 0, 0), silent()], Some(None)),
            (vec![answer("serving", 7, 0), answer("serving", 0, 0)], None),
            (vec![silent(), answer("serving", 0, 0)], None),
            (vec![silent(), answer("drained", 0, 0)], None),
            (vec![answer("serving", 7, 0), answer("draining", 0, 0), silent()], None),
            (vec![answer("drained", 0, 0), answer("serving", 7, 0), silent()], None),
        ] {
            let seen = cut_after(&answers, Duration::ZERO);
            assert_eq!(seen, Vec::from_iter(expected), "{answers:?}");
        }
    }

    #[test]
    fn a_proxy_with_an_unknown_name_ends_with_its_pod() {
        let (mut cut_pods, now) = (CutPods::default(), Instant::now());
        let pod = PodFacts { proxy: None, ..pod(false) };
        assert!(cut_pods.note(&[(pod, Answer::Unasked)], now).is_empty());
        assert_eq!(cut_pods.note(&[], now), [Cut { pod: "a".into(), streams: None }]);
        assert!(cut_pods.note(&[], now).is_empty());
    }

    #[test]
    fn streams_that_only_envoy_counts_are_reported() {
        for (state, active, expected) in [
            ("expired", Some(40), Some(Some(40))),
            ("forced", Some(0), None),
            ("expired", None, Some(None)),
            ("draining", Some(40), Some(Some(40))),
            ("draining", None, Some(None)),
            ("drained", None, None),
        ] {
            let seen = cut_after(&[partial(state, active)], Duration::ZERO);
            assert_eq!(seen, Vec::from_iter(expected), "{state} {active:?}");
        }
    }

    /// The successor of a StatefulSet's pod has the same name, and may answer in its place.
    #[test]
    fn streams_of_a_successor_are_not_those_of_the_old_pod() {
        let mut cut_pods = CutPods::default();
        let now = Instant::now();
        cut_pods.note(&[(pod(true), answer("draining", 2, 0))], now);
        cut_pods.note(&[(pod(true), answer("serving", 7, 0))], now);
        assert_eq!(cut_pods.note(&[], now), [Cut { pod: "a".into(), streams: Some(2) }]);
    }
}
