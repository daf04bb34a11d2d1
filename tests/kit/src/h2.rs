//! An HTTP/2 client: many streams on one connection, resets with a reason, trailers, and
//! connections that vanish.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::ext::Protocol;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Request};
use rustix::net::sockopt::set_socket_linger;
use tokio::task::JoinHandle;

use crate::h1::{Connect, Ended, Response};
use crate::wait::{ANSWER, within};
use crate::wire::{Headers, tcp};
use crate::{Context as _, Error, Outcome, bail};

/// `request("POST", "https", "/path")`, for `test.local`; the caller chooses the scheme.
pub fn request(method: &str, scheme: &str, path: &str) -> Request<()> {
    let mut request = Request::new(());
    // Only a typo in a trial could fail here, and then Envoy's answer shows it.
    *request.method_mut() = method.parse().unwrap_or_default();
    *request.uri_mut() = format!("{scheme}://test.local{path}").parse().unwrap_or_default();
    request
}

pub fn get(path: &str) -> Request<()> {
    request("GET", "http", path)
}

/// A gRPC call.
pub fn grpc(path: &str) -> Request<()> {
    let mut request = request("POST", "http", path);
    let headers = [("content-type", "application/grpc"), ("te", "trailers")];
    for (name, value) in headers {
        request.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    request
}

/// Extended CONNECT (RFC 8441), such as `websocket`; Envoy must have offered it.
pub fn extended_connect(protocol: &'static str, path: &str) -> Request<()> {
    let mut request = request("CONNECT", "http", path);
    request.extensions_mut().insert(Protocol::from_static(protocol));
    request
}

/// One connection. Dropping it closes with FIN and no GOAWAY.
pub struct Client {
    send: SendRequest<Bytes>,
    connection: JoinHandle<Result<(), h2::Error>>,
    socket: OwnedFd,
}

impl Client {
    pub async fn connect(to: SocketAddr) -> Outcome<Self> {
        Self::over(Connect::to(to)).await
    }

    /// Connects from another address, after a PROXY header, or over TLS (with ALPN `h2`).
    pub async fn over(connect: Connect) -> Outcome<Self> {
        within(ANSWER, "opening an HTTP/2 connection", async {
            let io = connect.io().await?;
            let socket = tcp(&io).as_fd().try_clone_to_owned()?;
            let (send, connection) =
                Builder::new().initial_window_size(1 << 20).handshake(io).await?;
            Ok(Self { send, connection: tokio::spawn(connection), socket })
        })
        .await
    }

    pub async fn get(&mut self, path: &str) -> Outcome<Response> {
        self.request(get(path), Bytes::new()).await
    }

    /// A whole exchange.
    pub async fn request(
        &mut self,
        request: Request<()>,
        body: impl Into<Bytes>,
    ) -> Outcome<Response> {
        let body = body.into();
        let mut stream = self.open(request, body.is_empty()).await?;
        if !body.is_empty() {
            stream.send(body, true).await?;
        }
        stream.response().await
    }

    /// Starts a stream; `end` when no body follows.
    pub async fn open(&mut self, request: Request<()>, end: bool) -> Outcome<Stream> {
        within(ANSWER, "a free HTTP/2 stream", async {
            poll_fn(|poller| self.send.poll_ready(poller)).await?;
            let (head, out) = self.send.send_request(request, end)?;
            Ok(Stream { head: Some(head), out, body: None })
        })
        .await
    }

    /// Whether the server offered extended CONNECT.
    pub(crate) fn offers_extended_connect(&self) -> bool {
        self.send.is_extended_connect_protocol_enabled()
    }

    /// Sends GOAWAY when the last stream has ended, then closes.
    pub async fn go_away(self) -> Outcome {
        let Self { send, connection, socket } = self;
        drop((send, socket));
        within(ANSWER, "GOAWAY and the end of the connection", async {
            connection.await?.map_err(Error::from)
        })
        .await
    }

    /// Waits until the server has ended the connection, and returns the reason if the server sent
    /// one.
    pub async fn ended(self) -> Outcome<Option<Reason>> {
        let Self { send: _send, connection, socket: _socket } = self;
        within(ANSWER, "the end of the HTTP/2 connection", async {
            Ok(connection.await?.err().and_then(|error| error.reason()))
        })
        .await
    }

    /// Ends the connection at once, even while streams run.
    pub async fn lose(self, how: Ended) -> Outcome {
        let Self { send, connection, socket } = self;
        if how == Ended::Reset {
            set_socket_linger(&socket, Some(Duration::ZERO))?;
        }
        connection.abort();
        connection.await.ok(); // cancelled
        drop((send, socket));
        Ok(())
    }
}

pub struct Stream {
    head: Option<ResponseFuture>,
    out: SendStream<Bytes>,
    body: Option<RecvStream>,
}

impl Stream {
    pub async fn send(&mut self, piece: impl Into<Bytes>, end: bool) -> Outcome {
        within(ANSWER, "sending on a stream", send_piece(&mut self.out, piece.into(), end)).await
    }

    /// Status and headers; the body follows through [`Self::piece`].
    pub async fn head(&mut self) -> Outcome<Response> {
        let Some(head) = self.head.take() else { bail!("the response head was read already") };
        let (parts, body) =
            within(ANSWER, "a response head", async { Ok(head.await?) }).await?.into_parts();
        self.body = Some(body);
        let (status, headers) = (parts.status.as_u16(), header_pairs(&parts.headers));
        Ok(Response { status, headers, ..Response::default() })
    }

    /// The next piece of the body; nothing at its end.
    pub async fn piece(&mut self) -> Outcome<Option<Bytes>> {
        let body = self.body.as_mut().context("the response head comes first")?;
        within(ANSWER, "more of a body", receive_piece(body)).await
    }

    /// Reads the trailers, which follow the body.
    pub async fn trailers(&mut self) -> Outcome<Headers> {
        let body = self.body.as_mut().context("the response head comes first")?;
        let trailers = within(ANSWER, "trailers", async { Ok(body.trailers().await?) }).await?;
        Ok(trailers.as_ref().map(header_pairs).unwrap_or_default())
    }

    /// Reads the rest of the response.
    pub async fn response(mut self) -> Outcome<Response> {
        let mut response = self.head().await?;
        while let Some(piece) = self.piece().await? {
            response.body.extend_from_slice(&piece);
        }
        response.trailers = self.trailers().await?;
        Ok(response)
    }

    /// RST_STREAM.
    pub fn reset(mut self, reason: Reason) {
        self.out.send_reset(reason);
    }
}

pub(crate) fn header_pairs(headers: &HeaderMap) -> Headers {
    Headers(
        headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect(),
    )
}

/// Sends a piece as fast as flow control allows.
pub(crate) async fn send_piece(
    out: &mut SendStream<Bytes>,
    mut piece: Bytes,
    end: bool,
) -> Outcome {
    while !piece.is_empty() {
        out.reserve_capacity(piece.len());
        let room =
            poll_fn(|poller| out.poll_capacity(poller)).await.context("the stream is closed")??;
        let now = piece.split_to(room.min(piece.len()));
        out.send_data(now, end && piece.is_empty())?;
        if piece.is_empty() {
            return Ok(());
        }
    }
    if end { out.send_data(Bytes::new(), true).context("ending a stream") } else { Ok(()) }
}

pub(crate) async fn receive_piece(body: &mut RecvStream) -> Outcome<Option<Bytes>> {
    match body.data().await {
        Some(piece) => {
            let piece = piece?;
            body.flow_control().release_capacity(piece.len())?;
            Ok(Some(piece))
        }
        None => Ok(None),
    }
}
