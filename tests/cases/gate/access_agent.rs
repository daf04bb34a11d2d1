//! Requests that have nothing to do with the app never hold a drain: the probes of Istio's agent on
//! 15021.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::bench::{Bench, SOON, same};
use crate::cases::stage::routes;
use crate::lab::{Lab, cases};
use kit::prelude::*;

cases! {
    probes_of_the_agent_hold_no_drain,
}

/// No filter counts here, so the gate goes by Envoy's own count; the probes come more often than
/// the quiet period is long.
async fn probes_of_the_agent_hold_no_drain(lab: &Lab) -> Outcome {
    let agent =
        Listener::new("agent", Hcm::new("agent").route(Route::prefix("/").direct(200, "ready")));
    let gate = r#"{"quiet_ms": 1000, "deadline_ms": 60000}"#;
    let bench =
        Bench::upon(Bootstrap::new().listener(agent), lab, gate, routes(Hcm::new("main"))).await?;
    let probes = tokio::spawn(probe(bench.envoy.address("agent").await?));
    bench.post("/drain").await?.expect(202)?;
    let began = Instant::now();
    let status = bench.until("state", "drained").await;
    ensure!(!probes.is_finished(), "the probes have ended: {:?}", probes.await);
    probes.abort();
    same(&status?, "count", "unknown")?;
    ensure!(began.elapsed() < SOON, "the drain took {:?}", began.elapsed());
    Ok(())
}

async fn probe(at: SocketAddr) -> Outcome {
    loop {
        once(at, &Request::get("/healthz/ready")).await?.expect(200)?;
        sleep(Duration::from_millis(100)).await;
    }
}
