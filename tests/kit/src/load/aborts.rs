//! HTTP/1 clients that leave: at every stage, with FIN and with RST.

use super::{Targets, Turn};
use crate::h1::{Client, Ended, Request};
use crate::{Outcome, ensure_eq};

pub(crate) async fn after_continue(targets: &Targets, mut turn: Turn) -> Outcome {
    let mut client = Client::connect(targets.tcp).await?;
    client
        .send(
            &Request::post("/up/echo-body", "never sent")
                .header("expect", "100-continue")
                .head_bytes(),
        )
        .await?;
    ensure_eq!(client.response_head("POST").await?.0.status, 100, "the interim answer");
    turn.pause().await;
    client.reset()
}

pub(crate) async fn in_request_body(targets: &Targets, mut turn: Turn) -> Outcome {
    let request = Request::new("POST", "/up/echo-body").header("content-length", "1000");
    let mut client = Client::with_request(targets.tcp, &request).await?;
    client.send(&[b'x'; 400]).await?;
    turn.pause().await;
    let how = if turn.rng.bool() { Ended::Fin } else { Ended::Reset };
    leave(client, how).await
}

/// Much of the body is still on its way.
pub(crate) async fn in_download(targets: &Targets, mut turn: Turn) -> Outcome {
    let client = reading(targets, "/up/bytes/1500000").await?;
    turn.pause().await;
    client.reset()
}

pub(crate) async fn in_head(targets: &Targets, mut turn: Turn, how: Ended) -> Outcome {
    let mut client = Client::connect(targets.tcp).await?;
    let head = Request::get("/up/echo").bytes();
    client.send(&head[..turn.rng.usize(1..head.len() - 1)]).await?;
    turn.pause().await;
    leave(client, how).await
}

/// The upstream would never answer.
pub(crate) async fn waiting(targets: &Targets, mut turn: Turn, how: Ended) -> Outcome {
    let client = Client::with_request(targets.tcp, &Request::get("/up/hold/for-ever")).await?;
    turn.pause().await;
    leave(client, how).await
}

/// The upstream would never stop.
pub(crate) async fn in_body(targets: &Targets, mut turn: Turn, how: Ended) -> Outcome {
    let client = reading(targets, "/up/stream/3/for-ever").await?;
    turn.pause().await;
    leave(client, how).await
}

/// A client that has the first piece of a body.
async fn reading(targets: &Targets, path: &str) -> Outcome<Client> {
    let (mut client, mut framing) =
        Client::with_open_response(targets.tcp, &Request::get(path)).await?;
    client.piece(&mut framing).await?;
    Ok(client)
}

async fn leave(mut client: Client, how: Ended) -> Outcome {
    match how {
        Ended::Fin => client.finish().await, // and the rest when it is dropped
        Ended::Reset => client.reset(),
    }
}
