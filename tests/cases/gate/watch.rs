//! Checks of a gate while requests are in flight, compared with Envoy's own count.

use tokio::time::sleep;

use crate::cases::stage::ACTIVE;

use super::bench::{Bench, SOON, same};
use kit::prelude::*;

/// The gate is closed as long as Envoy itself has requests in flight; then it opens. No client
/// sends new requests, so a gate that says `drained` was empty before Envoy's count is read.
pub(super) async fn opens_only_at_zero(bench: &Bench) -> Outcome {
    wait_for(SOON, "the drain to end", async || {
        let status = bench.status().await?;
        let active = bench.envoy.stat(ACTIVE).await?;
        ensure!(
            status["state"] != "drained" || active == Some(0),
            "drained with {active:?} in flight: {status}"
        );
        ensure_eq!(status["state"], "drained", "{status}");
        Ok(())
    })
    .await
}

/// The gate stays closed at each look. A look takes a tenth of a second.
pub(super) async fn stays_closed(bench: &Bench, looks: usize) -> Outcome {
    for _ in 0..looks {
        let status = bench.status().await?;
        same(&status, "state", "draining")?;
        ensure!(status["count"] != "exact" || status["holding"] != 0, "an exact zero: {status}");
        bench.get("/prestop?wait=100ms").await?.expect(503)?;
    }
    Ok(())
}

/// Requests that end Envoy, or let its pod end.
const WAYS_OUT: [(&str, &str); 3] =
    [("POST", "/quitquitquit"), ("GET", "/prestop"), ("GET", "/ready")];

/// A quit signal before and in the drain, the stop hook and the readiness are refused. A look takes
/// a tenth of a second and more.
pub(super) async fn lets_nothing_out(bench: &Bench, looks: usize) -> Outcome {
    for look in 0..looks {
        for (method, path) in WAYS_OUT {
            let answer = once(bench.gate, &Request::new(method, path)).await;
            answer.and_then(|answer| answer.expect(503)).with_context(|| {
                format!("{method} {path} at look {look}, with a request in flight")
            })?;
        }
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// The gate opens: not at the deadline and not by force.
pub(super) async fn opens(bench: &Bench) -> Outcome {
    let answer =
        wait_for(SOON, "the stop hook's 200", async || bench.get("/prestop").await?.expect(200))
            .await?;
    same(&answer.json()?, "state", "drained")?;
    wait_for(SOON, "readiness", async || bench.get("/ready").await?.expect(200)).await?;
    Ok(())
}

/// A request that is held under this key keeps the gate closed until its client has the answer.
pub(super) async fn holds_until_answered(bench: &Bench, key: &str, mut client: Client) -> Outcome {
    lets_nothing_out(bench, 12).await?;
    bench.release(key, &mut client).await?;
    opens(bench).await
}
