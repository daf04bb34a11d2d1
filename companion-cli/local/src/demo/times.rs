//! The times of a demo: as in Istio and Kubernetes, or all of them shorter by the same factor.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// The times of one demo. In JSON they are seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Times {
    #[serde(serialize_with = "seconds")]
    pub request: Duration,
    #[serde(serialize_with = "seconds")]
    pub websocket: Duration,
    /// The time from the beginning of both streams to the deletion of the pod.
    #[serde(serialize_with = "seconds")]
    pub delete_after: Duration,
    /// The pod's grace period: `terminationGracePeriodSeconds`.
    #[serde(serialize_with = "seconds")]
    pub grace_period: Duration,
    /// The time that kubelet leaves at least between SIGTERM and SIGKILL.
    #[serde(serialize_with = "seconds")]
    pub kubelet: Duration,
    /// Istio's default of `terminationDrainDuration` and of `MINIMUM_DRAIN_DURATION`.
    #[serde(serialize_with = "seconds")]
    pub agent: Duration,
    /// A `terminationDrainDuration` that is long enough for both streams.
    #[serde(serialize_with = "seconds")]
    pub long_drain: Duration,
    /// The time that the hook sleeps, in the lane that has one.
    #[serde(serialize_with = "seconds")]
    pub sleep: Duration,
    /// The time between two polls of hooks and agents.
    #[serde(serialize_with = "seconds")]
    pub poll: Duration,
    #[serde(serialize_with = "seconds")]
    pub quiet: Duration,
    #[serde(serialize_with = "seconds")]
    pub deadline: Duration,
}

impl Times {
    /// A request of 10 s, a WebSocket of 13 s, and the times that `laststream render` would give
    /// their pod: a deadline of 15 s, and 3 s more for Istio's agent. Kubernetes' own grace period
    /// of 30 s would only make the demo longer.
    pub fn usual() -> Self {
        Self::scaled(1000)
    }

    /// A request of 2.5 s, and all other times shortened by the same factor.
    pub fn quick() -> Self {
        Self::scaled(250)
    }

    fn scaled(millis: u64) -> Self {
        let seconds = |count: u64| Duration::from_millis(count * millis);
        Self {
            request: seconds(10),
            websocket: seconds(13),
            delete_after: seconds(1),
            grace_period: seconds(20),
            kubelet: seconds(2),
            agent: seconds(5),
            long_drain: seconds(18),
            sleep: seconds(6),
            poll: seconds(1),
            quiet: seconds(1),
            deadline: seconds(15),
        }
    }

    /// Whether Istio and Kubernetes would take longer for everything.
    pub fn is_shortened(&self) -> bool {
        *self != Self::usual()
    }

    /// The time from the beginning of the streams to the end of the grace period.
    pub fn grace_ends(&self) -> Duration {
        self.delete_after + self.grace_period
    }

    /// The time limit of the lanes, even on a slow machine.
    pub(super) fn patience(&self) -> Duration {
        self.grace_ends() + self.request * 2 + Duration::from_secs(60)
    }
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}
