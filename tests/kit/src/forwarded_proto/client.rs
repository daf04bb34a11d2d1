//! One connection of a row, and the requests on it.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Request};

use super::cells::Line;
use super::proxy_header::ProxyHeader;
use super::table::Protocol;
use crate::h1::{self, Connect, Response};
use crate::{Context as _, Outcome, bail, ensure};
use crate::{h2, h3};

const PATIENCE: Duration = Duration::from_secs(120);

pub enum Connection {
    H1(Box<h1::Client>),
    H2(Box<h2::Client>),
    H3(Box<h3::Client>),
}

/// The address and the protocol of a connection.
pub struct Way {
    pub to: SocketAddr,
    pub from: IpAddr,
    pub protocol: Protocol,
    /// A PROXY header comes first.
    pub proxied: Option<ProxyHeader>,
    pub tls: Option<Arc<rustls::ClientConfig>>,
}

impl Connection {
    pub async fn open(way: Way) -> Outcome<Self> {
        if way.protocol == Protocol::H3 {
            let tls = way.tls.context("QUIC without certificates")?;
            return Ok(Self::H3(Box::new(h3::Client::connect(way.to, &tls).await?)));
        }
        let mut connect = Connect::to(way.to).from(way.from);
        if let Some(header) = way.proxied {
            connect = connect.preface(header.pieces(way.to)?);
        }
        if let Some(tls) = way.tls {
            connect = connect.tls(tls, "localhost");
        }
        match way.protocol {
            Protocol::H2 => Ok(Self::H2(Box::new(h2::Client::over(connect).await?))),
            _ => Ok(Self::H1(Box::new(connect.open().await?.patience(PATIENCE)))),
        }
    }

    /// One exchange with that virtual host. The path names the row, so that its request is
    /// recognised at the upstream.
    pub async fn get(&mut self, host: &str, path: &str, lines: &[Line]) -> Outcome<Response> {
        match self {
            Self::H1(client) => client.request(&http1(host, path, lines)).await,
            Self::H2(client) => client.request(request("http", host, path, lines)?, "").await,
            Self::H3(client) => client.request(request("https", host, path, lines)?, "").await,
        }
    }
}

/// The request byte for byte. A `:scheme` makes the target absolute, because HTTP/1 has no other
/// place for a scheme.
fn http1(host: &str, path: &str, lines: &[Line]) -> h1::Request {
    let target = scheme(lines).map_or(path.to_owned(), |scheme| format!("{scheme}://{host}{path}"));
    headers(lines).fold(h1::Request::get(&target).host(host), |request, line| {
        request.header(&line.name, &line.value)
    })
}

/// The value of `:scheme`.
fn scheme(lines: &[Line]) -> Option<Cow<'_, str>> {
    let line = lines.iter().find(|line| line.name == ":scheme")?;
    Some(String::from_utf8_lossy(&line.value))
}

fn headers(lines: &[Line]) -> impl Iterator<Item = &Line> {
    lines.iter().filter(|line| line.name != ":scheme")
}

/// A request for HTTP/2 and HTTP/3.
pub fn request(scheme: &str, host: &str, path: &str, lines: &[Line]) -> Outcome<Request<()>> {
    ensure!(lines.iter().all(|line| line.name != "connection"), "`connection` belongs to HTTP/1");
    let scheme = self::scheme(lines).unwrap_or(scheme.into());
    let mut request = Request::new(());
    *request.uri_mut() = format!("{scheme}://{host}{path}").parse()?;
    for line in headers(lines) {
        let name =
            HeaderName::from_bytes(line.name.as_bytes()).with_context(|| line.name.clone())?;
        request
            .headers_mut()
            .append(name, HeaderValue::from_bytes(&line.value).with_context(|| line.name.clone())?);
    }
    Ok(request)
}

/// Whether the answer is a redirect to https; any other but 200 is an error.
pub fn redirected(answer: &Response) -> Outcome<bool> {
    match (answer.status, answer.headers.get("location")) {
        (200, _) => Ok(false),
        (301, Some(location)) if location.starts_with("https://") => Ok(true),
        (status, location) => {
            bail!("neither served nor redirected to https: {status}, location {location:?}")
        }
    }
}
