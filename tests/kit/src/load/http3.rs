//! HTTP/3: complete exchanges, a reset stream, a connection closed under its streams.

use super::{Targets, Turn};
use crate::h2::request;
use crate::h3::{Client, Stream};
use crate::{Outcome, ensure_eq};

pub async fn streams(targets: &Targets, turn: Turn) -> Outcome {
    let mut client = Client::connect(targets.quic, &targets.tls).await?;
    let echoed = client
        .request(request("POST", "https", "/up2/echo-body"), turn.id.clone())
        .await?
        .expect(200)?;
    ensure_eq!(echoed.text(), turn.id, "the echo");
    ensure_eq!(client.get("/up/bytes/3000").await?.expect(200)?.body.len(), 3000, "bytes");
    client.get("/nowhere").await?.expect(404)?;
    Ok(())
}

pub(crate) async fn stream_reset(targets: &Targets, mut turn: Turn) -> Outcome {
    let (mut client, stream) = endless(targets).await?;
    turn.pause().await;
    stream.reset();
    client.get("/direct").await?.expect(200).map(drop)
}

pub(crate) async fn connection_closed(targets: &Targets, mut turn: Turn) -> Outcome {
    let (client, _stream) = endless(targets).await?;
    turn.pause().await;
    client.close().await
}

/// A stream that the upstream would never end.
async fn endless(targets: &Targets) -> Outcome<(Client, Stream)> {
    let mut client = Client::connect(targets.quic, &targets.tls).await?;
    let mut stream = client.open(request("GET", "https", "/up/stream/3/for-ever")).await?;
    stream.finish().await?;
    stream.head().await?.expect(200)?;
    Ok((client, stream))
}
