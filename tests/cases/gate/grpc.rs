//! gRPC: Envoy answers a gRPC request with HTTP 200 and a status of gRPC's own, even if a filter
//! answers with another status. That is right for the data path, and wrong for clients of the gate.

use bytes::Bytes;
use tokio::task::JoinSet;

use super::bench::{Bench, SOON, WAITING, same};
use crate::lab::{Lab, cases};
use kit::h2;
use kit::prelude::*;
use kit::wait::join_all;

cases! {
    no_answer_of_the_gate_is_turned_into_200,
}

const PATHS: [(&str, &str); 6] = [
    ("GET", "/ready"),
    ("HEAD", "/ready"),
    ("GET", "/prestop"),
    ("GET", "/prestop?wait=1s"),
    ("GET", "/status"),
    ("POST", "/quitquitquit"),
];

async fn no_answer_of_the_gate_is_turned_into_200(lab: &Lab) -> Outcome {
    let mut bench = Bench::set(lab, r#"{"quiet_ms": 300, "deadline_ms": 90000}"#).await?;
    let mut client = bench.held("a").await?;
    bench.post("/drain").await?.expect(202)?;
    let mut tries = JoinSet::new();
    for kind in
        ["application/grpc", "application/grpc+proto", "Application/gRPC", "application/grpc-web"]
    {
        for (method, path) in PATHS {
            tries.spawn(is_not_200(bench.gate, method, path, kind));
        }
    }
    join_all(tries).await?;
    same(&bench.status().await?, "state", "draining")?;
    bench.envoy.wait_for_log("a gRPC request was cut", SOON).await?;
    ensure!(
        bench.envoy.log().matches("a gRPC request was cut").count() <= 2,
        "a line for each worker at most"
    );
    bench.envoy.wait_for_stat(WAITING, 0, SOON).await?;
    bench.release("a", &mut client).await?;
    bench.until("state", "drained").await?;
    ensure!(bench.envoy.is_alive(), "Envoy lives");
    Ok(())
}

/// No answer is 200, over HTTP/1 and over HTTP/2.
async fn is_not_200(gate: SocketAddr, method: &str, path: &str, kind: &str) -> Outcome {
    let one = once(gate, &Request::new(method, path).header("content-type", kind)).await;
    let mut request = h2::request(method, "http", path);
    request.headers_mut().insert("content-type", kind.parse()?);
    let two = h2::Client::connect(gate).await?.request(request, Bytes::new()).await;
    for (version, answer) in [(1, one), (2, two)] {
        let headers = answer.ok().filter(|answer| answer.status == 200).map(|all| all.headers);
        ensure!(headers.is_none(), "{method} {path} as {kind}, over HTTP/{version}: {headers:?}");
    }
    Ok(())
}
