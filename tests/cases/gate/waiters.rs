//! Many requests to the gate at once: each gets one answer.

use tokio::task::JoinSet;

use super::bench::{Bench, SOON, WAITING, same};
use crate::lab::{Lab, cases};
use kit::h2;
use kit::prelude::*;
use kit::wait::join_all;

cases! {
    ten_thousand_requests_are_answered,
}
/// While another client uses the data path.
async fn ten_thousand_requests_are_answered(lab: &Lab) -> Outcome {
    let bench = Bench::set(lab, "{}").await?;
    bench.until("count", "exact").await?;
    let mut askers = JoinSet::new();
    for _ in 0..100 {
        let gate = bench.gate;
        askers.spawn(async move {
            let mut client = h2::Client::connect(gate).await?;
            let mut asked = Vec::new();
            for _ in 0..100 {
                asked.push(client.open(h2::get("/status"), true).await?);
            }
            for stream in asked {
                same(&stream.response().await?.expect(200)?.json()?, "state", "serving")?;
            }
            Outcome::Ok(())
        });
    }
    let mut client = Client::connect(bench.main).await?;
    let all_are_answered = tokio::spawn(join_all(askers));
    while !all_are_answered.is_finished() {
        client.get("/echo").await?.expect(200)?;
    }
    all_are_answered.await??;
    bench.envoy.wait_for_stat(WAITING, 0, SOON).await?;
    bench.until("count", "exact").await.map(drop)
}
