//! An HTTP/3 client over QUIC: streams, resets in both directions, connections closed or lost.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3::error::Code;
use h3_quinn::{BidiStream, OpenStreams};
use http::Request;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, VarInt};
use tokio::task::JoinHandle;

use crate::h1::Response;
use crate::h2::{header_pairs, request};
use crate::wait::{ANSWER, within};
use crate::wire::local;
use crate::{Context as _, Outcome};

/// One connection on a separate UDP socket. Dropping it closes with error code 0, which HTTP/3
/// does not know.
pub struct Client {
    send: SendRequest<OpenStreams, Bytes>,
    connection: quinn::Connection,
    driver: JoinHandle<()>,
    endpoint: Endpoint,
}

impl Client {
    /// `tls` from [`super::certificates::Authority::client_config`] with the protocol `h3`.
    pub async fn connect(to: SocketAddr, tls: &Arc<rustls::ClientConfig>) -> Outcome<Self> {
        let mut endpoint = Endpoint::client(local(0)).context("a UDP socket")?;
        let crypto = QuicClientConfig::try_from(Arc::clone(tls))?;
        endpoint.set_default_client_config(ClientConfig::new(Arc::new(crypto)));
        within(ANSWER, "opening an HTTP/3 connection", async {
            let connection = endpoint.connect(to, "localhost")?.await.context("QUIC handshake")?;
            let (mut driver, send) =
                h3::client::new(h3_quinn::Connection::new(connection.clone())).await?;
            let driver = tokio::spawn(async move {
                // the streams report why it ended
                std::future::poll_fn(|poller| driver.poll_close(poller)).await;
            });
            Ok(Self { send, connection, driver, endpoint })
        })
        .await
    }

    pub async fn get(&mut self, path: &str) -> Outcome<Response> {
        self.request(request("GET", "https", path), Bytes::new()).await
    }

    /// A whole exchange. The scheme should be `https`.
    pub async fn request(
        &mut self,
        request: Request<()>,
        body: impl Into<Bytes>,
    ) -> Outcome<Response> {
        let body = body.into();
        let mut stream = self.open(request).await?;
        if !body.is_empty() {
            stream.send(body).await?;
        }
        stream.finish().await?;
        stream.response().await
    }

    pub async fn open(&mut self, request: Request<()>) -> Outcome<Stream> {
        let stream = within(ANSWER, "an HTTP/3 stream", async {
            Ok(self.send.send_request(request).await?)
        })
        .await?;
        Ok(Stream(stream))
    }

    /// Sends CONNECTION_CLOSE with `H3_NO_ERROR`, even while streams run.
    pub async fn close(self) -> Outcome {
        self.connection.close(VarInt::from_u32(0x100), b"done");
        within(ANSWER, "the QUIC connection to drain", async {
            self.endpoint.wait_idle().await;
            Ok(())
        })
        .await
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

pub struct Stream(RequestStream<BidiStream<Bytes>, Bytes>);

impl Stream {
    pub async fn send(&mut self, piece: impl Into<Bytes>) -> Outcome {
        within(ANSWER, "sending on a stream", async { Ok(self.0.send_data(piece.into()).await?) })
            .await
    }

    /// Ends the request.
    pub async fn finish(&mut self) -> Outcome {
        within(ANSWER, "ending a request", async { Ok(self.0.finish().await?) }).await
    }

    /// Status and headers; the body follows through [`Self::piece`].
    pub async fn head(&mut self) -> Outcome<Response> {
        let head =
            within(ANSWER, "a response head", async { Ok(self.0.recv_response().await?) }).await?;
        let (status, headers) = (head.status().as_u16(), header_pairs(head.headers()));
        Ok(Response { status, headers, ..Response::default() })
    }

    /// The next piece of the body; nothing at its end.
    pub async fn piece(&mut self) -> Outcome<Option<Bytes>> {
        within(ANSWER, "more of a body", async {
            let piece = self.0.recv_data().await?;
            Ok(piece.map(|mut piece| piece.copy_to_bytes(piece.remaining())))
        })
        .await
    }

    /// Reads the rest of the response.
    pub async fn response(mut self) -> Outcome<Response> {
        let mut response = self.head().await?;
        while let Some(piece) = self.piece().await? {
            response.body.extend_from_slice(&piece);
        }
        let trailers =
            within(ANSWER, "trailers", async { Ok(self.0.recv_trailers().await?) }).await?;
        response.trailers = trailers.as_ref().map(header_pairs).unwrap_or_default();
        Ok(response)
    }

    /// RESET_STREAM and STOP_SENDING: the request is cancelled in both directions.
    pub fn reset(mut self) {
        self.0.stop_stream(Code::H3_REQUEST_CANCELLED);
        self.0.stop_sending(Code::H3_REQUEST_CANCELLED);
    }
}
