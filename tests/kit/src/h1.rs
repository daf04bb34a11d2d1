//! A raw HTTP/1 client: it sends any bytes as they are, and leaves with FIN or with RST.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

use crate::forwarded_proto::proxy_header::ProxyHeader;
use crate::wait::{ANSWER, within};
use crate::wire::{Framing, Headers, Io, Wire};
use crate::{Context as _, Error, Outcome, bail, ensure};

/// Long enough for each piece to get its own segment.
const BETWEEN_PIECES: Duration = Duration::from_millis(3);

/// A request as bytes, with `host: test.local` unless the caller sets another or removes it.
#[derive(Clone)]
pub struct Request {
    method: String,
    target: String,
    version: &'static str,
    headers: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
}

impl Request {
    pub fn new(method: &str, target: &str) -> Self {
        let headers = vec![(b"host".to_vec(), b"test.local".to_vec())];
        Self {
            method: method.into(),
            target: target.into(),
            version: "HTTP/1.1",
            headers,
            body: Vec::new(),
        }
    }

    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    pub fn post(target: &str, body: impl AsRef<[u8]>) -> Self {
        Self::new("POST", target).body(body)
    }

    pub fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self
    }

    pub fn host(self, host: &str) -> Self {
        let mut without = self.without("host");
        without.headers.insert(0, (b"host".to_vec(), host.into()));
        without
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(key, _)| !key.eq_ignore_ascii_case(name.as_bytes()));
        self
    }

    /// Adds a header line as it is, also a repeated one or one with invalid bytes.
    pub fn header(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.as_ref().to_vec(), value.as_ref().to_vec()));
        self
    }

    /// A body with its `content-length`.
    pub fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        self.header("content-length", body.as_ref().len().to_string())
    }

    /// A body in chunks.
    pub fn chunked<B: AsRef<[u8]>>(mut self, chunks: impl IntoIterator<Item = B>) -> Self {
        self.body = chunks
            .into_iter()
            .flat_map(|piece| chunk(piece.as_ref()))
            .chain(*b"0\r\n\r\n")
            .collect();
        self.header("transfer-encoding", "chunked")
    }

    pub fn head_bytes(&self) -> Vec<u8> {
        let mut bytes =
            format!("{} {} {}\r\n", self.method, self.target, self.version).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(&[name, b": ".as_slice(), value, b"\r\n"].concat());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    }

    pub fn bytes(&self) -> Vec<u8> {
        [self.head_bytes(), self.body.clone()].concat()
    }
}

/// One chunk of a chunked body; an empty one ends the body.
pub(crate) fn chunk(piece: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()
}

/// A response, over any protocol.
#[derive(Debug, Default)]
pub struct Response {
    pub status: u16,
    pub headers: Headers,
    pub body: Vec<u8>,
    pub trailers: Headers,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Outcome<Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("a body that should be JSON: {:?}", self.text()))
    }

    /// Fails with the body when the status is another.
    pub fn expect(self, status: u16) -> Outcome<Self> {
        ensure!(self.status == status, "expected {status}, got {}: {}", self.status, self.text());
        Ok(self)
    }
}

/// How the other side ended the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Fin,
    Reset,
}

/// The options of a new connection.
pub struct Connect {
    to: SocketAddr,
    from: Option<IpAddr>,
    preface: Vec<Vec<u8>>,
    tls: Option<(Arc<ClientConfig>, String)>,
}

impl Connect {
    pub fn to(to: SocketAddr) -> Self {
        Self { to, from: None, preface: Vec::new(), tls: None }
    }

    /// Connects as another direct peer, from any address in 127.0.0.0/8.
    pub fn from(mut self, source: IpAddr) -> Self {
        self.from = Some(source);
        self
    }

    /// Bytes before everything else, each piece in a separate segment.
    pub(crate) fn preface(mut self, pieces: Vec<Vec<u8>>) -> Self {
        self.preface = pieces;
        self
    }

    /// A PROXY protocol header, as [`ProxyHeader`] is written: `v2 192.0.2.1:443 from 127.0.0.2`.
    pub fn proxied(self, header: &str) -> Outcome<Self> {
        let pieces = ProxyHeader::read(header)?.pieces(self.to)?;
        Ok(self.preface(pieces))
    }

    pub fn tls(mut self, config: Arc<ClientConfig>, name: &str) -> Self {
        self.tls = Some((config, name.into()));
        self
    }

    /// The connection alone, for clients of other protocols.
    pub async fn io(self) -> Outcome<Io> {
        let socket = if self.to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        if let Some(source) = self.from {
            socket.bind((source, 0).into()).with_context(|| format!("binding to {source}"))?;
        }
        let mut tcp =
            socket.connect(self.to).await.with_context(|| format!("connecting to {}", self.to))?;
        tcp.set_nodelay(true)?;
        for piece in &self.preface {
            tcp.write_all(piece).await?;
            if self.preface.len() > 1 {
                tokio::time::sleep(BETWEEN_PIECES).await;
            }
        }
        let Some((config, name)) = self.tls else { return Ok(Io::Left(tcp)) };
        let name = ServerName::try_from(name)?;
        let tls = tokio_rustls::TlsConnector::from(config)
            .connect(name, tcp)
            .await
            .context("TLS handshake")?;
        Ok(Io::Right(Box::new(tls)))
    }

