//! Waits for the drains of pods, look by look, until each is over. Pure.

use std::time::{Duration, Instant};

use crate::answers::answer::Answer;
use crate::api::error::FleetError;
use crate::drains::cut_pods::{Cut, CutPods};
use crate::drains::outcomes::{PodOutcome, without_proxy};
use crate::drains::reminders::{Reminders, may_answer_again};
use crate::pods::facts::PodFacts;
use laststream_base::time_span::TimeSpan;
use laststream_gate::text::{self, many};
use laststream_gate::{Outcome, Status, is_open};

/// The pods whose drains are not over.
#[derive(Debug)]
pub struct PodWaits {
    waits: Vec<PodWait>,
    /// The time of the API server's last answer.
    answered: Instant,
    reminders: Reminders,
}

impl PodWaits {
    /// Begins with pods whose gates have not been asked.
    pub fn new(pods: &[PodFacts], now: Instant) -> Self {
        let waits = pods.iter().cloned().map(PodWait::new).collect();
        Self { waits, answered: now, reminders: Reminders::default() }
    }

    pub fn are_over(&self) -> bool {
        self.waits.is_empty()
    }

    pub fn has(&self, pod: &PodFacts) -> bool {
        self.waits.iter().any(|wait| wait.pod.uid == pod.uid)
    }

    /// Records a look that began at this moment. Returns the results of the drains that are over.
    pub fn note(
        &mut self,
        answers: &[(PodFacts, Answer)],
        began: Instant,
        now: Instant,
    ) -> Vec<PodOutcome> {
        self.answered = now;
        let mut outcomes = Vec::new();
        self.waits.retain_mut(|wait| {
            let of_pod = answers.iter().find(|(pod, _)| pod.uid == wait.pod.uid);
            let outcome = wait.note(of_pod, began);
            let is_over = outcome.is_some();
            outcomes.extend(outcome);
            !is_over
        });
        outcomes
    }

    /// Records a failed look. Returns the line to print.
    ///
    /// # Errors
    /// The wait ends, because the API server will not answer soon.
    pub fn note_failure(
        &mut self,
        error: FleetError,
        now: Instant,
    ) -> Result<Option<String>, FleetError> {
        // The API server may restart while drains go on.
        if !may_answer_again(&error, now.duration_since(self.answered)) {
            return Err(error);
        }
        let line = error.to_string();
        Ok(self.reminders.is_due("", &line, now).then_some(line))
    }

    /// The lines about the progress that are new, or old enough to be repeated.
    pub fn progress(&mut self, now: Instant) -> Vec<String> {
        let lines = self.waits.iter().filter_map(|wait| {
            let line = format!("pod/{}: {}", wait.pod.name, wait.progress());
            self.reminders.is_due(&wait.pod.name, &line, now).then_some(line)
        });
        lines.collect()
    }

    /// The results of the drains that are not over after this time.
    pub fn late(&self, timeout: TimeSpan) -> Vec<PodOutcome> {
        let when = match timeout.duration() {
            Duration::ZERO => String::new(),
            _ => format!(" after {timeout}"),
        };
        let outcome = |wait: &PodWait| {
            let error = format!("its drain is not over{when}: {}", wait.progress());
            PodOutcome::failed(&wait.pod, error)
        };
        self.waits.iter().map(outcome).collect()
    }
}

#[derive(Debug)]
struct PodWait {
    pod: PodFacts,
    cut: CutPods,
    /// Whether its gate has answered that a drain runs.
    is_drain_seen: bool,
    /// The last answer, or why there was none. `None` before the first look.
    progress: Option<String>,
}

impl PodWait {
    /// Begins with the pod before its gate has been asked.
    fn new(pod: PodFacts) -> Self {
        Self { pod, cut: CutPods::default(), is_drain_seen: false, progress: None }
    }

    /// The gate's state and the streams that hold it, or why that is not known.
    fn progress(&self) -> &str {
        self.progress.as_deref().unwrap_or("its gate has not been asked")
    }

    /// Records a look that began at this moment. `seen` is `None` if the pod has gone. Returns the
    /// result if the drain is over.
    fn note(&mut self, seen: Option<&(PodFacts, Answer)>, began: Instant) -> Option<PodOutcome> {
        let is_first = self.progress.is_none();
        if let Some(why) = without_proxy(&self.pod).filter(|_| is_first) {
            return Some(PodOutcome::failed(&self.pod, why));
        }
        let cut = self.cut.note(seen.map_or(&[], std::slice::from_ref), began).pop();
        match seen {
            Some((pod, Answer::Detail(detail))) => {
                let status = &detail.status;
                self.is_drain_seen |= status.state != "serving";
                self.progress = Some(text::held(&status.state, status.holding));
                is_open(&status.state).then(|| Self::over(pod, status))
            }
            Some((pod, Answer::Silent(why))) if pod.proxy_runs => {
                self.progress = Some(format!("its gate cannot be asked: {why}"));
                None
            }
            _ if is_first => {
                Some(PodOutcome::failed(&self.pod, "it has gone before its gate was asked"))
            }
            _ => Some(self.ended(cut)),
        }
    }

