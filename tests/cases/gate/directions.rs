//! A sidecar: inbound and outbound streams are counted and drained apart, and the gate waits for
//! the configured scopes.

use super::bench::{Bench, same};
use super::states::connection_header;
use crate::cases::stage::{hcm, routes};
use crate::lab::{Lab, cases};
use kit::bootstrap::filters::Wasm;
use kit::prelude::*;

cases! {
    waits_for_one_direction,
}

const INBOUND: &str = r#"{"scope": "inbound"}"#;
const OUTBOUND: &str = r#"{"scope": "outbound"}"#;

async fn waits_for_one_direction(lab: &Lab) -> Outcome {
    let gate = r#"{"quiet_ms": 300, "scopes": ["inbound"], "begin": {"inbound_only": true}}"#;
    let outbound = Wasm { name: "outbound", ..lab.stream(OUTBOUND) }.filter();
    let outbound = Listener::new("outbound", routes(Hcm::new("outbound").filter(outbound)));
    let bootstrap = Bootstrap::new().listener(outbound.direction("OUTBOUND"));
    let bench = Bench::upon(bootstrap, lab, gate, hcm(lab, INBOUND)).await?;
    let mut incoming = bench.held("in").await?;
    let mut outgoing = bench.held_at("outbound", "out").await?;
    let before = bench.until("holding", 1).await?;
    same(&before["scopes"][0], "scope", "inbound")?;
    bench.post("/drain").await?.expect(202)?;
    bench.until("begin", "done").await?;
    let inbound = connection_header(bench.main).await?;
    ensure!(inbound.is_some(), "inbound clients are told to leave");
    let outbound = connection_header(bench.envoy.address("outbound").await?).await?;
    ensure!(outbound.is_none(), "the app's own calls are not");
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
