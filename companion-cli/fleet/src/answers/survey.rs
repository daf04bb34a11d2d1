//! Asks many pods, a bounded number at a time. A pod that fails does not hide the others.

use std::collections::BTreeMap;

use futures_util::StreamExt as _;
use futures_util::stream;

use crate::answers::answer::Answer;
use crate::answers::stats::Stats;
use crate::api::client::Cluster;
use crate::api::error::FleetError;
use crate::pods::facts::PodFacts;

/// The number of namespaces for which the API server is asked whether an error is its own. If a
/// right is missing, the first answer shows that.
const MOST_CONFIRMED: usize = 16;

/// A refusal that a pod could have sent, and the pod that was asked.
type Unconfirmed = (PodFacts, FleetError);

/// An answer, and why the gate could not be asked for it.
type Answered = (Answer, Option<FleetError>);

/// The options of a survey.
#[derive(Debug, Clone, Copy)]
pub struct AskOptions {
    /// The number of pods that are asked at a time.
    pub at_a_time: usize,
    pub query: GateQuery,
    /// The most streams that one gate lists.
    pub streams: u32,
}

/// What is asked of a pod: its statistics, which cost the API server little, or its gate, through a
/// port-forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateQuery {
    /// The statistics, and the gate if they do not say this.
    IfUnknown(Need),
    /// The gate, and the statistics of a pod without one.
    First,
    /// The gate alone, because a pod that ends has closed the port for statistics.
    Alone,
}

/// What a command needs to know of a pod. Each one needs what those before it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// The state of the gate. Of a drain only the gate knows it.
    State,
    /// The number of all streams. The gate may know it by Envoy's own count.
    Count,
}

impl Need {
    fn is_met_by(self, stats: &Stats) -> bool {
        stats.state.is_none_or(|state| {
            let has_all = self < Self::Count || stats.inexact().is_none();
            // A gate has no word for its count before its first evaluation.
            state == "serving" && stats.count.is_some() && has_all
        })
    }
}

/// The pods with a proxy, each with its answer.
#[derive(Debug, Default)]
pub struct Survey {
    /// The pods and their answers, in the order of namespaces and names.
    pub pods: Vec<(PodFacts, Answer)>,
    /// Pods without a proxy.
    pub without_proxy: usize,
    /// The names that no pod has.
    pub missing: Vec<String>,
    /// A failure that concerns all pods, such as a missing right; it is reported once.
    pub failure: Option<FleetError>,
}

impl Survey {
    /// The number of pods that could not be asked.
    #[must_use]
    pub fn silent(&self) -> usize {
        self.pods.iter().filter(|(_, answer)| matches!(answer, Answer::Silent(_))).count()
    }

    /// The number of gates that had to be asked themselves and could not be, although their
    /// statistics are known.
    #[must_use]
    pub fn silent_gates(&self) -> usize {
        let is_silent = |answer: &Answer| match answer {
            Answer::Stats(stats) => stats.why_unasked().is_some(),
            _ => false,
        };
        self.pods.iter().filter(|(_, answer)| is_silent(answer)).count()
    }
}

impl Cluster {
    /// Asks the gates of these pods alone.
    ///
    /// # Errors
    /// A right for all pods is missing.
    pub async fn ask_gates(
        &self,
        pods: Vec<PodFacts>,
        options: AskOptions,
    ) -> Result<Vec<(PodFacts, Answer)>, FleetError> {
        let query = GateQuery::Alone;
        let survey = self.survey(pods, AskOptions { query, ..options }).await;
        survey.failure.map_or(Ok(survey.pods), Err)
    }

    /// Asks these pods.
    pub async fn survey(&self, pods: Vec<PodFacts>, options: AskOptions) -> Survey {
        let count = pods.len();
        let proxies: Vec<PodFacts> = pods.into_iter().filter(|pod| pod.proxy.is_some()).collect();
        let without_proxy = count - proxies.len();
        let mut answers = stream::iter(proxies)
            .map(|pod| async move {
                let answer = self.answer(&pod, options).await;
                (pod, answer)
            })
            .buffer_unordered(options.at_a_time.max(1));
        let mut survey = Survey { without_proxy, ..Survey::default() };
        let mut unconfirmed = BTreeMap::new();
        while let Some((pod, answer)) = answers.next().await {
            let (answer, error) = match answer {
                Ok(Some(answered)) => answered,
                Ok(None) => continue, // the pod has gone meanwhile
                Err(error) => (Answer::Silent(error.short()), Some(error)),
            };
            match error {
                Some(error) if may_come_from_a_pod(&error) => {
                    unconfirmed.entry(pod.namespace.clone()).or_insert((pod.clone(), error));
                }
                Some(error) if error.concerns_all() => drop(survey.failure.get_or_insert(error)),
                _ => {}
            }
            survey.pods.push((pod, answer));
        }
        drop(answers);
        self.confirm(&mut survey, unconfirmed).await;
        survey.pods.sort_by_cached_key(|(pod, _)| (pod.namespace.clone(), pod.name.clone()));
        survey
    }

    /// Records a refusal of a namespace's statistics as a failure if it is the API server's own.
    async fn confirm(&self, survey: &mut Survey, unconfirmed: BTreeMap<String, Unconfirmed>) {
        let mut answers = survey.pods.iter().map(|(_, answer)| answer);
        let is_alone = !answers.any(|answer| matches!(answer, Answer::Stats(_)));
        for (pod, error) in unconfirmed.into_values().take(MOST_CONFIRMED) {
            if survey.failure.is_none() && self.refuses(&pod, &error, is_alone).await {
                survey.failure = Some(error);
            }
        }
    }

    async fn answer(
        &self,
        pod: &PodFacts,
        options: AskOptions,
    ) -> Result<Option<Answered>, FleetError> {
        if !pod.proxy_runs {
            return Ok(Some((Answer::Unasked, None)));
        }
        let (is_alone, mut gate_error) = (options.query == GateQuery::Alone, None);
        // Istio's agent ends its server at SIGTERM; the gate answers until Envoy ends.
        if is_alone || options.query == GateQuery::First || pod.terminating {
            match self.detail(pod, options.streams).await {
                Ok(detail) => return Ok(Some((Answer::Detail(Box::new(detail)), None))),
                Err(FleetError::NotFound(_)) if is_alone => return Ok(None),
                Err(error) if is_alone => return Err(error),
                Err(error) => gate_error = Some(error), // there may be no gate
            }
        }
        let mut stats = match self.stats(pod).await {
            Ok(stats) => stats,
            Err(FleetError::NotFound(_)) if self.has_gone(pod).await => {
                return Ok(None);
            }
            Err(error) => return Err(gate_error.filter(FleetError::concerns_all).unwrap_or(error)),
        };
        if let GateQuery::IfUnknown(need) = options.query
            && gate_error.is_none()
            && !need.is_met_by(&stats)
        {
            match self.detail(pod, options.streams).await {
                Ok(detail) => return Ok(Some((Answer::Detail(Box::new(detail)), None))),
                Err(error) => gate_error = Some(error), // the statistics are the answer
            }
        }
        stats.gate_error = gate_error.as_ref().map(FleetError::short);
        Ok(Some((Answer::Stats(stats), gate_error)))
    }
}

/// Whether a pod could have sent the error.
fn may_come_from_a_pod(error: &FleetError) -> bool {
    match error {
        FleetError::Forbidden { call, .. } => call.is_on("pods/proxy"),
        error => error.concerns_all(),
    }
}
