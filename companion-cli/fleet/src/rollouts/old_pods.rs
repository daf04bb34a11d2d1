//! The old pods of a rollout: which of them hold it, and when their last stream ended. Pure.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;

use crate::answers::answer::Answer;
use crate::pods::facts::PodFacts;

/// The time at which the old pods' last stream ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastStreamClock {
    ended: Option<Instant>,
    /// The pods that had a stream in flight while they drained.
    with_streams: BTreeSet<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PodDrainResult {
    /// Streams hold the pod's drain, or may hold it.
    Holds,
    /// No stream holds the pod's drain.
    Over,
    /// Its deadline or an operator ended the wait; this many streams are cut when its proxy ends.
    GaveUp(u64),
    /// Its streams are not known; the rollout waits until the pod has gone.
    Unknown,
    /// Its streams are not known, and the pod is overdue: it may never end.
    Lost,
}

impl PodDrainResult {
    /// Whether the rollout waits until the pod's proxy has ended.
    pub(crate) fn holds(self) -> bool {
        match self {
            Self::Holds | Self::Unknown => true,
            Self::GaveUp(streams) => streams > 0,
            Self::Over | Self::Lost => false,
        }
    }
}

fn ending(pod: &PodFacts, answer: &Answer, now: Timestamp) -> PodDrainResult {
    match answer {
        _ if !pod.proxy_runs => PodDrainResult::Over,
        Answer::Detail(detail) => {
            let status = &detail.status;
            if status.gave_up() {
                status.held_streams().map_or_else(|| unknown(pod, now), PodDrainResult::GaveUp)
            } else if status.state == "drained" {
                PodDrainResult::Over
            } else {
                PodDrainResult::Holds
            }
        }
        Answer::Unasked => PodDrainResult::Over,
        Answer::Stats(_) | Answer::Silent(_) => unknown(pod, now),
    }
}

fn unknown(pod: &PodFacts, now: Timestamp) -> PodDrainResult {
    if pod.is_overdue(now) { PodDrainResult::Lost } else { PodDrainResult::Unknown }
}

/// Whether the gate serves. It serves again if its drain runs out while the pod's other containers
/// end.
fn serves(answer: &Answer) -> bool {
    matches!(answer, Answer::Detail(detail) if detail.status.state == "serving")
}

/// The old pods whose drain nothing held any more when their gates last answered.
#[derive(Debug, Default)]
pub(crate) struct DrainResults {
    over: BTreeSet<String>,
}

impl DrainResults {
    /// Records an answer of a deleted pod, and returns the pod's ending. The API server reports a
    /// proxy as running until all containers of its pod have ended, so a gate that has ended looks
    /// like a silent one.
    pub(crate) fn note(
        &mut self,
        pod: &PodFacts,
        answer: &Answer,
        now: Timestamp,
    ) -> PodDrainResult {
        let ending = ending(pod, answer, now);
        match ending {
            PodDrainResult::Holds if serves(answer) && self.over.contains(&pod.uid) => {
                return PodDrainResult::Over;
            }
            PodDrainResult::Over | PodDrainResult::GaveUp(0) => {
                self.over.insert(pod.uid.clone());
            }
            PodDrainResult::Holds | PodDrainResult::GaveUp(_) => {
                self.over.remove(&pod.uid);
            }
            PodDrainResult::Unknown | PodDrainResult::Lost if self.over.contains(&pod.uid) => {
                return PodDrainResult::Over;
            }
            PodDrainResult::Unknown | PodDrainResult::Lost => {}
        }
        ending
    }
}

impl LastStreamClock {
    /// Records the answer of the pod with this UID about its streams at this moment.
    pub(crate) fn note(&mut self, uid: &str, answer: &Answer, now: Instant) {
        let Answer::Detail(detail) = answer else { return };
        let status = &detail.status;
        if status.state == "serving" {
            return;
        }
        let is_held = status.held_streams().is_some_and(|streams| streams > 0);
        let in_flight = is_held || status.in_flight() > 0;
        if in_flight || status.late > 0 {
            self.with_streams.insert(uid.to_owned());
        }
        let end = match in_flight {
            true => Some(now),
            // The gate reports how long nothing has been in flight, at most since its drain began.
            false if self.with_streams.contains(uid) => {
                now.checked_sub(Duration::from_millis(status.quiet_ms))
            }
            false => None,
        };
        self.ended = self.ended.max(end);
    }

