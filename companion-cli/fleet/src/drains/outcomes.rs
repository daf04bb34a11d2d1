//! The drains of pods: sends a command to each pod's gate, and what became of it.

use futures_util::{StreamExt as _, stream};
use serde::Serialize;

use crate::api::client::Cluster;
use crate::api::error::FleetError;
use crate::pods::facts::PodFacts;
use laststream_gate::text;
use laststream_gate::{DrainCommand, Outcome};

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
    pub(crate) fn answered(pod: &PodFacts, outcome: Outcome, is_negative: bool) -> Self {
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
pub(crate) fn without_proxy(pod: &PodFacts) -> Option<&'static str> {
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
            .map(async |pod| (pod, self.command_if_there(pod, command).await))
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
        if let Some(why) = without_proxy(pod) {
            return Err(FleetError::NoProxy(why));
        }
        if self.is_there(pod).await? {
            return self.command(pod, command).await;
        }
        Err(FleetError::Deleted)
    }
}
