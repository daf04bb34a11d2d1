//! HTTP/2: streams side by side, resets, GOAWAY, connections lost.

use h2::Reason;

use super::{Targets, Turn};
use crate::h1::Ended;
use crate::h2::{Client, get, grpc, request};
use crate::{Outcome, ensure_eq};

/// Five streams, two of them reset while they wait or send.
pub(crate) async fn multiplexed_with_resets(targets: &Targets, mut turn: Turn) -> Outcome {
    let mut client = Client::connect(targets.tcp).await?;
    let waiting = client.open(get("/up/hold/for-ever"), true).await?;
    let mut endless = client.open(get("/up2/stream/3/for-ever"), true).await?;
    let quick = client.open(get("/up2/bytes/2000"), true).await?;
    let slow = client.open(get("/up/delay/5"), true).await?;
    let mut posted = client.open(request("POST", "http", "/up2/echo-body"), false).await?;
    endless.head().await?.expect(200)?;
    endless.piece().await?;
    turn.pause().await;
    waiting.reset(Reason::CANCEL);
    endless.reset(Reason::INTERNAL_ERROR);
    posted.send(turn.id.clone(), true).await?;
    ensure_eq!(posted.response().await?.expect(200)?.text(), turn.id, "the echo");
    ensure_eq!(quick.response().await?.expect(200)?.body.len(), 2000, "bytes");
    slow.response().await?.expect(200)?;
    Ok(())
}

pub(crate) async fn go_away_when_done(targets: &Targets, _: Turn) -> Outcome {
    let mut client = Client::connect(targets.tcp).await?;
    client.get("/up/echo").await?.expect(200)?;
    client.get("/nowhere").await?.expect(404)?;
    client.go_away().await
}

/// Messages in both directions, then trailers.
pub(crate) async fn grpc_stream(targets: &Targets, _: Turn) -> Outcome {
    let mut client = Client::connect(targets.tcp).await?;
    let mut stream = client.open(grpc("/up2/grpc"), false).await?;
    stream.send("ping", false).await?;
    stream.head().await?.expect(200)?;
    ensure_eq!(stream.piece().await?.as_deref(), Some(&b"ping"[..]), "the first message");
    stream.send("pong", true).await?;
    ensure_eq!(stream.piece().await?.as_deref(), Some(&b"pong"[..]), "the second message");
    while stream.piece().await?.is_some() {}
    ensure_eq!(stream.trailers().await?.get("grpc-status"), Some("0".into()), "grpc-status");
    Ok(())
}

/// The reset may come before Envoy has seen the request's head.
pub(crate) async fn reset_at_once(targets: &Targets, _: Turn) -> Outcome {
    let mut client = Client::connect(targets.tcp).await?;
    client.open(get("/up/hold/for-ever"), true).await?.reset(Reason::CANCEL);
    client.get("/direct").await?.expect(200).map(drop)
}

/// Three streams run, one of them with its body under way.
pub(crate) async fn lost(targets: &Targets, mut turn: Turn, how: Ended) -> Outcome {
    let mut client = Client::connect(targets.tcp).await?;
    let mut endless = client.open(get("/up/stream/3/for-ever"), true).await?;
    let waiting = client.open(get("/up/hold/for-ever"), true).await?;
    let sending = client.open(request("POST", "http", "/up2/grpc"), false).await?;
    endless.head().await?.expect(200)?;
    turn.pause().await;
    client.lose(how).await?;
    drop((endless, waiting, sending));
    Ok(())
}
