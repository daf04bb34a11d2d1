//! The time limit for a pod's answer, so that a silent pod does not delay the others.

use std::future::Future;
use std::time::Duration;

use crate::api::error::FleetError;

const LIMIT: Duration = Duration::from_secs(5);

/// Waits for the answer of this port of a pod.
pub(crate) async fn answer_of<T>(
    port: u16,
    answer: impl Future<Output = Result<T, FleetError>>,
) -> Result<T, FleetError> {
    in_time(answer).await.unwrap_or_else(|| Err(silence(port)))
}

pub(crate) async fn in_time<T>(answer: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(LIMIT, answer).await.ok()
}

pub(crate) fn silence(port: u16) -> FleetError {
    FleetError::Silent { port, seconds: LIMIT.as_secs() }
}