    pub async fn open(self) -> Outcome<Client> {
        let io = within(ANSWER, "opening a connection", self.io()).await?;
        Ok(Client { wire: Wire::new(io), patience: ANSWER })
    }
}

/// One connection. Dropping it closes with FIN.
pub struct Client {
    pub wire: Wire,
    patience: Duration,
}

impl Client {
    pub async fn connect(to: SocketAddr) -> Outcome<Self> {
        Connect::to(to).open().await
    }

    /// A connection on which this request was sent. Its response is still to be read.
    pub async fn with_request(to: SocketAddr, request: &Request) -> Outcome<Self> {
        let mut client = Self::connect(to).await?;
        client.send(&request.bytes()).await?;
        Ok(client)
    }

    /// [`Self::with_request`] for a GET, after the head of its 200. The body follows through
    /// [`Self::piece`].
    pub async fn with_open_response(to: SocketAddr, request: &Request) -> Outcome<(Self, Framing)> {
        let mut client = Self::with_request(to, request).await?;
        let (response, framing) = client.response_head("GET").await?;
        response.expect(200)?;
        Ok((client, framing))
    }

    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    pub async fn get(&mut self, target: &str) -> Outcome<Response> {
        self.request(&Request::get(target)).await
    }

    pub async fn request(&mut self, request: &Request) -> Outcome<Response> {
        self.send(&request.bytes()).await?;
        within(
            self.patience,
            &format!("{} {}", request.method, request.target),
            receive(&mut self.wire, &request.method),
        )
        .await
    }

    pub async fn send(&mut self, bytes: &[u8]) -> Outcome {
        within(self.patience, "sending", self.wire.send(bytes)).await
    }

    /// The next response, to a request with that method.
    pub async fn response(&mut self, method: &str) -> Outcome<Response> {
        within(self.patience, &format!("the response to {method}"), receive(&mut self.wire, method))
            .await
    }

    /// Reads only the head; the body follows through [`Self::piece`] with the returned framing.
    pub async fn response_head(&mut self, method: &str) -> Outcome<(Response, Framing)> {
        within(self.patience, "a response head", receive_head(&mut self.wire, method)).await
    }

    pub async fn piece(&mut self, framing: &mut Framing) -> Outcome<Option<Bytes>> {
        within(self.patience, "more of a body", self.wire.piece(framing)).await
    }

    /// Reads a body that the other side must break off.
    pub async fn broken_body(&mut self, mut framing: Framing) -> Outcome {
        loop {
            match self.piece(&mut framing).await {
                Ok(Some(_)) => {}
                Ok(None) => bail!("a broken body looked complete"),
                Err(_) => return Ok(()),
            }
        }
    }

    /// Reads until the other side ends the connection.
    pub async fn ended(&mut self) -> Outcome<Ended> {
        within(self.patience, "the end of the connection", async {
            loop {
                match self.wire.fill().await {
                    Ok(true) => {}
                    Ok(false) => return Ok(Ended::Fin),
                    Err(_) => return Ok(Ended::Reset),
                }
            }
        })
        .await
    }

    /// Sends FIN. The other direction stays open.
    pub async fn finish(&mut self) -> Outcome {
        self.wire.io.shutdown().await.context("FIN")
    }

    /// Leaves with RST.
    pub fn reset(self) -> Outcome {
        reset_on_close(self.wire.tcp())
    }
}

/// Makes the close of the connection an RST.
pub(crate) fn reset_on_close(tcp: &TcpStream) -> Outcome {
    tcp.set_zero_linger().context("SO_LINGER 0")
}

/// Sends one request on a new connection.
pub async fn once(to: SocketAddr, request: &Request) -> Outcome<Response> {
    Client::connect(to).await?.request(request).await
}

async fn receive(wire: &mut Wire, method: &str) -> Outcome<Response> {
    loop {
        let (mut response, framing) = receive_head(wire, method).await?;
        if response.status != 100 {
            response.body = wire.body(framing).await?;
            return Ok(response);
        }
    }
}

async fn receive_head(wire: &mut Wire, method: &str) -> Outcome<(Response, Framing)> {
    let Some(head) = wire.head().await? else { bail!("the connection ended without a response") };
    let status = head
        .word(1)
        .parse()
        .map_err(|_| Error::msg(format!("no status line: {:?}", head.start)))?;
    let framing = Framing::of_response(&head, method, status);
    Ok((Response { status, headers: head.headers, ..Response::default() }, framing))
}
