//! What must hold of a gate while requests are in flight, whoever counts them: Envoy's own count is the witness.

use crate::cases::stage::ACTIVE;
use crate::support::failure::{Outcome, ensure, ensure_eq};
use crate::support::trial::wait_for;

use super::bench::{Bench, SOON, same};

/// As long as Envoy itself has requests in flight, the gate is closed; then it opens. Nobody sends requests any more: whoever is drained
/// was so before the witness is asked.
pub(super) async fn opens_only_at_zero(bench: &Bench) -> Outcome {
    wait_for(SOON, "the drain to end", async || {
        let status = bench.status().await?;
        let active = bench.envoy.stat(ACTIVE).await?;
        ensure!(status["state"] != "drained" || active == Some(0), "drained with {active:?} in flight: {status}");
        ensure_eq!(status["state"], "drained", "{status}");
        Ok(())
    })
    .await
}

/// A tenth of a second for each look.
pub(super) async fn stays_closed(bench: &Bench, looks: usize) -> Outcome {
    for _ in 0..looks {
        let status = bench.status().await?;
        same(&status, "state", "draining")?;
        ensure!(status["count"] != "exact" || status["holding"] != 0, "an exact zero: {status}");
        bench.get("/prestop?wait=100ms").await?.expect(503)?;
    }
    Ok(())
}