    /// The time at which the last stream ended; `None` if no stream was seen.
    pub(crate) fn ended(&self) -> Option<Instant> {
        self.ended
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::answers::answer::Detail;

    pub(crate) fn pod(proxy_runs: bool) -> PodFacts {
        let proxy = Some("envoy".to_owned());
        PodFacts { name: "a".into(), uid: "u".into(), proxy, proxy_runs, ..PodFacts::default() }
    }

    pub(crate) fn answer(state: &str, holding: u64, millis: u64) -> Answer {
        Answer::Detail(Box::new(detail(state, holding, millis)))
    }

    /// The answer of a gate whose drain has lasted this long.
    pub(crate) fn detail(state: &str, holding: u64, millis: u64) -> Detail {
        let status = format!(
            r#"{{"state": "{state}", "reason": "r", "count": "exact",
            "holding": {holding}, "scopes": [], "draining_ms": {millis},
            "quiet_needed_ms": 1000}}"#
        );
        Detail { status: serde_json::from_str(&status).unwrap(), streams: Err("none".into()) }
    }

    /// The answer of a gate that knows streams by Envoy's count only, if at all.
    pub(crate) fn of_partial(state: &str, envoy_active: Option<u64>) -> Detail {
        let mut detail = detail(state, 0, 60_000);
        detail.status.count = "partial".into();
        detail.status.envoy_active = envoy_active;
        detail
    }

    pub(crate) fn partial(state: &str, envoy_active: Option<u64>) -> Answer {
        Answer::Detail(Box::new(of_partial(state, envoy_active)))
    }

    /// The answer of a gate that has drained and has been quiet for this time.
    fn quiet(quiet_ms: u64, late: u64) -> Answer {
        let mut detail = detail("drained", 0, 0);
        (detail.status.quiet_ms, detail.status.late) = (quiet_ms, late);
        Answer::Detail(Box::new(detail))
    }

    #[test]
    fn a_pod_without_a_stream_is_not_the_last_one() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut last = LastStreamClock::default();
        last.note("idle", &quiet(1_000, 0), at(2));
        assert_eq!(last.ended(), None, "no stream was seen");
        last.note("a", &answer("draining", 1, 0), at(4));
        assert_eq!(last.ended(), Some(at(4)));
        last.note("a", &quiet(1_000, 0), at(6));
        last.note("idle", &quiet(0, 0), at(60));
        assert_eq!(last.ended(), Some(at(5)));
        last.note("late", &quiet(1_000, 2), at(62));
        assert_eq!(last.ended(), Some(at(61)), "its streams came and went between two looks");
    }

    #[test]
    fn a_gate_that_gave_up_holds_as_long_as_streams_are_in_flight() {
        for (state, holding, proxy_runs, holds) in [
            ("expired", 3, true, true),
            ("forced", 3, true, true),
            ("expired", 0, true, false),
            ("expired", 3, false, false),
        ] {
            let ending = ending(&pod(proxy_runs), &answer(state, holding, 0), Timestamp::MIN);
            assert_eq!(ending.holds(), holds, "{state} {holding} {proxy_runs}");
        }
    }

    #[test]
    fn streams_that_only_envoy_counts_hold_the_rollout() {
        let (pod, now) = (pod(true), Instant::now());
        for (state, active, expected) in [
            ("expired", Some(40), PodDrainResult::GaveUp(40)),
            ("forced", Some(0), PodDrainResult::GaveUp(0)),
            ("expired", None, PodDrainResult::Unknown),
            ("draining", Some(40), PodDrainResult::Holds),
            ("draining", None, PodDrainResult::Holds),
            ("drained", None, PodDrainResult::Over),
        ] {
            let answer = partial(state, active);
            assert_eq!(ending(&pod, &answer, Timestamp::MIN), expected, "{state} {active:?}");
            let mut last = LastStreamClock::default();
            last.note("a", &answer, now);
            assert_eq!(last.ended().is_some(), active == Some(40), "{state} {active:?}");
        }
    }

    /// The app takes longer to end than the drain's deadline.
    #[test]
    fn a_drained_gate_that_serves_again_holds_nothing() {
        let mut endings = DrainResults::default();
        let mut note = |state, holding| {
            endings.note(&pod(true), &answer(state, holding, 0), Timestamp::MIN).holds()
        };
        assert!(note("serving", 0), "its drain has not begun yet");
        assert!(!note("drained", 0));
        assert!(!note("serving", 0), "its drain has run out");
        assert!(note("draining", 1), "a new drain");
        assert!(note("serving", 0));
    }

    /// The pod's Envoy has ended, and its app has not.
    #[test]
    fn a_drained_gate_counts_as_drained_after_it_has_gone() {
        let pod = PodFacts { grace_ends: Some(Timestamp::UNIX_EPOCH), ..pod(true) };
        let silent = Answer::Silent("refused".into());
        let now = |seconds| Timestamp::from_second(seconds).unwrap();
        for (before, over) in [
            (answer("drained", 0, 0), true),
            (answer("expired", 0, 0), true),
            (answer("expired", 1, 0), false),
            (answer("draining", 0, 0), false),
        ] {
            let mut endings = DrainResults::default();
            endings.note(&pod, &before, now(0));
            for seconds in [1, 121] {
                let ending = endings.note(&pod, &silent, now(seconds));
                let is_over = matches!(ending, PodDrainResult::Over);
                assert_eq!(is_over, over, "{before:?} {ending:?}");
            }
            endings.note(&pod, &answer("draining", 1, 0), now(2));
            assert_eq!(endings.note(&pod, &silent, now(3)), PodDrainResult::Unknown, "a new drain");
        }
    }

    #[test]
    fn a_pod_without_a_known_gate_is_waited_for_until_it_is_overdue() {
        let grace_ends = Some(Timestamp::UNIX_EPOCH);
        let of = |proxy_runs, answer: &Answer, seconds| {
            let pod = PodFacts { grace_ends, ..pod(proxy_runs) };
            ending(&pod, answer, Timestamp::from_second(seconds).unwrap())
        };
        let silent = Answer::Silent("refused".into());
        assert_eq!(of(true, &silent, 120), PodDrainResult::Unknown);
        assert_eq!(of(true, &silent, 121), PodDrainResult::Lost);
        assert!(PodDrainResult::Unknown.holds() && !PodDrainResult::Lost.holds());
        assert_eq!(of(false, &silent, 121), PodDrainResult::Over);
        assert_eq!(of(true, &answer("draining", 1, 0), 121), PodDrainResult::Holds, "it answers");
    }
}
