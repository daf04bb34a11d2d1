//! The HTTP/1 side, on raw bytes, so that it can close, reset and send nonsense at any point.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::{Behaviour, Received, Shared};
use crate::h1::{chunk, reset_on_close};
use crate::websocket;
use crate::wire::{Framing, Head, Wire};
use crate::{Outcome, bail};

const CHUNKS: usize = 10;

/// Whether the connection can carry another request.
enum Next {
    Request,
    Close,
}

pub async fn connection(tcp: TcpStream, shared: Arc<Shared>) -> Outcome {
    let mut wire = Wire::plain(tcp);
    while let Some(head) = wire.head().await? {
        let request = received(&head);
        shared.record(request.clone());
        if head.headers.get("upgrade").is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
        {
            return websocket::serve(&mut wire).await;
        }
        let body = wire.body(Framing::of_request(&head)).await?;
        if let Next::Close = answer(&mut wire, &shared, &request, &body).await? {
            return Ok(());
        }
    }
    Ok(())
}

fn received(head: &Head) -> Received {
    Received {
        method: head.word(0).to_owned(),
        path: head.word(1).to_owned(),
        scheme: None,
        authority: head.headers.get("host").unwrap_or_default(),
        headers: head.headers.clone(),
    }
}

async fn answer(
    wire: &mut Wire,
    shared: &Shared,
    request: &Received,
    body: &[u8],
) -> Outcome<Next> {
    let mut reply = Reply { wire, head_only: request.method == "HEAD" };
    match Behaviour::of(&request.path) {
        Behaviour::Chunked(count) => reply.chunked(count).await?,
        Behaviour::Stream(every, key) => stream(&mut reply, shared, every, &key).await?,
        Behaviour::EchoBody => reply.send(200, body).await?,
        Behaviour::Redirect(path) => {
            let location = format!("location: http://{}{path}\r\n", request.authority);
            reply.send_with(302, &location, b"").await?
        }
        Behaviour::Close | Behaviour::Reset | Behaviour::MidBodyReset | Behaviour::Garbage => {
            misbehave(reply.wire, Behaviour::of(&request.path)).await?;
            return Ok(Next::Close);
        }
        other => {
            let (status, body) = unless_gone(reply.wire, shared.plain(&other, request)).await?;
            reply.send(status, &body).await?;
        }
    }
    Ok(Next::Request)
}

async fn misbehave(wire: &mut Wire, behaviour: Behaviour) -> Outcome {
    match behaviour {
        Behaviour::Garbage => wire.send(b"\x16\x03\x01 this is no HTTP at all\r\n\r\n").await?,
        Behaviour::MidBodyReset => {
            wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 20000\r\n\r\n").await?;
            wire.send(&[b'x'; 10_000]).await?;
            sleep(Duration::from_millis(5)).await; // an RST at once would overtake the bytes
            reset_on_close(wire.tcp())?;
        }
        Behaviour::Reset => reset_on_close(wire.tcp())?,
        _ => {}
    }
    Ok(())
}

async fn stream(reply: &mut Reply<'_>, shared: &Shared, every: Duration, key: &str) -> Outcome {
    let mut held = shared.holds.hold(key);
    reply
        .wire
        .send(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\
              \r\n",
        )
        .await?;
    for number in 0_u64.. {
        reply.wire.send(&chunk(format!("data: {number}\n\n").as_bytes())).await?;
        match timeout(every, unless_gone(reply.wire, held.released())).await {
            Ok(Ok(())) => break,
            Ok(Err(gone)) => return Err(gone),
            Err(_) => {} // time for the next event
        }
    }
    reply.wire.send(&chunk(b"")).await
}

/// Waits, but fails when the client leaves or sends anything meanwhile.
async fn unless_gone<T>(wire: &mut Wire, wait: impl Future<Output = T>) -> Outcome<T> {
    tokio::select! {
        biased; // the client may have sent its next request
        done = wait => Ok(done),
        more = wire.fill() => match more? {
            true => bail!("the client spoke out of turn"),
            false => bail!("the client has gone"),
        },
    }
}

struct Reply<'a> {
    wire: &'a mut Wire,
    head_only: bool,
}

impl Reply<'_> {
    async fn send(&mut self, status: u16, body: &[u8]) -> Outcome {
        self.send_with(status, "", body).await
    }

    async fn send_with(&mut self, status: u16, headers: &str, body: &[u8]) -> Outcome {
        let length = if status == 204 {
            String::new()
        } else {
            format!("content-length: {}\r\n", body.len())
        };
        let mut bytes = format!("HTTP/1.1 {status} status\r\n{headers}{length}\r\n").into_bytes();
        if !self.head_only {
            bytes.extend_from_slice(body);
        }
        self.wire.send(&bytes).await
    }

    async fn chunked(&mut self, count: usize) -> Outcome {
        self.wire.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
        if self.head_only {
            return Ok(());
        }
        let piece = vec![b'x'; (count / CHUNKS).max(1)];
        for _ in 0..CHUNKS {
            self.wire.send(&chunk(&piece)).await?;
        }
        self.wire.send(&chunk(b"")).await
    }
}
