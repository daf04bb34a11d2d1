//! gRPC: Envoy answers a gRPC request with HTTP 200 and a status of gRPC's own, even if a filter
//! answers with another status. That is right for the data path, and wrong for clients of the gate.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::bench::{Bench, SOON, WAITING, same};
use crate::cases::stage::{IN_FLIGHT, hcm};
use crate::lab::{Lab, cases};
use kit::h2;
use kit::prelude::*;
use kit::server::Server;
use kit::wait::join_all;

cases! {
    no_answer_of_the_gate_is_turned_into_200,
    a_closing_gate_is_unavailable_to_grpc,
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
    if let Ok(answer) = once(gate, &Request::new(method, path).header("content-type", kind)).await {
        ensure!(
            answer.status != 200,
            "{method} {path} as {kind}, over HTTP/1: {:?}",
            answer.headers
        );
    }
    let mut request = h2::request(method, "http", path);
    request.headers_mut().insert("content-type", kind.parse()?);
    if let Ok(answer) = h2::Client::connect(gate).await?.request(request, Bytes::new()).await {
        ensure!(
            answer.status != 200,
            "{method} {path} as {kind}, over HTTP/2: {:?}",
            answer.headers
        );
    }
    Ok(())
}

/// A stand-in for Envoy's admin interface: it reports that nothing is in flight, and never answers
/// a quit signal, so that the latch stays closed.
async fn admin() -> Outcome<(Server, Arc<Notify>)> {
    let quits = Arc::new(Notify::new());
    let notify = Arc::clone(&quits);
    let server = Server::answering(move |head| {
        let notify = Arc::clone(&notify);
        async move {
            if head.start.contains("/quitquitquit") {
                notify.notify_one();
                std::future::pending::<()>().await;
            }
            let body = "http.main.downstream_rq_active: 0\nhttp.main.downstream_rq_total: 0\n\
                        server.concurrency: 2\n";
            Ok((200, body.into()))
        }
    });
    Ok((server.await?, quits))
}

/// A stream that begins while a signal passes gets 503, which is UNAVAILABLE in gRPC.
async fn a_closing_gate_is_unavailable_to_grpc(lab: &Lab) -> Outcome {
    let main = hcm(lab, "{}");
    let (silent, quits) = admin().await?;
    let bootstrap = Bootstrap::new().cluster(cluster::h1("silent", silent.address));
    let bench = Bench::upon(
        bootstrap,
        lab,
        r#"{"admin": {"cluster": "silent", "timeout_ms": 20000}}"#,
        main,
    )
    .await?;
    bench.until("count", "exact").await?;
    let gate = bench.gate;
    let signal = tokio::spawn(async move {
        Client::connect(gate)
            .await?
            .patience(SOON * 2)
            .request(&Request::post("/quitquitquit", ""))
            .await
    });
    timeout(SOON, quits.notified()).await.context("the signal at the admin interface")?;
    once(bench.main, &Request::get("/echo")).await?.expect(503)?;
    let mut client = h2::Client::connect(bench.main).await?;
    let answer = client.request(h2::grpc("/grpc"), Bytes::new()).await?.expect(200)?;
    ensure_eq!(
        answer.headers.get("grpc-status"),
        Some("14".into()),
        "UNAVAILABLE, which clients may try again"
    );
    ensure!(!signal.is_finished(), "the latch is closed");
    bench.envoy.wait_for_stat(IN_FLIGHT, 0, SOON).await?;
    signal.abort();
    Ok(())
}
