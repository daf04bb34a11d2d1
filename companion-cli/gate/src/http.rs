//! One request to a program in the same pod or on this machine: plain HTTP on a fresh connection,
//! with limits on time and size, without redirects and proxies.

use std::io::{self, ErrorKind};
use std::time::Duration;

use http::{Method, Request};
use ureq::Agent;

use super::error::GateError;

/// The size limit of a body. A hundred streams with long paths take less than half of it.
const LONGEST: u64 = 4 << 20;
/// The time limit for a connection.
const CONNECT: Duration = Duration::from_secs(5);

/// An answer with its whole body.
#[derive(Debug)]
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
    let request = request.body(()).map_err(|error| GateError::Other(error.to_string()))?;
    send(request, limit).map_err(|error| gate_error(error, limit))
}

fn send(request: Request<()>, limit: Duration) -> Result<Response, ureq::Error> {
    let agent: Agent = Agent::config_builder()
        .timeout_global(Some(limit))
        .timeout_connect(Some(CONNECT))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None) // no proxy between a program and its own pod
        .user_agent(concat!("laststream/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
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
