//! The drains of pods: sends a command to each pod's gate, and follows each drain to its end.

use std::time::Instant;

use futures_util::{StreamExt as _, stream};
use serde::Serialize;

use super::client::Cluster;
use super::cut_pods::{Cut, CutPods};
use super::error::FleetError;
use super::pod_report::Answer;
use super::pods::PodFacts;
use laststream_gate::text::{self, many};
use laststream_gate::{DrainCommand, Outcome, Status, is_open};

#[derive(Debug, Clone, Serialize)]
pub struct PodOutcome {
    pub namespace: String,
    pub pod: String,
    /// The answer of its gate, or why there is none.
    #[serde(flatten)]
    pub result: PodResult,
    /// Whether the answer is not what the command is for.
    #[serde(skip)]
    pub is_negative: bool,
}

#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum PodResult {
    Answered(Outcome),
    /// The gate has not answered, or its drain has not ended well.
    Failed {
        /// The cause.
        error: String,
    },
}

impl PodOutcome {
    fn answered(pod: &PodFacts, outcome: Outcome, is_negative: bool) -> Self {
        Self::of(pod, PodResult::Answered(outcome), is_negative)
    }

    /// The result for a pod whose gate has not answered.
    pub fn failed(pod: &PodFacts, error: impl Into<String>) -> Self {
        Self::of(pod, PodResult::Failed { error: error.into() }, true)
    }

    /// The result for a name that no pod has.
    pub fn missing(namespace: &str, name: &str) -> Self {
        let (namespace, pod) = (namespace.to_owned(), name.to_owned());
        let error = format!("it does not exist in namespace `{namespace}`");
        Self { namespace, pod, result: PodResult::Failed { error }, is_negative: true }
    }

    fn of(pod: &PodFacts, result: PodResult, is_negative: bool) -> Self {
        let (namespace, pod) = (pod.namespace.clone(), pod.name.clone());
        Self { namespace, pod, result, is_negative }
    }

    pub fn line(&self) -> (String, bool) {
        let (text, is_error) = match &self.result {
            PodResult::Answered(outcome) => (text::outcome(outcome), false),
            PodResult::Failed { error } => (error.clone(), true),
        };
        (format!("pod/{}: {text}", self.pod), is_error)
    }
}

/// Why a pod has no gate that could be asked. `None` if its proxy runs.
fn without_proxy(pod: &PodFacts) -> Option<&'static str> {
    match (&pod.proxy, pod.proxy_runs) {
        (None, _) => Some("it has no proxy: no container of it is `istio-proxy` or `envoy`"),
        (Some(_), false) => Some("its proxy does not run"),
        (Some(_), true) => None,
    }
}

impl Cluster {
    /// Sends a command to the gates of these pods, in this order. A pod that was replaced since it
    /// was listed is left out, because its successor may have its name. The second value is the
    /// first failure that concerns all pods, such as a missing right.
    pub async fn command_all(
        &self,
        pods: &[PodFacts],
        command: &DrainCommand,
        at_a_time: usize,
    ) -> (Vec<PodOutcome>, Option<FleetError>) {
        let mut answers = stream::iter(pods)
            .map(async |pod| match without_proxy(pod) {
                Some(why) => (pod, Err(FleetError::Other(why.to_owned()))),
                None => (pod, self.command_if_there(pod, command).await),
            })
            .buffered(at_a_time.max(1));
        let (mut outcomes, mut failure) = (Vec::new(), None);
        while let Some((pod, answer)) = answers.next().await {
            outcomes.push(match answer {
                Ok(outcome) => {
                    let is_negative = command.is_without_effect(&outcome);
                    PodOutcome::answered(pod, outcome, is_negative)
                }
                Err(error) => {
                    let outcome = PodOutcome::failed(pod, error.short());
                    if error.concerns_all() {
                        failure.get_or_insert(error);
                    }
                    outcome
                }
            });
        }
        (outcomes, failure)
    }

    async fn command_if_there(
        &self,
        pod: &PodFacts,
        command: &DrainCommand,
    ) -> Result<Outcome, FleetError> {
        if self.is_there(pod).await? {
            return self.command(pod, command).await;
        }
        Err(FleetError::Other("it has gone since it was listed".to_owned()))
    }
}

#[derive(Debug)]
pub struct PodWait {
    pub pod: PodFacts,
    cut: CutPods,
    /// Whether its gate has answered that a drain runs.
    is_drain_seen: bool,
    /// The last answer, or why there was none. `None` before the first look.
    progress: Option<String>,
}

impl PodWait {
    /// Begins with the pod before its gate has been asked.
    pub fn new(pod: PodFacts) -> Self {
        Self { pod, cut: CutPods::default(), is_drain_seen: false, progress: None }
    }

    /// The gate's state and the streams that hold it, or why that is not known.
    pub fn progress(&self) -> &str {
        self.progress.as_deref().unwrap_or("its gate has not been asked")
    }

    /// Records a look that began at this moment. `seen` is `None` if the pod has gone. Returns the
    /// result if the drain is over.
    pub fn note(
        &mut self,
        seen: Option<&(PodFacts, Answer)>,
        began: Instant,
    ) -> Option<PodOutcome> {
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
    use crate::old_pods::tests::{answer, pod};

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
}
