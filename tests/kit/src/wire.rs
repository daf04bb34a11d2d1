//! HTTP/1 as bytes: reading heads and bodies, for the raw client and the raw upstream.

use std::collections::BTreeSet;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Mutex;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use crate::{Context as _, Outcome, bail, ensure, locked};

const LONGEST_HEAD: usize = 1 << 20;

/// The connection below HTTP: plain TCP, or TLS as a client.
pub type Io = Either<TcpStream, Box<TlsStream<TcpStream>>>;

pub(crate) fn tcp(io: &Io) -> &TcpStream {
    match io {
        Io::Left(tcp) => tcp,
        Io::Right(tls) => tls.get_ref().0,
    }
}

/// Header lines in order, names in lower case, values as they came.
#[derive(Clone, Debug, Default)]
pub struct Headers(pub Vec<(String, Vec<u8>)>);

impl Headers {
    /// The first value of that name.
    pub fn get(&self, name: &str) -> Option<String> {
        let same = |(key, _): &&(String, Vec<u8>)| key.eq_ignore_ascii_case(name);
        self.0.iter().find(same).map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    }
}

/// A request line or status line, and the header lines.
#[derive(Clone, Debug)]
pub struct Head {
    pub start: String,
    pub headers: Headers,
}

impl Head {
    fn parse(bytes: &[u8]) -> Outcome<Self> {
        let mut lines =
            bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let start = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
        let mut headers = Vec::new();
        for line in lines.filter(|line| !line.is_empty()) {
            let colon = line
                .iter()
                .position(|byte| *byte == b':')
                .context("a header line without a colon")?;
            let name = String::from_utf8_lossy(&line[..colon]).to_ascii_lowercase();
            headers.push((name, line[colon + 1..].trim_ascii().to_vec()));
        }
        Ok(Self { start, headers: Headers(headers) })
    }

    pub fn word(&self, index: usize) -> &str {
        self.start.split(' ').nth(index).unwrap_or_default()
    }
}

/// The framing of a body, which shows where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

impl Framing {
    pub fn of_request(head: &Head) -> Self {
        Self::stated(head).unwrap_or(Self::Length(0))
    }

    pub(crate) fn of_response(head: &Head, method: &str, status: u16) -> Self {
        if method == "HEAD" || status < 200 || status == 204 || status == 304 {
            return Self::Length(0);
        }
        Self::stated(head).unwrap_or(Self::UntilClose)
    }

    fn stated(head: &Head) -> Option<Self> {
        if head
            .headers
            .get("transfer-encoding")
            .is_some_and(|value| value.to_ascii_lowercase().ends_with("chunked"))
        {
            return Some(Self::Chunked);
        }
        head.headers.get("content-length").and_then(|value| value.parse().ok()).map(Self::Length)
    }
}

/// A connection, and the bytes that were read ahead.
pub struct Wire {
    pub io: Io,
    pub(crate) buffer: BytesMut,
}

impl Wire {
    pub fn new(io: Io) -> Self {
        Self { io, buffer: BytesMut::new() }
    }

    pub fn plain(tcp: TcpStream) -> Self {
        Self::new(Io::Left(tcp))
    }

    pub fn tcp(&self) -> &TcpStream {
        tcp(&self.io)
    }

    pub async fn send(&mut self, bytes: &[u8]) -> Outcome {
        self.io.write_all(bytes).await.context("sending")?;
        self.io.flush().await.context("sending")
    }

    /// Reads more bytes into the buffer; false at the end.
    pub async fn fill(&mut self) -> Outcome<bool> {
        Ok(self.io.read_buf(&mut self.buffer).await.context("receiving")? > 0)
    }

    /// The next head; nothing when the connection ended before its first byte.
    pub async fn head(&mut self) -> Outcome<Option<Head>> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                return Head::parse(&self.buffer.split_to(end + 4)).map(Some);
            }
            ensure!(self.buffer.len() < LONGEST_HEAD, "a head without end");
            if !self.fill().await? {
                ensure!(
                    self.buffer.is_empty(),
                    "the connection ended within a head: {:?}",
                    String::from_utf8_lossy(&self.buffer)
                );
                return Ok(None);
            }
        }
    }

    /// The next piece of a body; nothing at its end. Keeps `framing` up to date.
    pub async fn piece(&mut self, framing: &mut Framing) -> Outcome<Option<Bytes>> {
        match framing {
            Framing::Length(0) => Ok(None),
            Framing::Length(left) => {
                if self.buffer.is_empty() && !self.fill().await? {
                    bail!("the connection ended {left} bytes before the end of the body");
                }
                let piece = self.buffer.split_to(self.buffer.len().min(*left)).freeze();
                *left -= piece.len();
                Ok(Some(piece))
            }
            Framing::Chunked => {
                let piece = self.chunk().await?;
                if piece.is_none() {
                    *framing = Framing::Length(0);
                }
                Ok(piece)
            }
            Framing::UntilClose => Ok((!self.buffer.is_empty() || self.fill().await?)
                .then(|| self.buffer.split().freeze())),
        }
    }

    pub async fn body(&mut self, mut framing: Framing) -> Outcome<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece(&mut framing).await? {
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    /// Exactly `count` bytes, not parsed.
    pub async fn exactly(&mut self, count: usize) -> Outcome<Bytes> {
        while self.buffer.len() < count {
            ensure!(
                self.fill().await?,
                "the connection ended {} bytes early",
                count - self.buffer.len()
            );
        }
        Ok(self.buffer.split_to(count).freeze())
    }

    async fn chunk(&mut self) -> Outcome<Option<Bytes>> {
        let line = self.line().await?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size =
            usize::from_str_radix(size, 16).with_context(|| format!("a chunk size {size:?}"))?;
        if size == 0 {
            while !self.line().await?.is_empty() {} // trailers
            return Ok(None);
        }
        let chunk = self.exactly(size).await?;
        self.exactly(2).await?;
        Ok(Some(chunk))
    }

    async fn line(&mut self) -> Outcome<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|window| window == b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.buffer.advance(end + 2);
                return Ok(line);
            }
            ensure!(self.fill().await?, "the connection ended within a line");
        }
    }
}

/// `127.0.0.1:port`
pub fn local(port: u16) -> SocketAddr {
    SocketAddr::V4(SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, port))
}

/// A free port that no other case of this process was given, and that the kernel never assigns to a
/// listener on port 0: Envoy's listeners share their ports with others of the same user. A listener
/// that keeps its address hands its socket on when it is replaced; one that changes it, even from
/// port 0 to the assigned port, loses connections in between.
pub fn free_port() -> Outcome<u16> {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .context("the kernel's range of ports")?;
    let lowest: u16 = range
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .parse()
        .with_context(|| format!("the range {range:?}"))?;
    let mut given = locked(&GIVEN);
    if given.len() > usize::from(lowest / 4) {
        given.clear();
    }
    for _ in 0..100 {
        let port = fastrand::u16(lowest / 2..lowest);
        if !given.contains(&port) && std::net::TcpListener::bind(local(port)).is_ok() {
            given.insert(port);
            return Ok(port);
        }
    }
    bail!("no free port between {} and {lowest}", lowest / 2)
}
