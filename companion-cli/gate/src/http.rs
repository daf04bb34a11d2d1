//! One request to a program in the same pod or on this machine: plain HTTP on a fresh connection,
//! with limits on time and size, without redirects and proxies.

use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use http::request::Builder;
use http::{Method, Request, Uri};
use ureq::Agent;
use ureq::config::Config;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::time::Duration as Span;
use ureq::unversioned::transport::{Connector, DefaultConnector, NextTimeout};

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

/// Sends a request, and waits at most this long for the whole answer.
pub fn request(
    method: Method,
    url: &str,
    headers: &[(&'static str, String)],
    limit: Duration,
) -> Result<Response, GateError> {
    let mut request = Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    send(DefaultConnector::default(), request, limit)
}

/// The same to a program that listens at a Unix socket.
pub fn request_at_socket(
    socket: &Path,
    method: Method,
    path: &str,
    limit: Duration,
) -> Result<Response, GateError> {
    let request = Request::builder().method(method).uri(format!("http://127.0.0.1{path}"));
    send(Socket(socket.to_owned()), request, limit)
}

/// An address in numbers is not looked up. That would be a thread for each request, which might not
/// start.
#[derive(Debug, Default)]
struct Addresses(DefaultResolver);

impl Resolver for Addresses {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        mut timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        if host.parse::<IpAddr>().is_ok() {
            timeout.after = Span::NotHappening;
        }
        self.0.resolve(uri, config, timeout)
    }
}

fn send(
    connector: impl Connector,
    request: Builder,
    limit: Duration,
) -> Result<Response, GateError> {
    let request = request.body(()).map_err(|error| GateError::Other(error.to_string()))?;
    let configuration = Agent::config_builder()
        .timeout_global(Some(limit))
        .timeout_connect(Some(CONNECT))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None) // no proxy between a program and its own pod
        .user_agent(concat!("laststream/", env!("CARGO_PKG_VERSION")))
        .build();
    let agent = Agent::with_parts(configuration, connector, Addresses::default());
    answer(&agent, request).map_err(|error| gate_error(error, limit))
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
        | ErrorKind::NetworkUnreachable
        | ErrorKind::NotFound // these two are of a socket
        | ErrorKind::PermissionDenied => GateError::Unreachable(text),
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
