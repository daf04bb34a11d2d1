//! The call that notifies the app of the drain, so that the app ends its own streams.

use super::bench::{Bench, SOON, same};
use crate::lab::{Lab, cases};
use kit::prelude::*;

cases! {
    a_notified_app_ends_its_own_streams,
}

async fn a_notified_app_ends_its_own_streams(lab: &Lab) -> Outcome {
    let gate = r#"{"quiet_ms": 300, "deadline_ms": 90000,
        "notify": {"cluster": "app", "path": "/told"}}"#;
    let bench = Bench::set(lab, gate).await?;
    let mut streams = Vec::new();
    for _ in 0..20 {
        let request = Request::get("/stream/60000/events");
        streams.push(Client::with_open_response(bench.main, &request).await?);
    }
    let status = bench.until("holding", 20).await?;
    ensure!(status["notify"].is_null(), "nothing is told while serving: {status}");
    let told = || bench.upstream.received().iter().filter(|call| call.path == "/told").count();
    ensure_eq!(told(), 0, "calls before the drain");
    bench.post("/drain").await?.expect(202)?;
    wait_for(SOON, "the call to the app", async || told().checked_sub(1).context("none")).await?;
    bench.upstream.release("events");
    for (client, framing) in &mut streams {
        while client.piece(framing).await?.is_some() {}
    }
    same(&bench.until("state", "drained").await?, "notify", "done")?;
    ensure_eq!(told(), 1, "calls of two workers");
    ensure!(bench.envoy.log_contains("the app was told that the drain has begun"), "the log");
    Ok(())
}
