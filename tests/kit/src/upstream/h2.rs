//! The HTTP/2 side, with prior knowledge.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response, StatusCode};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{Behaviour, Received, Shared};
use crate::h2::{header_pairs, receive_piece, send_piece};
use crate::{Context as _, Error, Outcome};

pub async fn connection(tcp: TcpStream, shared: Arc<Shared>) -> Outcome {
    let mut builder = server::Builder::new();
    builder.enable_connect_protocol().max_concurrent_streams(10_000).initial_window_size(1 << 20);
    let mut connection = builder.handshake::<_, Bytes>(tcp).await?;
    let lose_connection = Arc::new(Notify::new());
    let mut streams = JoinSet::new();
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    streams.spawn(
                        stream(request, respond, Arc::clone(&shared), Arc::clone(&lose_connection))
                    );
                }
                Some(Err(error)) => return Err(error.into()),
                None => return Ok(()),
            },
            () = lose_connection.notified() => return Ok(()),
            Some(_) = streams.join_next() => {}
        }
    }
}

fn received(request: &Request<RecvStream>) -> Received {
    let uri = request.uri();
    Received {
        method: request.method().to_string(),
        path: uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        scheme: uri.scheme_str().map(String::from),
        authority: uri.authority().map(ToString::to_string).unwrap_or_default(),
        headers: header_pairs(request.headers()),
    }
}

async fn stream(
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    shared: Arc<Shared>,
    lose_connection: Arc<Notify>,
) -> Outcome {
    let seen = received(&request);
    shared.record(seen.clone());
    let mut reply = Reply { respond, head_only: seen.method == "HEAD" };
    let mut body = request.into_body();
    match Behaviour::of(&seen.path) {
        Behaviour::Close | Behaviour::Garbage => lose_connection.notify_one(),
        Behaviour::Reset => reply.respond.send_reset(Reason::INTERNAL_ERROR),
        Behaviour::MidBodyReset => {
            let mut out = reply.head(200, &[("content-length", "20000")])?;
            send_piece(&mut out, Bytes::from_static(&[b'x'; 10_000]), false).await?;
            sleep(Duration::from_millis(5)).await; // the reset would discard what is still queued
            out.send_reset(Reason::INTERNAL_ERROR);
        }
        Behaviour::EchoBody => echo(&mut reply, &mut body, None).await?,
        Behaviour::Grpc => echo(&mut reply, &mut body, Some("0")).await?,
        Behaviour::Stream(every, key) => events(&mut reply, &shared, every, &key).await?,
        other => plain(&mut reply, &mut body, &shared, &seen, other).await?,
    }
    Ok(())
}

/// Answers once the whole request has arrived.
async fn plain(
    reply: &mut Reply,
    body: &mut RecvStream,
    shared: &Shared,
    seen: &Received,
    behaviour: Behaviour,
) -> Outcome {
    while receive_piece(body).await?.is_some() {}
    match behaviour {
        Behaviour::Chunked(count) => reply.send(200, vec![b'x'; count]).await,
        Behaviour::Redirect(path) => {
            let location = format!("http://{}{path}", seen.authority);
            let mut out = reply.head(302, &[("location", &location)])?;
            send_piece(&mut out, Bytes::new(), true).await
        }
        other => {
            let (status, body) = reply.unless_reset(shared.plain(&other, seen)).await?;
            reply.send(status, body).await
        }
    }
}

async fn echo(reply: &mut Reply, body: &mut RecvStream, grpc_status: Option<&str>) -> Outcome {
    let kind = if grpc_status.is_some() { "application/grpc" } else { "application/octet-stream" };
    let mut out = reply.head(200, &[("content-type", kind)])?;
    while let Some(piece) = receive_piece(body).await? {
        send_piece(&mut out, piece, false).await?;
    }
    match grpc_status {
        Some(status) => {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", status.parse()?);
            out.send_trailers(trailers).context("sending trailers")
        }
        None => send_piece(&mut out, Bytes::new(), true).await,
    }
}

async fn events(reply: &mut Reply, shared: &Shared, every: Duration, key: &str) -> Outcome {
    let mut held = shared.holds.hold(key);
    let mut out = reply.head(200, &[("content-type", "text/event-stream")])?;
    for number in 0_u64.. {
        send_piece(&mut out, format!("data: {number}\n\n").into(), false).await?;
        if timeout(every, held.released()).await.is_ok() {
            break;
        }
    }
    send_piece(&mut out, Bytes::new(), true).await
}

struct Reply {
    respond: SendResponse<Bytes>,
    head_only: bool,
}

impl Reply {
    fn head(&mut self, status: u16, headers: &[(&str, &str)]) -> Outcome<SendStream<Bytes>> {
        let mut response = Response::builder().status(StatusCode::from_u16(status)?);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        self.respond.send_response(response.body(())?, false).context("sending a response head")
    }

    async fn send(&mut self, status: u16, body: impl Into<Bytes>) -> Outcome {
        let body = body.into();
        let length = body.len().to_string();
        let mut out = self.head(status, &[("content-length", &length)])?;
        send_piece(&mut out, if self.head_only { Bytes::new() } else { body }, true).await
    }

    /// Waits, but fails when the client resets the stream.
    async fn unless_reset<T>(&mut self, wait: impl Future<Output = T>) -> Outcome<T> {
        tokio::select! {
            done = wait => Ok(done),
            reset = std::future::poll_fn(|poller| self.respond.poll_reset(poller)) => {
                Err(Error::msg(format!("the client reset the stream: {reset:?}")))
            }
        }
    }
}
