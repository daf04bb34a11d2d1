//! Asks the old pods of a rollout.

use std::time::Instant;

use k8s_openapi::jiff::Timestamp;

use crate::answers::answer::Answer;
use crate::answers::survey::AskOptions;
use crate::api::client::Cluster;
use crate::api::error::FleetError;
use crate::pods::facts::PodFacts;
use crate::rollouts::follower::OldPods;

impl Cluster {
    /// Asks the gates of those pods that were deleted. One without a proxy by name has no answer.
    ///
    /// # Errors
    /// A right for all pods is missing.
    pub async fn ask_old_pods(
        &self,
        mut pods: Vec<PodFacts>,
        options: AskOptions,
    ) -> Result<OldPods, FleetError> {
        pods.retain(|pod| pod.terminating);
        let (proxies, others): (Vec<_>, Vec<_>) =
            pods.into_iter().partition(|pod| pod.proxy.is_some());
        let start = Instant::now();
        let mut pods: Vec<_> = others.into_iter().map(|pod| (pod, Answer::Unasked)).collect();
        pods.extend(self.ask_gates(proxies, options).await?);
        Ok(OldPods { pods, asked: start, answered: Instant::now(), time: Timestamp::now() })
    }
}