    fn over(pod: &PodFacts, status: &Status) -> PodOutcome {
        let outcome = Outcome {
            state: status.state.clone(),
            reason: status.reason.clone(),
            holding: status.held_streams(),
        };
        PodOutcome::answered(pod, outcome, status.gave_up())
    }

    /// The result for a pod whose proxy has ended since the last look.
    fn ended(&self, cut: Option<Cut>) -> PodOutcome {
        match cut.map(|cut| cut.streams) {
            None if !self.is_drain_seen => {
                PodOutcome::failed(&self.pod, "its proxy has ended before a drain was seen")
            }
            None => {
                let reason = "its proxy has ended, and no stream held the drain".to_owned();
                let outcome = Outcome { state: "ended".to_owned(), reason, holding: None };
                PodOutcome::answered(&self.pod, outcome, false)
            }
            Some(Some(streams)) => {
                let streams = many(streams, "stream");
                let error = format!("its proxy has ended with {streams} in flight");
                PodOutcome::failed(&self.pod, error)
            }
            Some(None) => {
                PodOutcome::failed(&self.pod, "its proxy has ended; its last streams are not known")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollouts::old_pods::tests::{answer, pod};

    /// The line of the result after these looks; the pod has gone in the last one.
    fn line(looks: &[Answer]) -> (String, bool) {
        let mut wait = PodWait::new(pod(true));
        let began = Instant::now();
        let mut notes = looks.iter().map(Some).chain([None]);
        let outcome = notes.find_map(|look| {
            let seen = look.map(|answer| (pod(true), answer.clone()));
            wait.note(seen.as_ref(), began)
        });
        let outcome = outcome.unwrap();
        (outcome.line().0, outcome.is_negative)
    }

    #[test]
    fn only_a_drain_that_ends_without_a_cut_is_no_negative_result() {
        for (looks, text, is_negative) in [
            (vec![answer("draining", 2, 1), answer("drained", 0, 9)], "drained: r", false),
            (vec![answer("drained", 0, 9)], "drained: r", false),
            (
                vec![answer("expired", 1, 9)],
                "expired: r; 1 stream is in flight, and is cut when Envoy stops",
                true,
            ),
            (vec![answer("forced", 0, 9)], "forced: r", true),
            (
                vec![answer("draining", 0, 1)],
                "ended: its proxy has ended, and no stream held the drain",
                false,
            ),
            (vec![answer("draining", 2, 1)], "its proxy has ended with 2 streams in flight", true),
            (vec![answer("serving", 0, 1)], "its proxy has ended before a drain was seen", true),
            (
                vec![Answer::Silent("refused".into())],
                "its proxy has ended; its last streams are not known",
                true,
            ),
        ] {
            assert_eq!(line(&looks), (format!("pod/a: {text}"), is_negative), "{looks:?}");
        }
    }

    #[test]
    fn a_pod_without_a_proxy_that_runs_is_named_at_the_first_look() {
        // A survey leaves such pods out.
        let note = |pod: PodFacts| {
            let outcome = PodWait::new(pod).note(None, Instant::now()).unwrap();
            assert!(outcome.is_negative);
            outcome.line().0
        };
        assert_eq!(note(pod(true)), "pod/a: it has gone before its gate was asked");
        assert_eq!(note(pod(false)), "pod/a: its proxy does not run");
        let other = PodFacts { proxy: None, ..pod(true) };
        assert!(note(other).starts_with("pod/a: it has no proxy: no container"));
    }

    #[test]
    fn a_wait_ends_with_the_last_drain_and_lasts_while_the_api_server_restarts() {
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let other = PodFacts { name: "b".into(), uid: "v".into(), ..pod(true) };
        let mut waits = PodWaits::new(&[pod(true), other.clone()], begin);
        let answers = [(pod(true), answer("drained", 0, 9)), (other, answer("draining", 1, 1))];
        let lines: Vec<_> =
            waits.note(&answers, begin, begin).iter().map(|outcome| outcome.line().0).collect();
        assert_eq!(lines, ["pod/a: drained: r"]);
        assert!(!waits.has(&pod(true)) && !waits.are_over());
        let progress = ["pod/b: draining: 1 stream holds the drain".to_owned()];
        assert_eq!(waits.progress(begin), progress);
        assert_eq!(waits.progress(begin + 29 * second), [""; 0]);
        assert_eq!(waits.progress(begin + 30 * second), progress, "a reminder");
        let away = || FleetError::Unreachable { server: "https://a".into(), why: "r".into() };
        assert!(waits.note_failure(away(), begin + second).unwrap().is_some());
        assert_eq!(waits.note_failure(away(), begin + 2 * second), Ok(None), "told once");
        assert_eq!(waits.note_failure(away(), begin + 30 * second), Err(away()));
        let late = waits.late(TimeSpan::seconds(5));
        let expected = "pod/b: its drain is not over after 5s: draining: 1 stream holds the drain";
        assert_eq!((late[0].line().0.as_str(), late[0].is_negative), (expected, true));
        assert!(waits.note(&[], begin, begin)[0].is_negative && waits.are_over());
    }
}
