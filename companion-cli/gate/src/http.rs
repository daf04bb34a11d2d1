//! One request to a program in the same pod or on this machine: plain HTTP on a fresh connection,
//! with limits on time and size, without redirects and proxies.

use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use http::header::CONTENT_LENGTH;
use http::{Method, Request, Uri};
use ureq::Agent;
use ureq::config::Config;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::time::Duration as Span;
use ureq::unversioned::transport::{
    ConnectionDetails, Connector, DefaultConnector, NextTimeout, Transport,
};

use super::error::GateError;
use super::socket::Socket;

/// The size limit of a body. A hundred streams with long paths take less than half of it.
const LONGEST: u64 = 4 << 20;
/// The time limit for a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// An answer with its whole body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Bytes that are not UTF-8 are replaced.
    pub body: String,
}

/// Why there is no answer.
#[derive(Debug)]
pub struct NoAnswer {
    pub error: GateError,
    /// Whether there was a connection, so that the request may have arrived.
    pub was_connected: bool,
}

/// Sends a request, and waits at most this long for the whole answer.
pub fn request(
    method: Method,
    url: &str,
    headers: &[(&'static str, String)],
    limit: Duration,
) -> Result<Response, GateError> {
    exchange(None, method, url, headers, limit).map_err(|failed| failed.error)
}

/// The same to a program that listens at a Unix socket, whatever host is in the URL.
pub fn exchange(
    socket: Option<&Path>,
    method: Method,
    url: &str,
    headers: &[(&'static str, String)],
    limit: Duration,
) -> Result<Response, NoAnswer> {
    let is_connected = Arc::<AtomicBool>::default();
    let failed = |error| NoAnswer { error, was_connected: is_connected.load(Ordering::Relaxed) };
    let mut request = Request::builder().method(&method).uri(url);
    if method == Method::POST {
        request = request.header(CONTENT_LENGTH, "0"); // or it would be a body in chunks
    }
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let request = request.body(()).map_err(|error| failed(GateError::Other(error.to_string())))?;
    let note = Arc::clone(&is_connected);
    let agent = match socket {
        Some(path) => agent(Noted { inner: Socket(path.to_owned()), note }, limit),
        None => agent(Noted { inner: DefaultConnector::default(), note }, limit),
    };
    answer(&agent, request).map_err(|error| failed(gate_error(error, limit)))
}

/// Notes that there is a connection.
#[derive(Debug)]
struct Noted<C> {
    inner: C,
    note: Arc<AtomicBool>,
}

impl<C: Connector<(), Out: Transport>> Connector for Noted<C> {
    type Out = C::Out;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<()>,
    ) -> Result<Option<C::Out>, ureq::Error> {
        let connection = self.inner.connect(details, chained)?;
        self.note.store(true, Ordering::Relaxed);
        Ok(connection)
    }
}

/// Looks names up in a thread of its own, as ureq does, but one that may fail to start. An address
/// in numbers needs none.
#[derive(Debug, Default)]
struct Addresses;

impl Resolver for Addresses {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let without_end = NextTimeout { after: Span::NotHappening, ..timeout };
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        if host.parse::<IpAddr>().is_ok() {
            return DefaultResolver::default().resolve(uri, config, without_end);
        }
        let (sender, found) = sync_channel(1);
        let (uri, config) = (uri.clone(), config.clone());
        let lookup = move || {
            let addresses = DefaultResolver::default().resolve(&uri, &config, without_end);
            sender.send(addresses).ok(); // the time may be over
        };
        thread::Builder::new().spawn(lookup)?;
        found.recv_timeout(*timeout.after).unwrap_or(Err(ureq::Error::Timeout(timeout.reason)))
    }
}

fn agent(connector: impl Connector, limit: Duration) -> Agent {
    let configuration = Agent::config_builder()
        .timeout_global(Some(limit))
        .timeout_connect(Some(CONNECT))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None) // no proxy between a program and its own pod
        .user_agent(concat!("laststream/", env!("CARGO_PKG_VERSION")))
        .build();
    Agent::with_parts(configuration, connector, Addresses)
}

fn answer(agent: &Agent, request: Request<()>) -> Result<Response, ureq::Error> {
    let mut response = agent.run(request)?;
    let body = response.body_mut().with_config().limit(LONGEST).read_to_vec()?;
    let body = String::from_utf8_lossy(&body).into_owned();
    Ok(Response { status: response.status().as_u16(), body })
}

fn gate_error(error: ureq::Error, limit: Duration) -> GateError {
    match error {
        ureq::Error::Io(error) => of_io(&error, limit),
        ureq::Error::Timeout(_) => GateError::Timeout(limit),
        ureq::Error::HostNotFound => GateError::NoHost,
        ureq::Error::BodyExceedsLimit(most) => {
            GateError::Other(format!("the answer is larger than {most} bytes"))
        }
        error => GateError::Other(error.to_string()),
    }
}

fn of_io(error: &io::Error, limit: Duration) -> GateError {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::ConnectionRefused => GateError::ConnectionRefused,
        ErrorKind::AddrNotAvailable
        | ErrorKind::HostUnreachable
        | ErrorKind::NetworkDown
        | ErrorKind::NetworkUnreachable => GateError::Unreachable(text),
        ErrorKind::TimedOut => GateError::Timeout(limit),
        ErrorKind::UnexpectedEof => {
            GateError::ConnectionClosed("it ended before the answer did".to_owned())
        }
        ErrorKind::BrokenPipe
        | ErrorKind::ConnectionAborted
        | ErrorKind::ConnectionReset
        | ErrorKind::NotConnected => GateError::ConnectionClosed(text),
        // The standard library has no kind for it.
        _ if text.starts_with("failed to lookup address") => GateError::NoHost,
        _ => GateError::Other(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_an_address_is_no_host() {
        let url = "http://laststream.invalid:1/";
        let answer = request(Method::GET, url, &[], Duration::from_secs(5));
        assert_eq!(answer.map(|response| response.status), Err(GateError::NoHost));
    }
}
