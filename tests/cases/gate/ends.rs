//! The gate ends streams that do not end by themselves: each client sees an end in its protocol,
//! and the counts stay exact. That the ends are spread over the window is a unit test of the drain.

use std::collections::BTreeSet;

use ::h2::Reason;
use tokio::time::sleep;

use super::bench::{Bench, SOON, same};
use crate::cases::stage::hcm;
use crate::lab::{Lab, cases};
use kit::h2;
use kit::prelude::*;
use kit::websocket::WebSocket;

cases! {
    each_client_sees_its_end,
}

const EVICTIONS: &str = "wasmcustom.laststream_gate_evictions_total";

/// The gate ends no younger streams.
const OLD: Duration = Duration::from_millis(2_200);

async fn evictions(bench: &Bench) -> Outcome<u64> {
    Ok(bench.envoy.stat(EVICTIONS).await?.unwrap_or_default())
}

/// The window is from 4 s to 9 s, the deadline 12 s; POST is never ended.
async fn each_client_sees_its_end(lab: &Lab) -> Outcome {
    const WAITING: usize = 10;
    let gate = r#"{"quiet_ms": 300, "deadline_ms": 12000, "end": {
        "waiting": "end", "websocket": "end", "grpc": "end", "event_stream": "end", "other": "end",
        "over_ms": 5000, "before_deadline_ms": 8000, "retry_after_s": {"from": 5, "to": 500},
        "websocket_grace_ms": 500}}"#;
    let bench = Bench::with(lab, gate, hcm(lab, r#"{"count": {"kinds": true}}"#)).await?;
    bench.until("count", "exact").await?;
    let clients = bench.upstream.hold_many(bench.main, "waiting", WAITING).await?;
    let mut posts = Vec::new();
    for _ in 0..2 {
        posts.push(Client::with_request(bench.main, &Request::post("/hold/posts", "x")).await?);
    }
    bench.upstream.wait_held("posts", 2, SOON).await?;
    let mut socket = WebSocket::open(bench.main, "/ws").await?;
    socket.echo("hello").await?;
    let events = Request::get("/stream/20/events").header("accept", "text/event-stream");
    let (mut events, framing) = Client::with_open_response(bench.main, &events).await?;
    let mut connection = h2::Client::connect(bench.main).await?;
    let call = connection.open(h2::grpc("/hold/grpc"), true).await?;
    bench.upstream.wait_held("grpc", 1, SOON).await?;
    let mut talk = connection.open(h2::grpc("/grpc"), false).await?;
    ensure_eq!(talk.head().await?.status, 200, "a gRPC call whose response has begun");
    sleep(OLD).await;
    bench.post("/drain").await?.expect(202)?;
    ensure_eq!(evictions(&bench).await?, 0, "ends before the window");
    let status = bench.status().await?;
    same(&status, "holding", (WAITING + 6) as u64)?;
    ensure!(status["ends"]["begins_in_ms"].is_u64(), "{status}");
    ensure!(status["ends"].get("left").is_none(), "no counter was asked: {status}");

    check_waiting(clients).await?;
    let answer = call.response().await?;
    ensure_eq!((answer.status, answer.header("grpc-status")), (200, Some("14".into())), "gRPC");
    let reset = talk.piece().await.err().context("an end of the call")?;
    let reason = reset.downcast_ref::<::h2::Error>().and_then(::h2::Error::reason);
    let internal = [Reason::NO_ERROR, Reason::INTERNAL_ERROR].map(Some);
    ensure!(internal.contains(&reason), "gRPC clients report these as INTERNAL, not {reason:?}");
    ensure!(socket.receive().await.is_err(), "without frame filter there is no close frame");
    events.broken_body(framing).await.context("the event stream ends without its last chunk")?;
    let status = bench.until("holding", 2).await?;
    ensure_eq!(evictions(&bench).await?, (WAITING + 4) as u64, "counted: {status}");
    for (kind, count) in [("waiting", WAITING as u64), ("websocket", 1), ("grpc", 2)] {
        let name = format!("wasmcustom.laststream_gate_evictions_{kind}_total");
        ensure_eq!(bench.envoy.stat(&name).await?, Some(count), "{kind}");
    }
    bench.upstream.release("posts");
    for mut post in posts {
        post.response("POST").await?.expect(200)?;
    }
    bench.until("state", "drained").await?;
    bench.envoy.wait_for_log("the gate ends streams from now on", SOON).await?;
    Ok(())
}

/// Each client gets 503, nearly each with another `Retry-After`.
async fn check_waiting(clients: Vec<Client>) -> Outcome {
    let (mut seconds, count) = (BTreeSet::new(), clients.len());
    for mut client in clients {
        let answer = client.response("GET").await?.expect(503)?;
        let value = answer.header("retry-after").context("Retry-After")?;
        let value: u64 = value.parse().context("seconds")?;
        ensure!((5..=500).contains(&value), "Retry-After: {value}");
        seconds.insert(value);
    }
    ensure!(seconds.len() + 2 >= count, "{count} clients return after {seconds:?}");
    Ok(())
}
