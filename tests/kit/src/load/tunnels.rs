//! Streams that become WebSockets or CONNECT tunnels.

use super::{Targets, Turn};
use crate::h1::{Client, Request};
use crate::h2::{self, extended_connect};
use crate::websocket::{Frame, WebSocket};
use crate::{Outcome, ensure, ensure_eq};

pub(crate) async fn websocket_closed(targets: &Targets, turn: Turn) -> Outcome {
    let mut socket = WebSocket::open(targets.tcp, "/up/ws").await?;
    socket.echo(&turn.id).await?;
    socket.close(1000).await
}

pub(crate) async fn websocket_aborted(targets: &Targets, mut turn: Turn) -> Outcome {
    let mut socket = WebSocket::open(targets.tcp, "/up/ws").await?;
    socket.echo(&turn.id).await?;
    turn.pause().await;
    // dropping it is FIN without a close frame
    if turn.rng.bool() { socket.reset() } else { Ok(()) }
}

pub(crate) async fn websocket_over_http2(targets: &Targets, turn: Turn) -> Outcome {
    let mut client = h2::Client::connect(targets.tcp).await?;
    client.get("/direct").await?.expect(200)?; // by then Envoy's offer has arrived
    ensure!(client.offers_extended_connect(), "no offer of extended CONNECT");
    let mut socket = client.open(extended_connect("websocket", "/up/ws"), false).await?;
    socket.head().await?.expect(200)?;
    socket.send(Frame::text(&turn.id).bytes(true), false).await?;
    let expected = Frame::text(&turn.id).bytes(false);
    ensure_eq!(socket.piece().await?.map(|piece| piece.to_vec()), Some(expected), "the echo");
    Ok(())
}

pub(crate) async fn connect_closed(targets: &Targets, turn: Turn) -> Outcome {
    let mut tunnel = connect(targets, &turn).await?;
    tunnel.finish().await?;
    tunnel.ended().await.map(drop)
}

pub(crate) async fn connect_aborted(targets: &Targets, mut turn: Turn) -> Outcome {
    let tunnel = connect(targets, &turn).await?;
    turn.pause().await;
    tunnel.reset()
}

/// A tunnel that is open and has echoed once.
async fn connect(targets: &Targets, turn: &Turn) -> Outcome<Client> {
    let request = Request::new("CONNECT", "far.local:443").host("far.local:443");
    let mut tunnel = Client::with_request(targets.tcp, &request).await?;
    tunnel.response_head("CONNECT").await?.0.expect(200)?;
    tunnel.send(turn.id.as_bytes()).await?;
    ensure_eq!(tunnel.wire.exactly(turn.id.len()).await?.as_ref(), turn.id.as_bytes(), "the echo");
    Ok(tunnel)
}
