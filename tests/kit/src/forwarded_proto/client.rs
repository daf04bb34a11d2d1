//! One connection of a row, and the requests on it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Request};
use tokio::net::TcpSocket;

use super::cells::Line;
use super::table::Protocol;
use crate::h1::{Connect, Response, proxy_v1, proxy_v2};
use crate::wait::within;
use crate::wire::{Framing, Io, Wire};
use crate::{Context as _, Error, Outcome, bail, ensure};
use crate::{h2, h3};

const PATIENCE: Duration = Duration::from_secs(20);
/// What a PROXY header names as the address that was asked for: TLS, if it were believed.
const PROXY_DESTINATION: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 200), 443);
const PROXY_SOURCE_PORT: u16 = 50_000;

pub enum Connection {
    H1(Box<Wire>),
    H2(Box<h2::Client>),
    H3(Box<h3::Client>),
}

/// Where to, and how.
pub struct Way {
    pub to: SocketAddr,
    pub from: IpAddr,
    pub protocol: Protocol,
    /// A PROXY header comes first and names this client.
    pub proxied_for: Option<Ipv4Addr>,
    pub tls: Option<Arc<rustls::ClientConfig>>,
}

impl Connection {
    pub async fn open(way: Way) -> Outcome<Self> {
        let (IpAddr::V4(from), SocketAddr::V4(_)) = (way.from, way.to) else {
            return over_ipv6(way).await;
        };
        if way.protocol == Protocol::H3 {
            let tls = way.tls.context("QUIC without certificates")?;
            return Ok(Self::H3(Box::new(h3::Client::connect(way.to, &tls).await?)));
        }
        let mut connect = Connect::to(way.to).from(from);
        if let Some(client) = way.proxied_for {
            // Both versions are in use: one for each protocol, so that every row shows both.
            let header = if way.protocol == Protocol::H1 { proxy_v1 } else { proxy_v2 };
            connect = connect.preface(header((client, PROXY_SOURCE_PORT), PROXY_DESTINATION));
        }
        if let Some(tls) = way.tls {
            connect = connect.tls(tls, "localhost");
        }
        match way.protocol {
            Protocol::H2 => Ok(Self::H2(Box::new(h2::Client::over(connect).await?))),
            _ => Ok(Self::H1(Box::new(Wire::new(
                within(PATIENCE, "opening a connection", connect.io()).await?,
            )))),
        }
    }

    /// One exchange with that virtual host. The path carries the row, for the upstream to be
    /// recognised by.
    pub async fn get(&mut self, host: &str, path: &str, lines: &[Line]) -> Outcome<Response> {
        match self {
            Self::H1(wire) => within(PATIENCE, "an answer", http1(wire, host, path, lines)).await,
            Self::H2(client) => client.request(request("http", host, path, lines)?, "").await,
            Self::H3(client) => client.request(request("https", host, path, lines)?, "").await,
        }
    }
}

async fn over_ipv6(way: Way) -> Outcome<Connection> {
    let socket = TcpSocket::new_v6()?;
    socket.bind((way.from, 0).into()).with_context(|| format!("binding to {}", way.from))?;
    let tcp = within(PATIENCE, "opening a connection", async { Ok(socket.connect(way.to).await?) })
        .await?;
    Ok(Connection::H1(Box::new(Wire::new(Io::Plain(tcp)))))
}

/// Byte for byte. A `:scheme` makes the target absolute, which is how HTTP/1 tells one.
async fn http1(wire: &mut Wire, host: &str, path: &str, lines: &[Line]) -> Outcome<Response> {
    let scheme = lines
        .iter()
        .find(|line| line.name == ":scheme")
        .map(|line| String::from_utf8_lossy(&line.value));
    let target = scheme.map_or(path.to_owned(), |scheme| format!("{scheme}://{host}{path}"));
    let mut bytes = format!("GET {target} HTTP/1.1\r\nhost: {host}\r\n").into_bytes();
    for line in lines.iter().filter(|line| line.name != ":scheme") {
        bytes.extend_from_slice(&[line.name.as_bytes(), b": ", &line.value, b"\r\n"].concat());
    }
    bytes.extend_from_slice(b"\r\n");
    wire.send(&bytes).await?;
    let Some(head) = wire.head().await? else { bail!("the connection ended without an answer") };
    let status = head
        .word(1)
        .parse()
        .map_err(|_| Error::msg(format!("no status line: {:?}", head.start)))?;
    wire.body(Framing::of_response(&head, "GET", status)).await?;
    Ok(Response { status, headers: head.headers, ..Response::default() })
}

/// For HTTP/2 and HTTP/3.
pub fn request(scheme: &str, host: &str, path: &str, lines: &[Line]) -> Outcome<Request<()>> {
    ensure!(lines.iter().all(|line| line.name != "connection"), "`connection` belongs to HTTP/1");
    let given = lines
        .iter()
        .find(|line| line.name == ":scheme")
        .map(|line| String::from_utf8_lossy(&line.value).into_owned());
    let mut request = Request::new(());
    *request.uri_mut() =
        format!("{}://{host}{path}", given.as_deref().unwrap_or(scheme)).parse()?;
    for line in lines.iter().filter(|line| line.name != ":scheme") {
        let name =
            HeaderName::from_bytes(line.name.as_bytes()).with_context(|| line.name.clone())?;
        request
            .headers_mut()
            .append(name, HeaderValue::from_bytes(&line.value).with_context(|| line.name.clone())?);
    }
    Ok(request)
}
