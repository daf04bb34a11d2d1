//! One request to somebody beside us, and its answer: a limit on time and size, a fresh connection, no redirects, no proxy.

use std::io::{self, Read as _};
use std::time::Duration;

use ureq::http::{Method, Request};
use ureq::{Agent, Error};

use super::trouble::Trouble;

/// A hundred streams with long paths are not half as much.
const LONGEST: u64 = 4 << 20;

/// Asks.
#[derive(Debug, Clone)]
pub struct Http(Agent);

/// What came back.
#[derive(Debug)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Its body; what is not UTF-8 in it is replaced.
    pub body: String,
}

impl Default for Http {
    fn default() -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(0) // a kept one may belong to an Envoy that has gone
            .proxy(None) // nothing between a program and its own pod
            .user_agent(concat!("laststream/", env!("CARGO_PKG_VERSION")));
        Self(config.build().into())
    }
}

impl Http {
    /// Asks, and waits so long for all of the answer.
    ///
    /// # Errors
    /// There was no answer.
    pub fn ask(&self, method: Method, url: &str, headers: &[(&str, &str)], limit: Duration) -> Result<Response, Trouble> {
        let mut request = Request::builder().method(method).uri(url).header("connection", "close");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        // The text of this error does not quote values.
        let request = request.body(()).map_err(|error| Trouble::Other(error.to_string()))?;
        let request = self.0.configure_request(request).allow_non_standard_methods(false).timeout_global(Some(limit)).build();
        let response = self.0.run(request).map_err(|error| told(error, limit))?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        let mut reader = response.into_body().into_with_config().limit(LONGEST).reader();
        reader.read_to_end(&mut body).map_err(|error| told(error.into(), limit))?;
        Ok(Response { status, body: String::from_utf8_lossy(&body).into_owned() })
    }
}

fn told(error: Error, limit: Duration) -> Trouble {
    match error {
        Error::Timeout(_) => Trouble::Silence(limit),
        Error::HostNotFound => Trouble::NoHost,
        Error::ConnectionFailed => Trouble::Refused,
        Error::Io(error) => of_io(&error, limit),
        error => Trouble::Other(error.to_string()),
    }
}

fn of_io(error: &io::Error, limit: Duration) -> Trouble {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut,
        UnexpectedEof,
    };
    match error.kind() {
        ConnectionRefused => Trouble::Refused,
        TimedOut => Trouble::Silence(limit),
        HostUnreachable | NetworkDown | NetworkUnreachable => Trouble::Unreachable(error.to_string()),
        BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof => Trouble::Broken(error.to_string()),
        _ => Trouble::Other(error.to_string()),
    }
}
