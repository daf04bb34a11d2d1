//! A sidecar: inbound and outbound streams are counted and drained apart, and the gate waits for
//! the configured scopes.

use super::bench::{Bench, same};
use crate::cases::stage::{hcm, routes};
use crate::lab::{Lab, cases};
use kit::bootstrap::filters::Wasm;
use kit::prelude::*;

cases! {
    waits_for_one_direction,
}

const INBOUND: &str = r#"{"scope": "inbound"}"#;
const OUTBOUND: &str = r#"{"scope": "outbound"}"#;

struct Sidecar {
    bench: Bench,
    outbound: std::net::SocketAddr,
}

impl Sidecar {
    async fn set(lab: &Lab, gate: &str) -> Outcome<Self> {
        let outbound = routes(
            Hcm::new("outbound").filter(Wasm { name: "outbound", ..lab.stream(OUTBOUND) }.filter()),
        );
        let bootstrap =
            Bootstrap::new().listener(Listener::new("outbound", outbound).direction("OUTBOUND"));
        let bench = Bench::upon(bootstrap, lab, gate, hcm(lab, INBOUND)).await?;
        let outbound = bench.envoy.address("outbound").await?;
        Ok(Self { bench, outbound })
    }

    async fn held_outbound(&self, key: &str) -> Outcome<Client> {
        self.bench.held_at(self.outbound, key).await
    }
}

/// Whether an answer asks the client to leave.
async fn closes(at: std::net::SocketAddr) -> Outcome<bool> {
    Ok(once(at, &Request::get("/echo")).await?.expect(200)?.header("connection").is_some())
}

async fn waits_for_one_direction(lab: &Lab) -> Outcome {
    let sidecar = Sidecar::set(
        lab,
        r#"{"quiet_ms": 300, "scopes": ["inbound"], "begin": {"inbound_only": true}}"#,
    )
    .await?;
    let bench = &sidecar.bench;
    let mut incoming = bench.held("in").await?;
    let mut outgoing = sidecar.held_outbound("out").await?;
    let before = bench.until("holding", 1).await?;
    same(&before["scopes"][0], "scope", "inbound")?;
    bench.post("/drain").await?.expect(202)?;
    bench.until("begin", "done").await?;
    ensure!(closes(bench.main).await?, "inbound clients are told to leave");
    ensure!(!closes(sidecar.outbound).await?, "the app's own calls are not");
    bench.get("/ready").await?.expect(503)?;
    bench.release("in", &mut incoming).await?;
    bench.until("state", "drained").await?;
    ensure_eq!(
        bench.envoy.stat("wasmcustom.laststream_streams_in_flight_outbound").await?,
        Some(1),
        "outbound"
    );
    bench.release("out", &mut outgoing).await?;
    Ok(())
}
