//! Answers of Envoy itself, and upstreams that fail.

use super::{Targets, Turn};
use crate::h1::{Client, Request, once};
use crate::{Outcome, ensure};

/// The answer has one of these statuses.
pub(crate) async fn answered(targets: &Targets, _: Turn, path: &str, statuses: &[u16]) -> Outcome {
    let answer = once(targets.tcp, &Request::get(path)).await?;
    ensure!(
        statuses.contains(&answer.status),
        "expected one of {statuses:?}, got {}: {}",
        answer.status,
        answer.text()
    );
    Ok(())
}

/// The head says 200, then the connection breaks.
pub(crate) async fn upstream_midbody_reset(targets: &Targets, _: Turn) -> Outcome {
    let request = Request::get("/up/midbody-reset");
    let mut client = Client::with_request(targets.tcp, &request).await?;
    let (response, framing) = client.response_head("GET").await?;
    if response.status == 503 {
        return Ok(()); // the reset overtook the head
    }
    response.expect(200)?;
    client.broken_body(framing).await
}

/// 503 at first, 200 for Envoy's second attempt.
pub(crate) async fn retried(targets: &Targets, turn: Turn) -> Outcome {
    once(targets.tcp, &Request::get(&format!("/retried/{}", turn.id))).await?.expect(200).map(drop)
}
